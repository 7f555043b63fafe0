"""Existing data files become fragments, and rows are deleted by their positions, as in pylance."""

from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import lance.file
import lance.fragment
import numpy as np
import pyarrow as pa
import pytest

import lance_core
import lance_core.fragment
from lance_core.errors import InvalidInputError, InvalidTypeError, SchemaMismatchError

LIBRARIES = {"pylance": lance, "lance_core": lance_core}
BOTH = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)
VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
SCHEMA = pa.schema(
    {"a": pa.int64(), "s": pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]), "c": pa.string()}
)
ROWS = pa.table({"a": range(10), "s": [{"x": 1, "y": ["q"]}] * 10, "c": ["v"] * 10}, SCHEMA)


def _table(uri: Path, version: str = "2.1", **more: Any) -> None:
    lance.write_dataset(ROWS, uri, max_rows_per_file=5, data_storage_version=version, **more)


def _file(uri: Path, rows: pa.Table) -> str:
    with lance.file.LanceFileWriter(str(uri / "data" / "mine.lance"), schema=rows.schema) as writer:
        writer.write_batch(rows)
    return "mine.lance"


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_metadata_of_an_existing_file_equals_its_manifest_entry(tmp_path: Path, version: str) -> None:
    _table(tmp_path, version)
    for library in LIBRARIES.values():
        dataset = library.dataset(tmp_path)
        [known] = dataset.get_fragments()[0].data_files()
        made = library.fragment.DataFile.create(dataset, str(known.path))
        assert (made.path, made.fields, made.column_indices) == (known.path, known.fields, known.column_indices)
        assert (made.file_major_version, made.file_minor_version, made.file_size_bytes) == (
            *(known.file_major_version, known.file_minor_version),
            known.file_size_bytes,
        )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_a_lost_fragment_can_be_added_again(tmp_path: Path, version: str, stable: bool) -> None:
    _table(tmp_path, version, enable_stable_row_ids=stable)
    dataset = lance_core.dataset(tmp_path)
    lost = dataset.get_fragments()[1].data_files()[0].path
    dataset.delete("a >= 5")
    made = lance_core.LanceFragment.create_from_file(lost, dataset, 0)
    theirs = lance.LanceFragment.create_from_file(lost, lance.dataset(tmp_path), 0)
    assert (made.id, made.physical_rows) == (theirs.id, theirs.physical_rows or 5)
    lance_core.LanceDataset.commit(dataset, lance_core.LanceOperation.Append([made]), read_version=dataset.version)
    for library in LIBRARIES.values():
        assert library.dataset(tmp_path).to_table() == ROWS
        library.dataset(tmp_path).validate()


@BOTH
def test_a_file_with_some_columns_replaces_the_values_of_those_columns(tmp_path: Path, library: ModuleType) -> None:
    _table(tmp_path)
    dataset = library.dataset(tmp_path)
    name = _file(tmp_path, pa.table({"c": ["new"] * 5}))
    file = library.fragment.DataFile.create(dataset, name)
    assert (file.fields, file.column_indices) == ([5], [0])
    with pytest.raises(OSError):  # noqa: PT011  # the messages differ
        library.LanceFragment.create_from_file(name, dataset, 3)


@BOTH
@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"z": [1]}),
        pa.table({"z": [1], "a": [1]}),
        pa.table({"s": pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))}),
    ],
    ids=["unknown", "known and unknown", "member missing"],
)
def test_existing_files_whose_columns_are_not_in_the_table_are_refused(
    tmp_path: Path, library: ModuleType, rows: pa.Table
) -> None:
    _table(tmp_path)
    name, dataset = _file(tmp_path, rows), library.dataset(tmp_path)
    with pytest.raises(ValueError, match=r"column|Schema mismatch"):
        library.fragment.DataFile.create(dataset, name)
    with pytest.raises(OSError):  # noqa: PT011  # the messages differ
        library.LanceFragment.create_from_file(name, dataset, 3)


