"""Damaged and hostile table metadata: manifests, paths, numbers, flags, refs, and missing files.

``tests/support/hostile_tables.py`` describes the permitted outcomes. The default run takes samples; ``-m exhaustive``
flips every bit of complete manifests and tries every truncation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import lance_core
from lance_core.api.dataset import LanceDataset
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    InvalidTypeError,
    LanceError,
    NotFoundError,
    RefNotFoundError,
    RetryableCommitConflictError,
    UnsupportedFeatureFlagError,
    VersionNotFoundError,
)
from lance_core.proto import pb_table
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from tests.support.counting_store import CountingStore
from tests.support.hostile import sampled
from tests.support.hostile_tables import ROOT, ROWS, SmallTable, cut, flipped, small_table, sweep, use

MAX_U64 = 2**64 - 1

HOSTILE_PATHS = [
    "../x.lance",
    "..",
    "a/../../x",
    "./x",
    "a/./b",
    "a//b",
    "/etc/passwd",
    "//etc/passwd",
    "file:///etc/passwd",
    "s3://bucket/x",
    "http:/x",
    "memory://other/x",
    "C:\\x",
    "data\\..\\x",
    "a\0b",
    "x/%00",
    "%2e%2e/x",
    "%2E%2e%2fx",
    "%252e%252e/x",
    "..%5cx",
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    return small_table(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> SmallTable:
    return small_table(tmp_path_factory.mktemp("stable"), enable_stable_row_ids=True)


@pytest.fixture(params=["plain", "stable"])
def table(request: pytest.FixtureRequest) -> SmallTable:
    found: SmallTable = request.getfixturevalue(request.param)
    return found


# --- the bytes of a manifest ---------------------------------------------------------------------


def test_an_undamaged_table_is_read(table: SmallTable) -> None:
    assert use(table.open()).equals(table.rows)


def test_a_damaged_manifest_gives_rows_or_raises_lance_errors(table: SmallTable) -> None:
    data = table.manifest_bytes
    outcomes = sweep(table, flipped(data, sampled(range(len(data) * 8), 70)))
    assert outcomes["corrupt"] > 0
    assert set(sweep(table, cut(data, sampled(range(len(data)), 20)))) == {"corrupt"}


@pytest.mark.soak
def test_a_manifest_damaged_at_any_bit_gives_rows_or_raises_lance_errors(table: SmallTable) -> None:
    data = table.manifest_bytes
    outcomes = sweep(table, flipped(data, range(len(data) * 8)))
    assert outcomes["corrupt"] > len(data)
    assert outcomes["equal"] > 0


@pytest.mark.exhaustive
def test_a_manifest_truncated_anywhere_raises_corrupt_data(table: SmallTable) -> None:
    data = table.manifest_bytes
    assert set(sweep(table, cut(data, range(len(data))))) == {"corrupt"}


@pytest.mark.parametrize("data", [b"", b"L", b"LANC", b"\0" * 16, b"\xff" * 64, b"PAR1" * 100])
def test_a_file_that_is_not_a_manifest_is_corrupt_and_blocks_writers(plain: SmallTable, data: bytes) -> None:
    broken = plain.with_manifest(data)
    with pytest.raises(CorruptDataError, match=broken.manifest_path):
        broken.open()
    older = broken.open(broken.version - 1)
    before = sorted(info.path for info in broken.store.list_recursive(f"{ROOT}/_versions"))
    with pytest.raises(CorruptDataError):
        lance_core.write_dataset(ROWS, older, mode="append")
    assert sorted(info.path for info in broken.store.list_recursive(f"{ROOT}/_versions")) == before


# --- flags ---------------------------------------------------------------------------------------


def _with_flags(reader: int, writer: int) -> Callable[[pb_table.Manifest], None]:
    def change(message: pb_table.Manifest) -> None:
        message.reader_feature_flags, message.writer_feature_flags = reader, writer

    return change


HALF_SET_IS_CORRUPT = {8, 10, 14, 16}
REFUSED_TO_READERS = {6, 9, 12, 13, *range(16, 64)}
DENIED_BY_THE_CONTENT = {1}
"""Stable row ids that the fragments do not have."""
UNIQUE_FIELD_IDS = 15
"""Goes with a counter that the table does not have, and is never for readers."""


@pytest.mark.parametrize("bit", range(64))
@pytest.mark.parametrize("words", [(1, 1), (1, 0), (0, 1)])
@pytest.mark.sampled(64)
def test_every_feature_flag_is_supported_or_refused(plain: SmallTable, bit: int, words: tuple[int, int]) -> None:
    reader, writer = ((1 << bit) * word for word in words)
    flagged = plain.with_changes(_with_flags(reader, writer))
    if bit == UNIQUE_FIELD_IDS or (bit in HALF_SET_IS_CORRUPT and reader != writer):
        with pytest.raises(CorruptDataError, match=str(1 << bit)):
            flagged.open()
    elif reader and bit in REFUSED_TO_READERS:
        with pytest.raises(UnsupportedFeatureFlagError, match=str(1 << bit)):
            flagged.open()
    elif reader and bit in DENIED_BY_THE_CONTENT:
        with pytest.raises(CorruptDataError):
            flagged.open()
    else:
        assert use(flagged.open()).equals(plain.rows)
        if bit in REFUSED_TO_READERS:
            with pytest.raises(UnsupportedFeatureFlagError, match=str(1 << bit)):
                lance_core.write_dataset(ROWS, flagged.open(), mode="append")


# --- paths ---------------------------------------------------------------------------------------


def _set_data_path(message: pb_table.Manifest, path: str) -> None:
    message.fragments[0].files[0].path = path


def _set_data_path_of_base(message: pb_table.Manifest, path: str) -> None:
    message.base_paths.add(id=0, path="/srv/other", is_dataset_root=True)
    message.reader_feature_flags |= 16
    message.writer_feature_flags |= 16
    message.fragments[0].files[0].base_id = 0
    message.fragments[0].files[0].path = path


def _set_transaction(message: pb_table.Manifest, path: str) -> None:
    message.transaction_file = path


@pytest.mark.parametrize("place", [_set_data_path, _set_data_path_of_base, _set_transaction])
@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_paths_in_a_manifest_cannot_leave_its_directory(
    plain: SmallTable, path: str, place: Callable[[pb_table.Manifest, str], None]
) -> None:
    hostile = plain.with_changes(lambda message: place(message, path))
    with pytest.raises(CorruptDataError):
        use(hostile.open())


@pytest.mark.parametrize("path", ["", "a\0b", "s3://bucket/../x", "memory://x/%00", "nonsense://x/y", "x/%00"])
def test_invalid_base_paths_raise_lance_errors(plain: SmallTable, path: str) -> None:
    def change(message: pb_table.Manifest) -> None:
        _set_data_path_of_base(message, "x.lance")
        message.base_paths[0].path = path

    with pytest.raises(LanceError):
        use(plain.with_changes(change).open())


@pytest.mark.parametrize("branch", ["../../x", "/", "a\0b", "..", "%2e%2e"])
def test_a_branch_name_in_a_manifest_cannot_lead_outside_the_table(plain: SmallTable, branch: str) -> None:
    dataset = plain.with_changes(lambda message: setattr(message, "branch", branch)).open()
    assert use(dataset).equals(plain.rows)
    with pytest.raises(RefNotFoundError):
        dataset.checkout_version("nothing")
    # The tag is on the root itself, whose path does not end with the name of the branch.
    assert dataset.checkout_version("here").version == 2


def test_deletes_do_not_follow_a_symbolic_link_out_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.lance").write_bytes(b"x")
    uri = str(tmp_path / "table")
    lance_core.write_dataset(ROWS, uri)
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    (tmp_path / "table" / "data" / "linked").symlink_to(outside, target_is_directory=True)
    lance_core.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert (outside / "precious.lance").exists()


# --- numbers -------------------------------------------------------------------------------------


def _set(path: str, value: int) -> Callable[[pb_table.Manifest], None]:
    """Set a field of the manifest, given as "fragments.1.id"."""

    def change(message: pb_table.Manifest) -> None:
        *parents, name = path.split(".")
        found: object = message
        for parent in parents:
            found = found[int(parent)] if parent.isdigit() else getattr(found, parent)  # type: ignore[index]  # a repeated field
        setattr(found, name, value)

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("fragments.0.physical_rows", 2**32 + 1),
        ("fragments.0.physical_rows", 2**63),
        ("fragments.0.physical_rows", MAX_U64),
        ("fragments.0.physical_rows", 2),
        ("fragments.0.physical_rows", 4),
        ("fragments.1.deletion_file.num_deleted_rows", MAX_U64),
        ("fragments.1.deletion_file.num_deleted_rows", 4),
        ("fragments.1.id", 2**32),
        ("fragments.1.id", MAX_U64),
        ("fields.0.id", -7),
        ("fields.1.parent_id", 99),
        ("fragments.0.files.0.file_size_bytes", 2**63),
        ("fragments.0.files.0.file_size_bytes", 1),
        ("fragments.0.files.0.file_major_version", 2**31),
        ("fragments.0.files.0.base_id", 2**32 - 1),
    ],
)
def test_manifest_numbers_out_of_range_raise_lance_errors(plain: SmallTable, path: str, value: int) -> None:
    changed = plain.with_changes(_set(path, value))
    with pytest.raises(LanceError):
        _validated(changed)


@pytest.mark.parametrize("fragment_id", [2**32, MAX_U64])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_to_a_table_with_a_fragment_id_out_of_range_raises_corrupt_data(
    plain: SmallTable, mode: str, fragment_id: int
) -> None:
    changed = plain.with_changes(_set("fragments.1.id", fragment_id))
    with pytest.raises(CorruptDataError, match=str(fragment_id)):
        lance_core.write_dataset(ROWS, changed.open(), mode=mode)


OPERATIONS: dict[str, Callable[[LanceDataset], object]] = {
    "count": lambda dataset: dataset.count_rows(),
    "scan": lambda dataset: dataset.to_table(),
    "filter": lambda dataset: dataset.to_table(filter="a = 2"),
    "take": lambda dataset: dataset.take([0]),
    "validate": lambda dataset: dataset.validate(),
    "append": lambda dataset: lance_core.write_dataset(ROWS, dataset, mode="append"),
    "overwrite": lambda dataset: lance_core.write_dataset(ROWS, dataset, mode="overwrite"),
    "delete": lambda dataset: dataset.delete("a = 2"),
    "compact": lambda dataset: dataset.optimize.compact_files(),
    "config": lambda dataset: dataset.update_config({"key": "value"}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("position", [0, 1])
def test_two_fragments_with_the_same_id_are_refused_before_a_file_is_read(
    plain: SmallTable, position: int, operation: str
) -> None:
    """The files of a fragment that is listed thousands of times would be read thousands of times."""

    def repeat(message: pb_table.Manifest) -> None:
        message.fragments.extend([message.fragments[position]] * 2000)

    store = CountingStore(plain.with_changes(repeat).store)
    changed = replace(plain, store=store)
    with pytest.raises(CorruptDataError, match=f"two fragments with id {position}"):
        OPERATIONS[operation](changed.open())
    assert not [call for call in store.calls if call.method in ("get", "get_ranges") and "_versions" not in call.path]


@pytest.mark.parametrize("seconds", [2**62, -(2**62)])
def test_a_timestamp_beyond_the_calendar_is_shown_as_1970(plain: SmallTable, seconds: int) -> None:
    """This is what the reference shows; one damaged timestamp must not make all versions inaccessible."""
    changed = plain.with_changes(_set("timestamp.seconds", seconds))
    dataset = changed.open()
    assert dataset.versions()[-1]["timestamp"] == dataset.get_version()["timestamp"] == datetime.fromtimestamp(0)


def _validated(table: SmallTable) -> None:
    dataset = table.open()
    dataset.get_version()
    dataset.validate()
    use(dataset)


def test_a_deletion_count_above_the_row_count_does_not_drop_the_fragment(plain: SmallTable) -> None:
    changed = plain.with_changes(_set("fragments.1.deletion_file.num_deleted_rows", 99))
    appended = lance_core.write_dataset(ROWS, changed.open(), mode="append")
    assert [fragment.id for fragment in appended.manifest.fragments] == [0, 1, 2]


def test_an_append_that_would_overflow_the_ids_of_a_manifest_is_refused(plain: SmallTable, stable: SmallTable) -> None:
    for table, change, words in (
        (plain, _set("max_fragment_id", 2**32 - 1), "32 bits"),
        (stable, _set("next_row_id", MAX_U64), "64 bits"),
        (stable, _set("next_row_id", MAX_U64 - 5), "64 bits"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            lance_core.write_dataset(ROWS, table.with_changes(change).open(), mode="append")
    # The last assigned id is 2**64 - 2, because the next id must fit as well.
    last = lance_core.write_dataset(ROWS, stable.with_changes(_set("next_row_id", MAX_U64 - 6)).open(), mode="append")
    assert last.manifest.message.next_row_id == MAX_U64


VERSIONS_THAT_ARE_NOT_THERE = [0, -1, 6, 2**31, 2**63 - 1, 2**63, MAX_U64, 2**64, 2**200, -(2**70)]


@pytest.mark.parametrize("version", VERSIONS_THAT_ARE_NOT_THERE)
def test_version_numbers_out_of_range_raise_version_not_found(plain: SmallTable, version: int) -> None:
    dataset = plain.open()
    with pytest.raises(VersionNotFoundError):
        dataset.checkout_version(version)
    with pytest.raises(VersionNotFoundError):
        dataset.checkout_version((None, version))
    with pytest.raises((VersionNotFoundError, InvalidInputError)):
        dataset.tags.create("new", version)
    with pytest.raises(LanceError):
        dataset.read_transaction(version)


@pytest.mark.parametrize("version", [1.0, 1.5, float("nan"), b"1", [1], {}, object()])
def test_versions_of_the_wrong_type_raise_invalid_type(plain: SmallTable, version: object) -> None:
    with pytest.raises(InvalidTypeError):
        plain.open().checkout_version(version)  # type: ignore[arg-type]  # what is tested


def test_booleans_are_accepted_as_version_numbers_as_in_pylance(plain: SmallTable) -> None:
    assert plain.open().checkout_version(True).version == 1
    with pytest.raises(VersionNotFoundError):
        plain.open().checkout_version(False)


@pytest.mark.parametrize("version", ["latest", "1", "", "ü", "a/b", "../here", "%2e%2e/x", "a\0b", "x" * 5000])
def test_opening_an_unknown_tag_raises_ref_not_found(plain: SmallTable, version: str) -> None:
    with pytest.raises(RefNotFoundError):
        plain.open().checkout_version(version)


# --- missing files -------------------------------------------------------------------------------


def _without(table: SmallTable, directory: str) -> SmallTable:
    bare = table.with_manifest(table.manifest_bytes)
    for info in list(bare.store.list_recursive(f"{ROOT}/{directory}")):
        bare.store.delete(info.path)
    return bare


@pytest.mark.parametrize("directory", ["data", "_deletions"])
def test_missing_files_of_a_table_are_named_in_the_error(table: SmallTable, directory: str) -> None:
    dataset = _without(table, directory).open()
    assert dataset.count_rows() == 5
    for read in (dataset.to_table, dataset.validate, lambda: dataset.delete("a = 1")):
        with pytest.raises(NotFoundError, match=f"{ROOT}/{directory}/"):
            read()


def test_a_table_with_missing_transaction_and_index_files_is_read_and_written(table: SmallTable) -> None:
    bare = _without(_without(table, "_transactions"), "_indices")
    dataset = bare.open()
    assert use(dataset).equals(table.rows)
    assert len(dataset.get_transactions(10)) == 5
    assert lance_core.write_dataset(ROWS, dataset, mode="append").count_rows() == 11


def test_a_version_with_a_missing_transaction_file_blocks_only_stale_commits(plain: SmallTable) -> None:
    bare = _without(plain, "_transactions")
    older = bare.open(bare.version - 1)
    file = parse_manifest_file(bare.manifest_bytes, "m")
    message = pb_table.Manifest()
    message.CopyFrom(file.message)
    message.ClearField("transaction_section")
    data = serialize_manifest_file(message, index_section=None, transaction=None)
    bare.store.put(bare.manifest_path, data)
    assert bare.open().read_transaction(bare.version) is None
    assert lance_core.write_dataset(ROWS, bare.open(), mode="append").version == bare.version + 1
    with pytest.raises(RetryableCommitConflictError, match="no transaction"):
        lance_core.write_dataset(ROWS, older, mode="append")
    # Operations that can be planned again are.
    assert older.delete("a = 1")["num_deleted_rows"] == 2


# --- refs ----------------------------------------------------------------------------------------

HOSTILE_DOCUMENTS = [
    b"",
    b"null",
    b"[]",
    b"{",
    b"\xff\xfe",
    b'"text"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"version": 1}',
    b'{"version": "2", "manifestSize": 1}',
    b'{"version": 2.0, "manifestSize": 1}',
    b'{"version": true, "manifestSize": 1}',
    b'{"version": -1, "manifestSize": 1}',
    b'{"version": null, "manifestSize": 1}',
    b'{"version": 18446744073709551616, "manifestSize": 1}',
    b'{"version": 1e400, "manifestSize": 1}',
    b'{"version": NaN, "manifestSize": 1}',
    b'{"version": ' + b"9" * 10_000 + b', "manifestSize": 1}',
    b'{"version": 2, "manifestSize": 1, "branch": 5}',
    b'{"version": 2, "manifestSize": 1, "metadata": 5}',
    b'{"version": 2, "manifestSize": 1, "metadata": {"a": 1}}',
    b'{"version": 2, "manifestSize": 1, "createdAt": 5}',
    b'{"version": 2, "manifestSize": 1, "createdAt": "yesterday"}',
    b'{"version": 2, "manifestSize": 1, "createdAt": "9999-99-99T99:99:99Z"}',
]


@pytest.mark.parametrize("document", HOSTILE_DOCUMENTS, ids=lambda document: repr(document[:60]))
def test_a_damaged_tag_raises_corrupt_data_and_does_not_affect_other_tags(plain: SmallTable, document: bytes) -> None:
    hostile = plain.with_manifest(plain.manifest_bytes)
    path = f"{ROOT}/_refs/tags/bad.json"
    hostile.store.put(path, document)
    dataset = hostile.open()
    for ask in (dataset.tags.list, lambda: dataset.checkout_version("bad"), lambda: dataset.tags.get_version("bad")):
        with pytest.raises(CorruptDataError, match=r"bad\.json"):
            ask()
    assert dataset.checkout_version("here").version == 2


@pytest.mark.parametrize("document", HOSTILE_DOCUMENTS[:8], ids=lambda document: repr(document[:60]))
def test_a_damaged_branch_record_raises_corrupt_data_that_names_its_file(plain: SmallTable, document: bytes) -> None:
    hostile = plain.with_manifest(plain.manifest_bytes)
    hostile.store.put(f"{ROOT}/_refs/branches/bad.json", document)
    with pytest.raises(CorruptDataError, match=r"bad\.json"):
        hostile.open().branches.list()


@pytest.mark.parametrize("branch", ["../../x", "/etc", "a//b", "..", "", "main", "a\0b", "%2e%2e", "x\\y"])
def test_a_tag_of_a_branch_with_a_hostile_name_cannot_lead_outside_the_table(plain: SmallTable, branch: str) -> None:
    hostile = plain.with_manifest(plain.manifest_bytes)
    document = {"version": 2, "manifestSize": 1, "branch": branch}
    hostile.store.put(f"{ROOT}/_refs/tags/led.json", json.dumps(document).encode())
    if branch in ("", "main"):
        assert hostile.open().checkout_version("led").version == 2
        return
    with pytest.raises(RefNotFoundError):
        hostile.open().checkout_version("led")


@pytest.mark.parametrize("name", ["ü", "tag\u0301", "日本", "a b", "ａ", "a/b", "a\0", "\u202egat", "é" * 300])
def test_tags_with_non_ascii_names_are_refused(plain: SmallTable, name: str) -> None:
    dataset = plain.with_manifest(plain.manifest_bytes).open()
    with pytest.raises(lance_core.InvalidRefError):
        dataset.tags.create(name, 2)
    assert set(dataset.tags.list()) == {"here"}
