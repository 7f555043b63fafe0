"""Tags and branches as JSON."""

import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidRefError, InvalidTypeError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.tags import TagRecord, check_tag_name, list_tags, tag_path

SECOND = 1_000_000_000


def _tag(text: str) -> TagRecord:
    return TagRecord.parse(text.encode(), "t.json")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (SECOND // 2, "1970-01-01T00:00:00.500Z"),
        (1_234_567_000, "1970-01-01T00:00:01.234567Z"),
        (1_795_180_252_779_058_545, "2026-11-20T13:10:52.779058545Z"),
    ],
)
def test_tag_times_are_written_with_the_necessary_digits(nanoseconds: int, text: str) -> None:
    record = TagRecord(branch=None, version=1, manifest_size=2, created_at_ns=nanoseconds)
    assert record.to_json() == (
        b'{\n  "branch": null,\n  "version": 1,\n  "createdAt": "' + text.encode() + b'",\n'
        b'  "updatedAt": null,\n  "manifestSize": 2,\n  "metadata": {}\n}'
    )
    assert TagRecord.parse(record.to_json(), "t.json") == record


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T01:00:00.25+01:00", SECOND // 4),
        ("1970-01-01t00:00:01z", SECOND),
        ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
        ("1969-12-31T23:59:59.5Z", -SECOND // 2),
    ],
)
def test_tag_times_with_time_zones_and_fractional_seconds_are_read(text: str, nanoseconds: int) -> None:
    assert _tag(f'{{"version":1,"manifestSize":2,"createdAt":"{text}"}}').created_at_ns == nanoseconds


def test_tag_branch_is_main_when_null_empty_or_main() -> None:
    for branch, is_main in (("null", True), ('"main"', True), ('""', True), ('"b"', False)):
        assert _tag(f'{{"version":1,"manifestSize":2,"branch":{branch}}}').is_on_main_line is is_main


def test_tag_metadata_that_is_not_unicode_raises_invalid_input() -> None:
    with pytest.raises(InvalidInputError, match="not valid Unicode"):
        TagRecord(branch=None, version=1, manifest_size=2, metadata={"a": "\ud800"}).to_json()


def test_deeply_nested_tag_file_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="not valid JSON"):
        _tag("[" * 100_000)


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_tag_time_outside_the_calendar_because_of_its_time_zone_raises_corrupt_data(time: str) -> None:
    data = f'{{"version":1,"manifestSize":2,"createdAt":"{time}"}}'.encode()
    with pytest.raises(CorruptDataError, match="createdAt must be an RFC 3339 time"):
        TagRecord.parse(data, "x")


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_tag_times_at_the_ends_of_the_calendar_survive_a_round_trip(time: str) -> None:
    data = f'{{"version":1,"manifestSize":2,"createdAt":"{time}"}}'.encode()
    record = TagRecord.parse(data, "x")
    assert TagRecord.parse(record.to_json(), "x") == record


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "a.b.c", "-", "lock", "1"])
def test_valid_tag_name_is_accepted(name: str) -> None:
    check_tag_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "a.", "a..b", "a/b", "a\\b", "a b", "é", "a.lock", "a\n"])
def test_malformed_tag_name_raises_invalid_ref(name: str) -> None:
    with pytest.raises(InvalidRefError):
        check_tag_name(name)


@pytest.mark.parametrize("name", [5, None, b"a", ["a"]])
def test_tag_name_that_is_not_text_raises_invalid_type(name: object) -> None:
    with pytest.raises(InvalidTypeError, match="a tag name must be a string"):
        check_tag_name(name)


def test_tag_listing_includes_only_json_files_directly_in_the_tags_directory() -> None:
    store = MemoryStore()
    tag = b'{"version":1,"manifestSize":2}'
    store.put(tag_path(store, "t", "b"), tag)
    store.put(tag_path(store, "t", "a"), tag)
    store.put("t/_refs/tags/sub/c.json", b"x")
    store.put("t/_refs/tags/.tmpd", b"x")
    assert list(list_tags(store, "t")) == ["a", "b"]
