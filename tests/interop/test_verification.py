"""``find_faults()`` finds every injected fault, and no fault in healthy tables of either library."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError, VersionNotFoundError
from lance_core.metadata import open_version_log
from lance_core.repair import find_faults
from lance_core.table.index_rules import decode_index_section
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from tests.support.manifests import section

if TYPE_CHECKING:
    from collections.abc import Callable

NUM_ROWS = 300


def faults_of(root: Path, version: int | None = None, *, reads_pages: bool = False) -> list[str]:
    log = open_version_log(str(root))
    return [f"{fault.place}: {fault.message}" for fault in find_faults(log, version, reads_pages=reads_pages)]


def _rows() -> pa.Table:
    words = [f"word {row * 7919 % NUM_ROWS}" for row in range(NUM_ROWS)]
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string()), ("x", pa.float64())])
    return pa.table([pa.array(range(NUM_ROWS)), pa.array(words), pa.array(np.arange(NUM_ROWS) / 3)], schema=schema)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with three fragments, deleted rows, stable row ids, an index, a tag, and a branch."""
    root = tmp_path_factory.mktemp("healthy") / "t.lance"
    dataset = lance.write_dataset(
        _rows(), root, max_rows_per_file=100, enable_stable_row_ids=True, data_storage_version="2.1"
    )
    dataset.create_scalar_index("k", "BTREE")
    dataset.delete("k % 10 = 3 and k < 200")
    dataset.tags.create("release", 2)
    dataset.create_branch("trial", 2)
    assert faults_of(root, reads_pages=True) == []
    return root


