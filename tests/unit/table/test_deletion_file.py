"""Deletion files of both types: reading, writing, and damage."""

import io
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.proto import pb_table
from lance_core.table.base_paths import FileLocator
from lance_core.table.deletion_file import (
    DeletionFile,
    DeletionFileType,
    parse_deletion_file,
    serialize_deletion_file,
    write_deletion_file,
)
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment import Fragment


def _arrow(values: list[int | None], field: pa.Field | None = None, compression: str | None = "zstd") -> pa.Buffer:
    field = field or pa.field("row_id", pa.uint32(), nullable=False)
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, pa.schema([field]), options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(values, field.type)], schema=pa.schema([field])))
    return pa.py_buffer(sink.getvalue())


def _parse(buffer: pa.Buffer, file_type: DeletionFileType, physical_rows: int = 100) -> list[int]:
    return parse_deletion_file(buffer, file_type, physical_rows=physical_rows, what="0-1-2").tolist()


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_deletion_files_are_read_with_any_order_and_compression(compression: str | None) -> None:
    assert _parse(_arrow([7, 3, 99, 0], compression=compression), DeletionFileType.ARROW) == [0, 3, 7, 99]


@pytest.mark.parametrize("runs", [False, True])
def test_deletion_bitmaps_are_read_with_and_without_runs(runs: bool) -> None:
    bitmap = BitMap([*range(1000, 3000), 70_000])
    if runs:
        bitmap.run_optimize()
    parsed = _parse(pa.py_buffer(bitmap.serialize()), DeletionFileType.BITMAP, 70_001)
    assert parsed == [*range(1000, 3000), 70_000]


def test_deletion_bitmap_of_pylance_is_read() -> None:
    data = bytes.fromhex("3a300000010000000000010010000000" + "02000300")
    assert _parse(pa.py_buffer(data), DeletionFileType.BITMAP) == [2, 3]


@pytest.mark.parametrize(
    "field",
    [
        pa.field("row_id", pa.int32(), nullable=False),
        pa.field("row_id", pa.uint32(), nullable=True),
        pa.field("rowid", pa.uint32(), nullable=False),
        pa.field("row_id", pa.uint64(), nullable=False),
    ],
)
def test_arrow_deletion_file_with_an_unexpected_schema_raises_corrupt_data(field: pa.Field) -> None:
    with pytest.raises(CorruptDataError, match="expected the schema"):
        _parse(_arrow([1], field), DeletionFileType.ARROW)


@pytest.mark.parametrize("file_type", list(DeletionFileType))
def test_deleted_offset_outside_the_fragment_raises_corrupt_data(file_type: DeletionFileType) -> None:
    buffer = _arrow([5, 10]) if file_type is DeletionFileType.ARROW else pa.py_buffer(BitMap([5, 10]).serialize())
    with pytest.raises(CorruptDataError, match="row offset 10 is listed, but the fragment has only 10 rows"):
        _parse(buffer, file_type, physical_rows=10)


