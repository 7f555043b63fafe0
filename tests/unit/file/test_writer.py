"""FileWriter: pages, alignment, the order of bytes in the file, and failures."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, SchemaMismatchError, StorageError, UnsupportedVersionError
from lance_core.file.data_file_writer import DataFileWriter, WrittenFile
from lance_core.file.families import open_writer
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore, MemoryWriteStream
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

NUMBERS = pa.schema([("x", pa.int64())])


def _numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(np.arange(start, stop), pa.int64())})


def _writer(store: MemoryStore, schema: pa.Schema, **options: object) -> DataFileWriter:
    return open_writer(store.create("f"), schema_from_arrow(schema), WriteConfig(**options))


def _write(
    store: MemoryStore, schema: pa.Schema, batches: list[pa.RecordBatch], **options: int
) -> tuple[WrittenFile, FileReader]:
    writer = _writer(store, schema, **options)
    for batch in batches:
        writer.write_batch(batch)
    written = writer.finish()
    return written, FileReader.open(store, "f")


def _page_lengths(reader: FileReader, column: int = 0) -> list[int]:
    return [page.length for page in reader.column_metadatas[column].pages]


def test_finished_file_reports_fields_columns_rows_and_bytes() -> None:
    schema = pa.schema([("a", pa.int8()), ("s", pa.struct([("b", pa.int8()), ("c", pa.string())]))])
    batch = pa.record_batch([pa.array([1], pa.int8()), pa.array([None], schema.field("s").type)], schema=schema)
    store = MemoryStore()
    written, reader = _write(store, schema, [batch])
    assert written.field_ids == (0, 2, 3)
    assert written.column_indices == (0, 1, 2)
    assert (written.num_rows, written.num_bytes) == (1, store.head("f").num_bytes)
    assert reader.version is LanceFileVersion.V2_2


def test_a_file_without_rows_has_columns_without_pages() -> None:
    written, reader = _write(MemoryStore(), NUMBERS, [_numbers(0, 0)])
    assert written.num_rows == reader.num_rows == 0
    assert _page_lengths(reader) == []
    assert reader.read_table(reader.schema.fields).num_rows == 0
    assert list(reader.read_batches(reader.schema.fields)) == []


def test_file_without_columns_has_an_empty_schema() -> None:
    written, reader = _write(MemoryStore(), pa.schema([]), [])
    assert written.field_ids == ()
    assert reader.schema.fields == ()


def test_batches_are_collected_into_pages_of_the_cache_size() -> None:
    batches = [_numbers(start, start + 10) for start in range(0, 100, 10)]
    _, reader = _write(MemoryStore(), NUMBERS, batches, data_cache_bytes=240)
    assert _page_lengths(reader) == [30, 30, 30, 10]
    assert [page.first_row for page in reader.column_metadatas[0].pages] == [0, 30, 60, 90]
    assert reader.read_table(reader.schema.fields)["x"].to_pylist() == list(range(100))


def test_large_array_is_split_into_pages_and_not_joined_with_others() -> None:
    _, reader = _write(
        MemoryStore(), NUMBERS, [_numbers(0, 10), _numbers(10, 110)], data_cache_bytes=400, max_page_bytes=400
    )
    assert _page_lengths(reader) == [10, 50, 50]
    assert reader.read_table(reader.schema.fields)["x"].to_pylist() == list(range(110))


def test_rows_of_unequal_size_are_split_into_pages_by_bytes() -> None:
    array = pa.array([b"x" * 10] * 50 + [b"y" * 1000] * 10, pa.binary())
    schema = pa.schema([("x", pa.binary())])
    _, reader = _write(
        MemoryStore(), schema, [pa.record_batch([array], schema=schema)], data_cache_bytes=0, max_page_bytes=2500
    )
    assert sum(_page_lengths(reader)) == 60
    start = 0
    for length in _page_lengths(reader):
        assert array.slice(start, length).nbytes <= 2500
        start += length


def test_row_larger_than_a_page_is_written_as_a_separate_page() -> None:
    schema = pa.schema([("x", pa.binary())])
    batch = pa.record_batch([pa.array([b"x" * 5000, b"y" * 5000], pa.binary())], schema=schema)
    _, reader = _write(MemoryStore(), schema, [batch], max_page_bytes=1000)
    assert _page_lengths(reader) == [1, 1]


def test_page_size_counts_only_the_rows_of_a_slice() -> None:
    whole = _numbers(0, 100_000)
    _, reader = _write(
        MemoryStore(), NUMBERS, [whole.slice(start, 10) for start in range(0, 1000, 10)], data_cache_bytes=8000
    )
    assert _page_lengths(reader) == [1000]


def test_writers_of_many_columns_buffer_less_per_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_core.file.write_config._MAX_COLLECTED_BYTES", 400)
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    batches = [pa.record_batch([pa.array(range(5))] * 2, schema=schema) for _ in range(10)]
    _, reader = _write(MemoryStore(), schema, batches)
    assert _page_lengths(reader) == [25, 25]
    _, reader = _write(MemoryStore(), schema, batches, data_cache_bytes=10_000)
    assert _page_lengths(reader) == [50]


def test_many_one_row_batches_become_one_page() -> None:
    _, reader = _write(MemoryStore(), NUMBERS, [_numbers(start, start + 1) for start in range(3000)])
    assert _page_lengths(reader) == [3000]
    assert reader.read_table(reader.schema.fields)["x"].to_pylist() == list(range(3000))


def test_dictionaries_that_cannot_be_joined_are_written_as_separate_pages() -> None:
    dtype = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("d", dtype)])
    parts = [pa.array([f"{part}-{i}" for i in range(100)]).dictionary_encode().cast(dtype) for part in range(2)]
    _, reader = _write(MemoryStore(), schema, [pa.record_batch([part], schema=schema) for part in parts])
    assert _page_lengths(reader) == [100, 100]
    found = reader.read_table(reader.schema.fields)["d"].cast(pa.string()).to_pylist()
    assert found == [value for part in parts for value in part.to_pylist()]


def test_every_buffer_is_aligned_and_padded() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int8())])
    batch = pa.record_batch([pa.array(["abc", None, "d"]), pa.array([1, 2, 3], pa.int8())], schema=schema)
    store = MemoryStore()
    _, reader = _write(store, schema, [batch])
    data = bytes(store.get("f"))
    ranges = [buffer for column in reader.column_metadatas for page in column.pages for buffer in page.buffers]
    position = 0
    for buffer in ranges:
        assert buffer.start % 64 == 0
        assert set(data[position : buffer.start]) <= {0x48}
        position = buffer.stop
    descriptor = reader.metadata.global_buffer_ranges[0]
    assert descriptor.start % 64 == 0
    assert set(data[position : descriptor.start]) <= {0x48}
    assert descriptor.stop == reader.metadata.footer.column_metadata_offset


def test_global_buffers_are_numbered_from_one() -> None:
    store = MemoryStore()
    writer = _writer(store, NUMBERS)
    writer.write_batch(_numbers(0, 3))
    assert writer.add_global_buffer(b"first") == 1
    assert writer.add_global_buffer(b"") == 2
    writer.add_schema_metadata("k", b"v")
    writer.finish()
    reader = FileReader.open(store, "f")
    assert [bytes(reader.metadata.global_buffer(index)) for index in (1, 2)] == [b"first", b""]
    assert reader.schema.metadata == {"k": b"v"}


def test_batch_that_does_not_match_the_schema_changes_nothing() -> None:
    store = MemoryStore()
    schema = pa.schema([("x", pa.int64()), pa.field("y", pa.int64(), nullable=False)])
    writer = _writer(store, schema, data_cache_bytes=0)
    good = pa.record_batch([pa.array([1]), pa.array([2])], schema=schema)
    writer.write_batch(good)
    position = writer.num_bytes
    with pytest.raises(SchemaMismatchError, match="'y' is not nullable"):
        writer.write_batch(pa.record_batch({"x": pa.array([1]), "y": pa.array([None], pa.int64())}))
    with pytest.raises(SchemaMismatchError, match="expected type int64, found int32"):
        writer.write_batch(pa.record_batch({"x": pa.array([1], pa.int32()), "y": pa.array([1])}))
    assert writer.num_bytes == position
    writer.write_batch(good)
    assert writer.finish().num_rows == 2


def test_file_is_not_visible_before_finish_or_after_abort() -> None:
    store = MemoryStore()
    with _writer(store, NUMBERS, data_cache_bytes=0) as writer:
        writer.write_batch(_numbers(0, 10))
        assert list(store.list("")) == []
    assert list(store.list("")) == []
    with pytest.raises(InvalidInputError, match="aborted"):
        writer.write_batch(_numbers(0, 1))


def test_finished_writer_refuses_further_calls() -> None:
    store = MemoryStore()
    with _writer(store, NUMBERS) as writer:
        writer.finish()
    assert store.head("f").num_bytes > 0
    with pytest.raises(InvalidInputError, match="finished"):
        writer.finish()


class _FullStream(MemoryWriteStream):
    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        raise StorageError("disk full")


def test_file_cannot_be_finished_after_a_failed_write() -> None:
    writer = open_writer(_FullStream(MemoryStore(), "f"), schema_from_arrow(NUMBERS), WriteConfig(data_cache_bytes=0))
    with pytest.raises(StorageError, match="disk full"):
        writer.write_batch(_numbers(0, 10))
    with pytest.raises(InvalidInputError, match="earlier write failed"):
        writer.finish()
    writer.abort()


def test_writer_with_invalid_options_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError):
        _writer(MemoryStore(), NUMBERS, version=LanceFileVersion.V2_3)
    with pytest.raises(InvalidInputError, match="max_page_bytes=0"):
        WriteConfig(max_page_bytes=0)
    with pytest.raises(InvalidInputError, match="data_cache_bytes=-1"):
        WriteConfig(data_cache_bytes=-1)


def test_writer_of_an_unwritable_schema_aborts_its_stream() -> None:
    store = MemoryStore()
    stream = store.create("f")
    with pytest.raises(UnsupportedVersionError):
        open_writer(stream, schema_from_arrow(NUMBERS), WriteConfig(version=LanceFileVersion.V2_3))
    with pytest.raises(StorageError, match="closed"):
        stream.write(b"x")
