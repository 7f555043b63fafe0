"""Overlays that cannot be read: malicious paths, damaged lists, and columns of the wrong type."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.read_config import ReadConfig
from lance_core.proto import pb_table
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.fragment import Fragment

Change = Callable[[pb_table.DataFragment, pb_table.DataFile], None]


def _lay(fragment: pb_table.DataFragment, file: pb_table.DataFile, *offsets: int, version: int = 2) -> None:
    fragment.overlays.add(data_file=file, shared_offset_bitmap=BitMap(offsets).serialize(), committed_version=version)


def _column(file: pb_table.DataFile, field_id: int, column: int, **changes: object) -> pb_table.DataFile:
    message = pb_table.DataFile()
    message.CopyFrom(file)
    message.fields[:], message.column_indices[:] = [field_id], [column]
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def _read(root: Path, change: Change) -> dict[str, list[object]]:
    """Return the rows of a fragment that has a data file of the same table as its overlay."""
    rows = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"], "l": [[{"p": 1, "q": 2}]] * 3})
    dataset = lance_core.write_dataset(rows, root / "t")
    newer = lance_core.write_dataset(rows.slice(1), root / "t", mode="append")
    fragment, other = newer.manifest.message.fragments
    change(fragment, other.files[0])
    reader = FragmentReader(Fragment(fragment), dataset.locator)
    return pa.Table.from_batches(reader.batches(dataset.lance_schema, 0, 3, ReadConfig(batch_rows=100))).to_pydict()


def test_overlaid_values_come_from_the_newest_overlay(tmp_path: Path) -> None:
    def change(fragment: pb_table.DataFragment, file: pb_table.DataFile) -> None:
        _lay(fragment, _column(file, 0, 0), 0, 1)
        _lay(fragment, _column(file, 0, 0), 1, 2, version=3)

    assert _read(tmp_path, change)["a"] == [2, 2, 3]


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "s3://b/x", "a\\b"])
def test_overlay_path_that_leaves_its_base_raises_corrupt_data(tmp_path: Path, path: str) -> None:
    with pytest.raises(CorruptDataError):
        _read(tmp_path, lambda fragment, file: _lay(fragment, _column(file, 0, 0, path=path), 0))


def test_overlays_out_of_version_order_raise_corrupt_data(tmp_path: Path) -> None:
    def change(fragment: pb_table.DataFragment, file: pb_table.DataFile) -> None:
        _lay(fragment, _column(file, 0, 0), 0, version=5)
        _lay(fragment, _column(file, 0, 0), 0, version=3)

    with pytest.raises(CorruptDataError, match="from oldest to newest"):
        _read(tmp_path, change)


def test_overlay_with_values_of_the_wrong_type_raises_corrupt_data(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="stores field 'a' as string, expected int64"):
        _read(tmp_path / "1", lambda fragment, file: _lay(fragment, _column(file, 0, 1), 0))
    with pytest.raises(CorruptDataError, match="columns"):
        _read(tmp_path / "2", lambda fragment, file: _lay(fragment, _column(file, 0, 9), 0))


def test_overlay_with_fewer_values_than_rows_raises_corrupt_data(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="has 2 values"):
        _read(tmp_path, lambda fragment, file: _lay(fragment, _column(file, 0, 0), 0, 1, 2))


def test_overlay_of_part_of_a_list_raises_not_supported(tmp_path: Path) -> None:
    def change(fragment: pb_table.DataFragment, file: pb_table.DataFile) -> None:
        part = file.fields[2]
        _lay(fragment, _column(file, part, file.column_indices[2]), 0)

    with pytest.raises(NotSupportedError, match="only part of field 'l'"):
        _read(tmp_path, change)


def test_overlay_coverage_of_all_offsets_is_not_expanded(tmp_path: Path) -> None:
    """With run containers, the bitmap of all offsets has a few bytes and four billion entries."""

    def change(fragment: pb_table.DataFragment, file: pb_table.DataFile) -> None:
        everything = BitMap()
        everything.add_range(3, 2**32)
        everything.add(1)
        everything.run_optimize()
        fragment.overlays.add(data_file=_column(file, 0, 0), shared_offset_bitmap=everything.serialize())

    assert _read(tmp_path, change)["a"] == [1, 2, 3]
