"""Fixed-size lists of structs, nested in structs and in each other, exchanged with pylance in both directions."""

from __future__ import annotations

import random
from pathlib import Path

import lance
import lance.file
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import NotSupportedError
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter

INT = pa.int32()


def _struct(*members: pa.DataType) -> pa.DataType:
    return pa.struct([("abcdef"[index], member) for index, member in enumerate(members)])


PAIR = _struct(INT, pa.string())
PAIRS = pa.list_(PAIR, 2)
VECTOR = pa.list_(pa.float32(), 4)

READABLE = {
    "in a struct": _struct(PAIRS),
    "two of a size": _struct(PAIRS, PAIRS),
    "one item": _struct(pa.list_(PAIR, 1), INT),
    "two structs deep": _struct(_struct(PAIRS), PAIRS),
    "sizes that multiply to the same": _struct(pa.list_(PAIR, 4), pa.list_(_struct(PAIRS), 2)),
    "in each other": pa.list_(_struct(PAIRS), 3),
    "in each other, with numbers and vectors": pa.list_(_struct(INT, PAIRS, VECTOR), 2),
    "three deep": _struct(pa.list_(_struct(pa.list_(_struct(PAIRS), 2)), 3)),
    "sizes differ inside": _struct(pa.list_(_struct(INT, pa.list_(PAIR, 3), PAIRS), 2)),
    "beside one of a size": _struct(pa.list_(_struct(INT, PAIRS), 2), PAIRS),
}
UNREADABLE = {
    "number before": _struct(INT, PAIRS),
    "number behind": _struct(PAIRS, INT),
    "sizes differ": _struct(PAIRS, pa.list_(PAIR, 3)),
    "number beside the struct": _struct(_struct(PAIRS), INT),
    "sizes multiply": _struct(pa.list_(_struct(PAIRS), 2), PAIRS),
}
BATCHES = {"one": [30], "single row": [1], "pages": [40, 1, 40]}


def _value(dtype: pa.DataType, source: random.Random, nulls: float) -> object:
    if source.random() < nulls:
        return None
    if pa.types.is_struct(dtype):
        return {member.name: _value(member.type, source, nulls) for member in dtype}
    if pa.types.is_fixed_size_list(dtype):
        return [_value(dtype.value_type, source, nulls) for _ in range(dtype.list_size)]
    number = source.randrange(100)
    return {INT: number, pa.float32(): float(number)}.get(dtype, "x" * (number % 5))


def _batches(dtype: pa.DataType, lengths: list[int], nulls: float) -> list[pa.RecordBatch]:
    """Return batches that become pages with nulls and pages without nulls, if there are several."""
    source = random.Random(len(lengths) + lengths[0])
    return [
        pa.record_batch(
            {"c": pa.array([_value(dtype, source, 0 if number % 2 else nulls) for _ in range(length)], dtype)}
        )
        for number, length in enumerate(lengths)
    ]


def _write(writer_type: type, path: str, batches: list[pa.RecordBatch]) -> None:
    pages = {"max_page_bytes": 1000, "data_cache_bytes": 1} if len(batches) > 1 else {}
    with writer_type(path, schema=batches[0].schema, version="2.2", **pages) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _check_reads(reader: object, rows: list[object]) -> None:
    assert reader.read_all().to_table()["c"].to_pylist() == rows
    start, num_rows = len(rows) // 3, len(rows) // 2
    assert reader.read_range(start, num_rows).to_table()["c"].to_pylist() == rows[start : start + num_rows]
    chosen = sorted({0, len(rows) // 2, len(rows) - 1})
    assert reader.take_rows(chosen).to_table()["c"].to_pylist() == [rows[row] for row in chosen]


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("lengths", list(BATCHES))
@pytest.mark.parametrize("shape", list(READABLE))
@pytest.mark.sampled(20)
def test_nested_fixed_size_lists_of_structs_written_by_lance_core_are_read_by_both_libraries(
    tmp_path: Path, shape: str, lengths: str, nulls: float
) -> None:
    batches = _batches(READABLE[shape], BATCHES[lengths], nulls)
    rows = pa.Table.from_batches(batches)["c"].to_pylist()
    path = str(tmp_path / "f.lance")
    _write(LanceFileWriter, path, batches)
    for reader_type in (lance.file.LanceFileReader, LanceFileReader):
        _check_reads(reader_type(path), rows)


@pytest.mark.parametrize("lengths", list(BATCHES))
@pytest.mark.parametrize("shape", [*READABLE, *UNREADABLE])
@pytest.mark.sampled(20)
def test_nested_fixed_size_lists_of_structs_written_by_pylance_are_read_by_lance_core(
    tmp_path: Path, shape: str, lengths: str
) -> None:
    """This includes lists that pylance cannot read itself: with members of other sizes, or nulls in only some pages."""
    batches = _batches((READABLE | UNREADABLE)[shape], BATCHES[lengths], 0.3)
    path = str(tmp_path / "f.lance")
    _write(lance.file.LanceFileWriter, path, batches)
    _check_reads(LanceFileReader(path), pa.Table.from_batches(batches)["c"].to_pylist())


@pytest.mark.parametrize("shape", list(UNREADABLE))
def test_writing_fixed_size_lists_of_structs_that_pylance_cannot_read_is_refused(tmp_path: Path, shape: str) -> None:
    [batch] = _batches(UNREADABLE[shape], [5], 0)
    path = str(tmp_path / "f.lance")
    with pytest.raises(NotSupportedError, match="the reference implementation cannot read other structs"):
        _write(LanceFileWriter, path, [batch])
    assert not list(tmp_path.iterdir())
    _write(lance.file.LanceFileWriter, path, [batch])
    with pytest.raises(ValueError, match="children have differing lengths"):
        lance.file.LanceFileReader(path).read_all().to_table()


@pytest.mark.parametrize(
    "dtype",
    [pa.list_(PAIRS), pa.list_(_struct(PAIRS)), pa.map_(INT, PAIRS), pa.list_(_struct(pa.list_(INT)), 2)],
    ids=str,
)
def test_lists_around_or_inside_fixed_size_lists_of_structs_are_refused(tmp_path: Path, dtype: pa.DataType) -> None:
    with pytest.raises(NotSupportedError, match="cannot be nested in a list, and cannot contain lists or maps"):
        LanceFileWriter(str(tmp_path / "f.lance"), pa.schema([("c", dtype)]), version="2.2")


def test_tables_with_fixed_size_lists_of_structs_are_written_and_read_by_both_libraries(tmp_path: Path) -> None:
    dtype = _struct(pa.list_(_struct(INT, PAIRS), 2))
    [batch] = _batches(dtype, [50], 0.2)
    uri = str(tmp_path / "table")
    for mode, writer in (("create", lance_core), ("append", lance), ("append", lance_core)):
        writer.write_dataset(pa.Table.from_batches([batch]), uri, mode=mode, data_storage_version="2.2")
    rows = batch["c"].to_pylist() * 3
    for library in (lance, lance_core):
        dataset = library.dataset(uri)
        assert dataset.to_table()["c"].to_pylist() == rows
        assert dataset.take([1, 77, 149])["c"].to_pylist() == [rows[row] for row in (1, 77, 149)]
    lance_core.dataset(uri).validate()


def test_sliced_batch_is_written_with_only_the_rows_of_the_slice(tmp_path: Path) -> None:
    [batch] = _batches(READABLE["two structs deep"], [30], 0.3)
    path = str(tmp_path / "f.lance")
    _write(LanceFileWriter, path, [batch.slice(7, 11)])
    _check_reads(lance.file.LanceFileReader(path), batch["c"].to_pylist()[7:18])