@pytest.fixture
def root(healthy: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "t.lance"
    shutil.copytree(healthy, copy)
    # The branch refers to the files of the table by the absolute path of the table.
    return copy


def _newest_manifest(root: Path) -> Path:
    return min((root / "_versions").glob("*.manifest"))


def _change(change: Callable[[Any], object]) -> Callable[[Path], None]:
    """Return a function that changes the manifest of the newest version."""

    def plant(root: Path) -> None:
        path = _newest_manifest(root)
        file = parse_manifest_file(path.read_bytes(), str(path))
        change(file.message)
        data = serialize_manifest_file(
            file.message, index_section=file.index_section, transaction=file.transaction, dictionaries=file.dictionaries
        )
        path.write_bytes(data)

    return plant


def _change_indices(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def plant(root: Path) -> None:
        path = _newest_manifest(root)
        file = parse_manifest_file(path.read_bytes(), str(path))
        (index,) = decode_index_section(file.index_section)
        change(index)
        path.write_bytes(
            serialize_manifest_file(file.message, index_section=section(index), transaction=file.transaction)
        )

    return plant


def _data_file(root: Path, fragment: int = 0) -> Path:
    files = lance_core.dataset(root).get_fragments()[fragment].data_files()
    return root / "data" / files[0].path


def _patch(path: Path, offset: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    place = offset if offset >= 0 else len(content) + offset
    content[place : place + len(data)] = data
    path.write_bytes(content)


def _first(directory: str, pattern: str = "*") -> Callable[[Path], Path]:
    return lambda root: next(path for path in sorted((root / directory).rglob(pattern)) if path.is_file())


_deletion = _first("_deletions")
_index_file = _first("_indices")


def _transaction(root: Path) -> Path:
    path = _newest_manifest(root)
    name = parse_manifest_file(path.read_bytes(), str(path)).message.transaction_file
    return root / "_transactions" / name


def _swap_data_files(root: Path) -> None:
    # The last fragment gets a file with fewer rows.
    lance_core.write_dataset(_rows().slice(0, 5), root / "other.lance", data_storage_version="2.1")
    (small,) = (root / "other.lance" / "data").iterdir()
    target = _data_file(root, 2)
    shutil.copy(small, target)
    shutil.rmtree(root / "other.lance")
    _change(lambda message: message.fragments[2].files[0].ClearField("file_size_bytes"))(root)


def _repeat_fragment(message: Any) -> None:
    message.fragments[1].id = message.fragments[0].id


def _repeat_row_ids(message: Any) -> None:
    message.fragments[1].inline_row_ids = message.fragments[0].inline_row_ids


def _shorten_row_ids(message: Any) -> None:
    sequence = message.fragments[2].inline_row_ids
    message.fragments[2].physical_rows = 100
    del message.fragments[:2]
    message.fragments[0].inline_row_ids = sequence[:-1]


def _add_file_of_same_fields(message: Any) -> None:
    message.fragments[0].files.append(message.fragments[0].files[0])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "data file missing": (lambda root: _data_file(root).unlink(), "version 3: .*does not exist"),
    "data file truncated": (lambda root: _data_file(root).write_bytes(_data_file(root).read_bytes()[:-9]), "version 3"),
    "data file empty": (lambda root: _data_file(root).write_bytes(b""), "version 3"),
    "data file longer than recorded": (
        lambda root: _data_file(root).write_bytes(b"x" * 64 + _data_file(root).read_bytes()),
        "version 3",
    ),
    "magic of data file": (lambda root: _patch(_data_file(root), -4, b"LANX"), "version 3"),
    "version in footer": (lambda root: _patch(_data_file(root), -8, b"\x63\x00\x63\x00"), "version 3"),
    "number of columns in footer": (lambda root: _patch(_data_file(root), -12, b"\xff\xff\x00\x00"), "version 3"),
    "metadata offset in footer": (lambda root: _patch(_data_file(root), -40, b"\xff" * 8), "version 3"),
    "data file of another table": (_swap_data_files, "version 3: .*rows"),
    "row count of fragment": (_change(lambda m: setattr(m.fragments[0], "physical_rows", 99)), "version 3"),
    "size of data file": (_change(lambda m: setattr(m.fragments[0].files[0], "file_size_bytes", 77)), "version 3"),
    "format of data file": (
        _change(lambda m: setattr(m.fragments[0].files[0], "file_minor_version", 2)),
        "version 3: .*format",
    ),
    "path of data file": (_change(lambda m: setattr(m.fragments[0].files[0], "path", "../x.lance")), "version 3"),
    "field stored twice": (_change(_add_file_of_same_fields), "stored in two data files"),
    "column index out of range": (
        _change(lambda m: m.fragments[0].files[0].column_indices.__setitem__(0, 50)),
        "version 3",
    ),
    "number of column indices": (_change(lambda m: m.fragments[0].files[0].column_indices.pop()), "version 3"),
    "fragment id twice": (_change(_repeat_fragment), "two fragments with id 0"),
    "fragments out of order": (_change(lambda m: setattr(m.fragments[0], "id", 7)), "expected strictly ascending ids"),
    "max_fragment_id": (_change(lambda m: setattr(m, "max_fragment_id", 1)), "max_fragment_id is 1"),
    "field id twice": (_change(lambda m: setattr(m.fields[1], "id", 0)), "version 3: .*id 0"),
    "parent of field": (_change(lambda m: setattr(m.fields[1], "parent_id", 9)), "version 3: .*parent"),
    "type of field": (_change(lambda m: setattr(m.fields[1], "logical_type", "nothing")), "version 3: .*nothing"),
    "deletion file missing": (lambda root: _deletion(root).unlink(), "version 3: .*does not exist"),
    "deletion file garbled": (lambda root: _deletion(root).write_bytes(b"garbage" * 20), "version 3"),
    "deletion file truncated": (
        lambda root: _deletion(root).write_bytes(_deletion(root).read_bytes()[:-30]),
        "version 3",
    ),
    "number of deleted rows": (
        _change(lambda m: setattr(m.fragments[0].deletion_file, "num_deleted_rows", 4)),
        "version 3: .*deletion",
    ),
    "deleted rows out of range": (_change(lambda m: setattr(m.fragments[0], "physical_rows", 50)), "version 3"),
    "row ids missing": (_change(lambda m: m.fragments[0].ClearField("inline_row_ids")), "no row ids"),
    "row ids twice": (_change(_repeat_row_ids), "also belongs to another row"),
    "row ids garbled": (_change(lambda m: setattr(m.fragments[0], "inline_row_ids", b"\x0a\xff\x01")), "version 3"),
    "row ids of fewer rows": (_change(_shorten_row_ids), "version 3"),
    "next row id": (_change(lambda m: setattr(m, "next_row_id", 10)), "next row id"),
    "manifest garbled": (lambda root: _patch(_newest_manifest(root), -4, b"XXXX"), "version 3"),
    "manifest truncated": (
        lambda root: _newest_manifest(root).write_bytes(_newest_manifest(root).read_bytes()[:40]),
        "version 3",
    ),
    "old manifest garbled": (
        lambda root: max((root / "_versions").glob("*.manifest")).write_bytes(b"x" * 40),
        "version 1",
    ),
    "number in manifest name": (_change(lambda m: setattr(m, "version", 9)), "the content has version 9"),
    "two naming schemes": (
        lambda root: shutil.copy(_newest_manifest(root), root / "_versions" / "3.manifest"),
        "versions: ",
    ),
    "feature flag": (_change(lambda m: setattr(m, "reader_feature_flags", 1 << 40)), "version 3: .*flag"),
    "version hint": (
        lambda root: (root / "_versions" / "latest_version_hint.json").write_text(json.dumps({"version": 12})),
        "version hint: .*12",
    ),
    "transaction file missing": (lambda root: _transaction(root).unlink(), "version 3: .*txn"),
    "transaction file garbled": (lambda root: _transaction(root).write_bytes(b"\xff" * 30), "version 3: .*transaction"),
    "index directory missing": (lambda root: shutil.rmtree(root / "_indices"), "no file exists in"),
    "index file missing": (lambda root: _index_file(root).unlink(), "version 3: index"),
    "size of index file": (lambda root: _index_file(root).write_bytes(b"x"), "expected"),
    "field of index": (_change_indices(lambda index: index.fields.__setitem__(0, 40)), r"unknown field ids: \[40\]"),
    "id of index": (_change_indices(lambda index: setattr(index.uuid, "uuid", b"short")), "the id has 5 bytes"),
    "base path of data file": (_change(lambda m: setattr(m.fragments[0].files[0], "base_id", 4)), "version 3: .*base"),
    "base path of deletion file": (
        _change(lambda m: setattr(m.fragments[0].deletion_file, "base_id", 4)),
        "version 3: .*base",
    ),
    "version of tag": (
        lambda root: _patch_json(_first("_refs/tags")(root), version=77),
        "tag release: the tag refers to version 77, which does not exist",
    ),
    "tag garbled": (lambda root: _first("_refs/tags")(root).write_text("{"), "tags: "),
    "branch garbled": (lambda root: _first("_refs/branches")(root).write_text("{}"), "branches: "),
    "branch without versions": (lambda root: shutil.rmtree(root / "tree" / "trial" / "_versions"), "branch trial"),
    "manifest of branch garbled": (
        lambda root: next((root / "tree" / "trial" / "_versions").glob("*.manifest")).write_bytes(b"x" * 40),
        "branch trial, version",
    ),
}


def _patch_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("name", FAULTS)
def test_verification_reports_an_injected_fault(root: Path, name: str) -> None:
    plant, expected = FAULTS[name]
    plant(root)
    found = faults_of(root)
    assert any(re.search(expected, fault) for fault in found), found


@pytest.mark.parametrize("reads_pages", [False, True])
def test_verification_reports_damaged_pages_if_it_reads_data(root: Path, reads_pages: bool) -> None:
    _patch(_data_file(root), 0, b"\xff" * 16)
    assert bool(faults_of(root, reads_pages=reads_pages)) == reads_pages


def test_verification_reports_all_faults_of_a_version_at_once(root: Path) -> None:
    for name in (
        "data file missing",
        "deletion file garbled",
        "max_fragment_id",
        "index file missing",
        "version of tag",
    ):
        FAULTS[name][0](root)
    assert len(faults_of(root)) >= 5


def test_verification_reports_its_progress_for_every_fragment(root: Path) -> None:
    calls: list[tuple[int, int]] = []
    log = open_version_log(str(root))
    assert list(find_faults(log, 1, on_fragment=lambda done, total: calls.append((done, total)))) == []
    assert calls[:3] == [(1, 3), (2, 3), (3, 3)]


def test_verification_can_examine_an_older_version(root: Path) -> None:
    _deletion(root).unlink()
    assert faults_of(root, 1) == []
    with pytest.raises(VersionNotFoundError):
        faults_of(root, 17)
    with pytest.raises(DatasetNotFoundError):
        faults_of(root / "none")


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("library", [lance, lance_core], ids=["pylance", "lance_core"])
@pytest.mark.parametrize("stable", [False, True])
def test_healthy_tables_have_no_faults(tmp_path: Path, version: str, library: Any, stable: bool) -> None:
    uri = tmp_path / "t.lance"
    library.write_dataset(
        _rows(), uri, max_rows_per_file=100, data_storage_version=version, enable_stable_row_ids=stable
    )
    library.write_dataset(_rows().slice(0, 30), uri, mode="append")
    dataset = library.dataset(uri)
    dataset.delete("k < 7")
    dataset.tags.create("before", 1)
    if version != "0.1":
        dataset.drop_columns(["x"])
        dataset.create_branch("trial", "before")
        dataset.optimize.compact_files(target_rows_per_fragment=1000)
        dataset.delete("k > 250")
        dataset.restore()
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    library.dataset(uri).shallow_clone(str(tmp_path / "clone.lance"), library.dataset(uri).version)
    for root in (uri, tmp_path / "clone.lance"):
        assert faults_of(root, reads_pages=True) == []
    for number in (1, 2, 3):
        assert faults_of(uri, number, reads_pages=True) == []


def test_tables_with_blobs_overlays_and_nested_columns_have_no_faults(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table(
        [pa.array([b"abc", None]), pa.array([[{"x": 1}], None], pa.list_(pa.struct([("x", pa.int64())])))],
        schema=pa.schema([blob, ("l", pa.list_(pa.struct([("x", pa.int64())])))]),
    )
    lance_core.write_dataset(rows, tmp_path / "t.lance", data_storage_version="2.1")
    lance_core.dataset(tmp_path / "t.lance").add_columns(pa.schema([("later", pa.string())]))
    assert faults_of(tmp_path / "t.lance", reads_pages=True) == []
