"""Tags of pylance and lance_core: each library reads, moves, and deletes tags of the other."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InvalidRefError,
    LanceError,
    RefAlreadyExistsError,
    RefNotFoundError,
    VersionNotFoundError,
)
from lance_core.metadata import lease_version

ROWS = pa.table({"a": [1, 2]})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    for _ in range(3):
        lance.write_dataset(ROWS, uri, mode="append")
    return uri


def _file(uri: str, name: str) -> Path:
    return Path(uri) / "_refs" / "tags" / f"{name}.json"


def _same(uri: str) -> dict:
    """Return the tags, which must be equal in both libraries."""
    ours, theirs = lance_core.dataset(uri).tags, lance.dataset(uri).tags
    assert ours.list() == theirs.list()
    for order in (None, "asc", "desc"):
        assert ours.list_ordered(order) == theirs.list_ordered(order)
    for name, tag in ours.list().items():
        assert ours.get_version(name) == theirs.get_version(name) == tag["version"]
    return ours.list()


def test_tags_of_lance_core_are_used_by_pylance(uri: str) -> None:
    ours, theirs = lance_core.dataset(uri).tags, lance.dataset(uri).tags
    ours.create("first", 1)
    ours.create("now")
    ours.create("copy", "first")
    ours.create("a.B-c_9", (None, 2))
    ours.create("latest", ("main", None))
    assert {name: tag["version"] for name, tag in _same(uri).items()} == {
        "first": 1,
        "now": 3,
        "copy": 1,
        "a.B-c_9": 2,
        "latest": 3,
    }
    assert lance.dataset(uri, version="first").count_rows() == 2
    theirs.update("first", 2)
    theirs.replace_metadata("now", {"key": "välue"})
    theirs.delete("copy")
    tags = _same(uri)
    assert tags["first"]["version"] == 2
    assert tags["first"]["updated_at"] > tags["first"]["created_at"]
    assert tags["now"]["metadata"] == {"key": "välue"}
    assert lance_core.dataset(uri, version="first").version == 2


def test_tags_of_pylance_are_changed_and_deleted_by_lance_core(uri: str) -> None:
    ours, theirs = lance_core.dataset(uri).tags, lance.dataset(uri).tags
    theirs.create("first", 1)
    theirs.create("second", 2)
    before = _same(uri)["first"]
    ours.update("first", 3)
    ours.replace_metadata("first", {"a": "b", "ü": '\x01"\\/'})
    ours.delete("second")
    after = _same(uri)
    assert list(after) == ["first"]
    assert after["first"]["version"] == 3
    assert after["first"]["created_at"] == before["created_at"]
    assert after["first"]["updated_at"] > before["updated_at"]
    assert after["first"]["metadata"] == {"a": "b", "ü": '\x01"\\/'}
    ours.replace_metadata("first", {})
    assert _same(uri)["first"]["updated_at"] == after["first"]["updated_at"]


def test_tag_files_have_the_same_bytes_as_in_pylance(uri: str) -> None:
    """When a library updates a tag file of the other, only the requested fields change."""
    theirs = lance.dataset(uri).tags
    theirs.create("x", 2)
    written = _file(uri, "x").read_bytes()
    theirs.replace_metadata("x", {"é": '\x01\x7f"\\/\u2028'})
    with_metadata = _file(uri, "x").read_bytes()
    ours = lance_core.dataset(uri).tags
    ours.replace_metadata("x", {})
    assert _file(uri, "x").read_bytes() == written
    ours.replace_metadata("x", {"é": '\x01\x7f"\\/\u2028'})
    assert _file(uri, "x").read_bytes() == with_metadata


def test_a_tag_created_without_a_version_refers_to_the_version_of_the_handle(uri: str) -> None:
    for library, name in ((lance, "theirs"), (lance_core, "ours")):
        library.dataset(uri, version=2).tags.create(name)
        library.dataset(uri, version=2).tags.create(f"{name}-latest", (None, None))
        assert lance_core.dataset(uri).tags.get_version(name) == 2
        assert lance_core.dataset(uri).tags.get_version(f"{name}-latest") == 3


MISTAKES = {
    "exists": (lambda tags: tags.create("x", 1), RefAlreadyExistsError),
    "no version": (lambda tags: tags.create("y", 99), VersionNotFoundError),
    "no version comes first": (lambda tags: tags.create("x", 99), VersionNotFoundError),
    "version 0": (lambda tags: tags.create("y", 0), VersionNotFoundError),
    "no such reference": (lambda tags: tags.create("y", "nope"), RefNotFoundError),
    "empty": (lambda tags: tags.create("", 1), InvalidRefError),
    "slash": (lambda tags: tags.create("a/b", 1), InvalidRefError),
    "space": (lambda tags: tags.create("a b", 1), InvalidRefError),
    "dots": (lambda tags: tags.create("a..b", 1), InvalidRefError),
    "first dot": (lambda tags: tags.create(".a", 1), InvalidRefError),
    "last dot": (lambda tags: tags.create("a.", 1), InvalidRefError),
    "lock": (lambda tags: tags.create("a.lock", 1), InvalidRefError),
    "name comes first": (lambda tags: tags.create("a..b", 99), InvalidRefError),
    "update absent": (lambda tags: tags.update("nope", 1), RefNotFoundError),
    "update to no version": (lambda tags: tags.update("x", 99), VersionNotFoundError),
    "delete absent": (lambda tags: tags.delete("nope"), RefNotFoundError),
    "get absent": (lambda tags: tags.get_version("nope"), RefNotFoundError),
    "metadata of absent": (lambda tags: tags.replace_metadata("nope", {}), RefNotFoundError),
    "metadata": (lambda tags: tags.replace_metadata("x", {"a": 1}), TypeError),
    "metadata that is none": (lambda tags: tags.replace_metadata("x", 5), TypeError),
    "name that is none": (lambda tags: tags.create(5, 1), TypeError),
    "order that is none": (lambda tags: tags.list_ordered(5), TypeError),
    "order": (lambda tags: tags.list_ordered("up"), ValueError),
    "neither": (lambda tags: tags.create("y", 1.5), (ValueError, TypeError)),
}


@pytest.mark.parametrize(("mistake", "error"), MISTAKES.values(), ids=MISTAKES)
def test_invalid_tag_calls_raise_the_same_errors_as_in_pylance(
    uri: str, mistake: Callable[[object], object], error: type[Exception]
) -> None:
    lance.dataset(uri).tags.create("x", 1)
    with pytest.raises(error) as ours:
        mistake(lance_core.dataset(uri).tags)
    with pytest.raises((OSError, ValueError, TypeError)) as theirs:
        mistake(lance.dataset(uri).tags)
    assert isinstance(ours.value, LanceError)
    assert isinstance(ours.value, type(theirs.value))
    assert {name: tag["version"] for name, tag in _same(uri).items()} == {"x": 1}


@pytest.mark.parametrize("name", ["é", "ß1", "名", "a\n", "٣"])
def test_tag_names_that_break_the_listing_of_pylance_are_refused(uri: str, name: str) -> None:
    with pytest.raises(InvalidRefError):
        lance_core.dataset(uri).tags.create(name, 1)
    assert _same(uri) == {}


DOCUMENTS = {
    "least": b'{"version":1,"manifestSize":1}',
    "more": b'{"version":1,"manifestSize":1,"k":3,"createdAt":"2020-01-01T00:00:00Z"}',
    "offset": b'{"version":1,"manifestSize":1,"createdAt":"2020-01-01T00:00:00.25+01:00"}',
    "dangling": b'{"version":77,"manifestSize":1}',
    "main": b'{"version":1,"manifestSize":1,"branch":"main"}',
    "no size": b'{"branch":null,"version":1}',
    "time": b'{"version":1,"manifestSize":1,"createdAt":"nope"}',
    "time number": b'{"version":1,"manifestSize":1,"updatedAt":5}',
    "text": b'{"version":"1","manifestSize":1}',
    "float": b'{"version":1.0,"manifestSize":1}',
    "negative": b'{"version":-1,"manifestSize":1}',
    "too large": b'{"version":18446744073709551616,"manifestSize":1}',
    "garbage": b"x",
    "nothing": b"",
    "list": b"[1]",
    "metadata": b'{"version":1,"manifestSize":1,"metadata":null}',
    "metadata value": b'{"version":1,"manifestSize":1,"metadata":{"a":1}}',
    "branch": b'{"version":1,"manifestSize":1,"branch":5}',
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_invalid_tag_files_are_refused_as_in_pylance(uri: str, document: bytes) -> None:
    _file(uri, "x").parent.mkdir(parents=True)
    _file(uri, "x").write_bytes(document)
    try:
        theirs = lance.dataset(uri).tags.list()
    except (OSError, ValueError, RuntimeError):
        with pytest.raises(CorruptDataError, match=r"x\.json"):
            lance_core.dataset(uri).tags.list()
        with pytest.raises(CorruptDataError):
            lance_core.dataset(uri).tags.get_version("x")
        lance_core.dataset(uri).tags.delete("x")
        assert _same(uri) == {}
    else:
        assert lance_core.dataset(uri).tags.list() == theirs


def test_unrecognized_files_in_the_tags_directory_are_ignored(uri: str) -> None:
    lance_core.dataset(uri).tags.create("x", 1)
    for name in (".tmp12", "x.json#1", "readme.txt", ".tmp12-x.json#"):
        (_file(uri, "x").parent / name).write_bytes(b"half")
    assert list(_same(uri)) == ["x"]


def test_no_temporary_file_looks_like_a_tag(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the reference would fail to read the file, and could neither list tags nor clean up."""
    tags = lance_core.dataset(uri).tags
    tags.create("x", 1)
    monkeypatch.setattr("os.rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr("os.unlink", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        tags.update("x", 2)
    monkeypatch.undo()
    assert len(list(_file(uri, "x").parent.iterdir())) == 2
    assert _same(uri)["x"]["version"] == 1


def test_a_tag_of_a_branch_prevents_deletion_of_the_branch(uri: str) -> None:
    lance.dataset(uri).create_branch("b", 2).insert(ROWS)
    lance.dataset(uri).tags.create("of-branch", ("b", 3))
    tags = lance_core.dataset(uri).tags
    assert tags.list()["of-branch"]["branch"] == "b"
    assert tags.get_version("of-branch") == 3
    tags.replace_metadata("of-branch", {"a": "b"})
    assert _same(uri)["of-branch"]["branch"] == "b"
    tags.update("of-branch", 1)
    assert _same(uri)["of-branch"]["branch"] is None


def test_a_cleanup_by_pylance_keeps_a_leased_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    for number in range(3):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="overwrite")
    lease = lease_version(lance_core.dataset(uri, version=1), holder="a test", duration=timedelta(hours=1))
    reference = lance.dataset(uri)
    assert reference.tags.list()[lease.name]["version"] == 1
    reference.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert [each["version"] for each in lance.dataset(uri).versions()] == [1, 3]
    assert lance.dataset(uri, version=1).to_table().to_pydict() == {"a": [0]}
    lease.renew()
    lease.release()
    reference.cleanup_old_versions(timedelta(0), error_if_tagged_old_versions=False)
    assert [each["version"] for each in lance.dataset(uri).versions()] == [3]