@pytest.mark.parametrize("file_type", list(DeletionFileType))
@pytest.mark.parametrize("data", [b"", b"\x00", b"ARROW1\x00\x00", bytes(range(200))])
def test_malformed_deletion_file_raises_corrupt_data(file_type: DeletionFileType, data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        _parse(pa.py_buffer(data), file_type)


@pytest.mark.parametrize("file_type", list(DeletionFileType))
def test_deletion_file_with_flipped_bits_is_read_or_raises_corrupt_data(file_type: DeletionFileType) -> None:
    whole = bytes(_arrow([1, 2, 90]) if file_type is DeletionFileType.ARROW else BitMap([1, 2, 90]).serialize())
    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        try:
            parsed = parse_deletion_file(pa.py_buffer(bytes(data)), file_type, physical_rows=100, what="x")
        except CorruptDataError:
            continue
        assert parsed.dtype == np.uint32
        assert all(left < right for left, right in pairwise(parsed))


def test_deletion_file_record_has_its_name_and_survives_a_round_trip() -> None:
    record = DeletionFile(
        file_type=DeletionFileType.BITMAP, read_version=3, id=2**63 + 1, num_deleted_rows=5, base_id=0
    )
    assert record.name(7) == "7-3-9223372036854775809.bin"
    assert DeletionFile.from_proto(record.to_proto()) == record
    assert record.to_proto().HasField("base_id")


def test_unknown_deletion_file_type_raises_corrupt_data() -> None:
    message = pb_table.DeletionFile()
    message.MergeFromString(b"\x08\x07")
    with pytest.raises(CorruptDataError, match="type 7"):
        DeletionFile.from_proto(message)


def _written(
    offsets: BitMap, as_bitmap: bool | None = None, physical_rows: int = 200_000
) -> tuple[MemoryStore, Fragment, FileLocator]:
    store = MemoryStore()
    message = write_deletion_file(store, "table", fragment_id=7, read_version=3, offsets=offsets, as_bitmap=as_bitmap)
    fragment = Fragment.of([], physical_rows=physical_rows, fragment_id=7).with_deletion(message)
    return store, fragment, FileLocator(store, "table", (), None)


@pytest.mark.parametrize(
    ("num_rows", "as_bitmap", "expected"),
    [
        (1, None, DeletionFileType.ARROW),
        (4999, None, DeletionFileType.ARROW),
        (4999, False, DeletionFileType.ARROW),
        (5000, None, DeletionFileType.BITMAP),
        (5000, False, DeletionFileType.ARROW),
        (1, True, DeletionFileType.BITMAP),
    ],
)
def test_deletion_file_type_depends_on_the_number_of_rows(
    num_rows: int, as_bitmap: bool | None, expected: DeletionFileType
) -> None:
    offsets = BitMap(range(0, 3 * num_rows, 3))
    store, fragment, locator = _written(offsets, as_bitmap)
    deletion = fragment.deletion_file
    assert (deletion.file_type, deletion.read_version, deletion.num_deleted_rows) == (expected, 3, num_rows)
    assert [info.path for info in store.list("table/_deletions")] == [f"table/_deletions/{deletion.name(7)}"]
    assert read_deletion_offsets(fragment, locator).tolist() == list(offsets)


def test_deletion_bitmaps_are_written_without_run_containers() -> None:
    offsets = BitMap(range(140_000))
    assert offsets.serialize()[:2] == b"\x3b\x30"
    # Two full containers and a third with 8,928 values, with the cookie and the layout of the reference.
    data = serialize_deletion_file(offsets, DeletionFileType.BITMAP)
    assert (data[:4], len(data)) == (bytes.fromhex("3a300000"), 4 + 4 + 3 * 8 + 3 * 8192)


def test_arrow_deletion_files_are_compressed_and_readable() -> None:
    data = serialize_deletion_file(BitMap(range(0, 9000, 2)), DeletionFileType.ARROW)
    assert data[:6] == b"ARROW1"
    assert len(data) < 4 * 4500
    assert parse_deletion_file(
        pa.py_buffer(data), DeletionFileType.ARROW, physical_rows=9000, what="x"
    ).tolist() == list(range(0, 9000, 2))


def test_every_deletion_file_has_a_unique_name() -> None:
    store = MemoryStore()
    for _ in range(20):
        write_deletion_file(store, "t", fragment_id=0, read_version=1, offsets=BitMap([1]))
    assert len(list(store.list("t/_deletions"))) == 20


def test_deletion_file_without_rows_is_not_written() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInputError, match="at least one row"):
        write_deletion_file(store, "t", fragment_id=0, read_version=1, offsets=BitMap())
    assert not list(store.list("t/_deletions"))


def test_deletion_file_whose_row_count_differs_from_the_recorded_count_raises_corrupt_data() -> None:
    store, fragment, locator = _written(BitMap([1, 2, 3]))
    wrong = fragment.deletion_file.to_proto()
    wrong.num_deleted_rows = 4
    with pytest.raises(CorruptDataError, match="lists 3 rows, but the manifest records 4"):
        read_deletion_offsets(fragment.with_deletion(wrong), locator)
    unknown = fragment.deletion_file.to_proto()
    unknown.num_deleted_rows = 0
    assert read_deletion_offsets(fragment.with_deletion(unknown), locator).tolist() == [1, 2, 3]
    assert read_deletion_offsets(fragment.with_deletion(None), locator).tolist() == []
    store.delete(locator.deletion_file(7, fragment.deletion_file).path)
    with pytest.raises(NotFoundError):
        read_deletion_offsets(fragment, locator)