@BOTH
def test_files_and_base_paths_that_do_not_exist_are_refused(tmp_path: Path, library: ModuleType) -> None:
    _table(tmp_path)
    dataset = library.dataset(tmp_path)
    known = str(dataset.get_fragments()[0].data_files()[0].path)
    for path, more in (("nope.lance", {}), (known, {"base_id": 4})):
        with pytest.raises(ValueError, match=r"4|nope"):
            library.fragment.DataFile.create(dataset, path, **more)
    with pytest.raises(OSError, match=r"nope"):
        library.LanceFragment.create_from_file("nope.lance", dataset, 3)
    with pytest.raises(TypeError):
        library.fragment.DataFile.create(dataset, 5)


def test_file_with_a_column_of_the_wrong_type_is_refused_although_pylance_accepts_it(tmp_path: Path) -> None:
    _table(tmp_path)
    name = _file(tmp_path, pa.table({"a": ["x"]}))
    assert lance.fragment.DataFile.create(lance.dataset(tmp_path), name).fields == [0]
    with pytest.raises(SchemaMismatchError, match="expected type int64, found string"):
        lance_core.fragment.DataFile.create(lance_core.dataset(tmp_path), name)
    with pytest.raises(InvalidInputError, match="below data/"):
        lance_core.fragment.DataFile.create(lance_core.dataset(tmp_path), "../x.lance")


@BOTH
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("offsets", "left"),
    [
        ([0, 1], [2, 4]),
        ([], [0, 1, 2, 4]),
        ([3], [0, 1, 2, 4]),
        ([0, 3], [1, 2, 4]),
        ([1, 1], [0, 2, 4]),
        (range(3), [4]),
        (np.array([1, 2]), [0, 4]),
        ([0, 1, 2, 4], None),
        ([0, 1, 2, 3, 4], None),
    ],
    ids=str,
)
@pytest.mark.sampled(9)
def test_rows_are_deleted_by_their_positions(
    tmp_path: Path, library: ModuleType, version: str, offsets: Any, left: list[int] | None
) -> None:
    _table(tmp_path, version)
    library.dataset(tmp_path).delete("a = 3")
    dataset = library.dataset(tmp_path)
    changed = dataset.get_fragments()[0].delete_rows(offsets)
    assert dataset.latest_version == 2
    assert (changed is None) == (left is None)
    operation = library.LanceOperation.Delete([] if changed is None else [changed], [0] if changed is None else [], "p")
    library.LanceDataset.commit(tmp_path, operation, read_version=2)
    for each in LIBRARIES.values():
        assert each.dataset(tmp_path).to_table()["a"].to_pylist() == [*(left or []), *range(5, 10)]


@BOTH
@pytest.mark.parametrize("offsets", [[5], [99], [0, 5], [-1], [2**32], ["x"], None], ids=str)
def test_deletion_positions_without_rows_are_refused(tmp_path: Path, library: ModuleType, offsets: Any) -> None:
    _table(tmp_path)
    fragment = library.dataset(tmp_path).get_fragments()[0]
    with pytest.raises((ValueError, OverflowError, TypeError)):
        fragment.delete_rows(offsets)
    assert not (tmp_path / "_deletions").exists()


def test_deletion_positions_that_are_not_whole_numbers_are_refused(tmp_path: Path) -> None:
    _table(tmp_path)
    with pytest.raises(InvalidTypeError, match="whole number"):
        lance_core.dataset(tmp_path).get_fragments()[0].delete_rows([1.7])


@BOTH
def test_a_truncated_table_keeps_its_columns_and_versions(tmp_path: Path, library: ModuleType) -> None:
    _table(tmp_path)
    dataset = library.dataset(tmp_path)
    assert dataset.truncate_table() is None
    assert (dataset.version, dataset.count_rows(), dataset.schema) == (2, 0, SCHEMA)
    operation = lance.dataset(tmp_path).read_transaction(2).operation
    assert (type(operation).__name__, operation.deleted_fragment_ids, operation.predicate) == ("Delete", [0, 1], "true")
    assert lance.dataset(tmp_path, version=1).count_rows() == 10
