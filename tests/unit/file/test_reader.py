"""FileReader: batches, row ranges, projections, and requests."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_core.file.families import open_writer
from lance_core.file.read_config import ReadConfig
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.byte_range import ByteRange
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field

NUM_ROWS = 1000
TABLE = pa.table(
    {
        "x": pa.array(np.arange(NUM_ROWS), pa.int64()),
        "text": pa.array([f"row {i}" for i in range(NUM_ROWS)]),
        "s": pa.array([{"a": i, "b": [i] * (i % 3)} for i in range(NUM_ROWS)]),
        "v": pa.array([[i, i, i] for i in range(NUM_ROWS)], pa.list_(pa.float32(), 3)),
    }
)


class _CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[ByteRange]] = []

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self.requests.append(list(ranges))
        return super().get_ranges(path, ranges)

    def get_tail(self, path: str, max_bytes: int) -> tuple[pa.Buffer, int]:
        tail, num_bytes = super().get_tail(path, max_bytes)
        self.requests.append([ByteRange(num_bytes - tail.size, num_bytes)])
        return tail, num_bytes


def _store(table: pa.Table = TABLE, *, batch_rows: int = 130, **options: int) -> _CountingStore:
    store = _CountingStore()
    writer = open_writer(
        store.create("f"), schema_from_arrow(table.schema), WriteConfig(**{"data_cache_bytes": 0, **options})
    )
    for batch in table.to_batches(max_chunksize=batch_rows):
        writer.write_batch(batch)
    writer.finish()
    return store


@pytest.fixture(scope="module")
def reader() -> FileReader:
    return FileReader.open(_store(), "f")


@pytest.mark.parametrize("batch_rows", [1, 7, 130, 131, 1000, 5000])
def test_file_reader_batches_have_exactly_the_requested_rows(reader: FileReader, batch_rows: int) -> None:
    batches = list(reader.read_batches(reader.schema.fields, config=ReadConfig(batch_rows=batch_rows)))
    assert {batch.num_rows for batch in batches[:-1]} <= {batch_rows}
    assert 0 < batches[-1].num_rows <= batch_rows
    assert pa.Table.from_batches(batches).equals(TABLE)


@pytest.mark.parametrize("batch_rows", [1, 7, 130, 131, 1000, 5000])
def test_file_reader_returns_the_batches_of_a_page_together(reader: FileReader, batch_rows: int) -> None:
    runs = list(reader.read_batches(reader.schema.fields, config=ReadConfig(batch_rows=batch_rows), in_runs=True))
    assert all(run.num_rows % batch_rows == 0 for run in runs[:-1])
    assert len(runs) <= -(-NUM_ROWS // batch_rows)
    if batch_rows < 130 // 2:
        # Pages have 130 rows; a batch that crosses a page boundary is returned alone.
        assert len(runs) <= 2 * -(-NUM_ROWS // 130)
    assert pa.Table.from_batches(runs).equals(TABLE)


@pytest.mark.parametrize("row_range", [(0, 0), (0, 1), (129, 131), (130, 260), (5, 999), (999, 1000), (1000, 1000)])
def test_file_reader_reads_any_row_range(reader: FileReader, row_range: tuple[int, int]) -> None:
    expected = TABLE.slice(row_range[0], row_range[1] - row_range[0])
    assert reader.read_table(reader.schema.fields, row_range=row_range).equals(expected)
    batches = list(reader.read_batches(reader.schema.fields, row_range=row_range, config=ReadConfig(batch_rows=100)))
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)


@pytest.mark.parametrize("row_range", [(-1, 5), (5, 4), (0, 1001)])
def test_row_range_outside_the_file_raises_invalid_input(reader: FileReader, row_range: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError, match="the file has 1000 rows"):
        reader.read_table(reader.schema.fields, row_range=row_range)
    with pytest.raises(InvalidInputError, match="the file has 1000 rows"):
        reader.read_batches(reader.schema.fields, row_range=row_range)


def test_batch_rows_of_zero_raises_invalid_input(reader: FileReader) -> None:
    with pytest.raises(InvalidInputError, match="batch_rows"):
        reader.read_batches(reader.schema.fields, config=ReadConfig(batch_rows=0))


def test_file_reader_reads_pruned_structs(reader: FileReader) -> None:
    fields = reader.schema.project(["v", "s.b"]).fields
    found = reader.read_table(fields)
    assert found.column_names == ["v", "s"]
    assert found["s"].to_pylist() == [{"b": row["b"]} for row in TABLE["s"].to_pylist()]


def test_file_reader_without_fields_still_counts_rows(reader: FileReader) -> None:
    batches = list(reader.read_batches((), config=ReadConfig(batch_rows=300), row_range=(100, 1000)))
    assert [batch.num_rows for batch in batches] == [300, 300, 300]
    assert batches[0].num_columns == 0
    assert reader.read_table((), row_range=(1, 5)).num_rows == 4


def test_column_indices_override_the_schema_of_the_file(reader: FileReader) -> None:
    renamed = Field(id=77, name="renamed", logical_type="int64")
    found = reader.read_table([renamed], column_indices={77: 0})
    assert found["renamed"].to_pylist() == list(range(NUM_ROWS))
    with pytest.raises(InvalidInputError, match=r"'renamed' \(id 77\) has no column"):
        reader.read_table([renamed])
    with pytest.raises(InvalidInputError, match="column index 99 does not exist; the file has 5"):
        reader.read_table([renamed], column_indices={77: 99})


@pytest.mark.parametrize("rows", [[], [0], [999, 0, 500, 500, 130, 129]])
def test_file_reader_take_returns_rows_in_the_requested_order(reader: FileReader, rows: list[int]) -> None:
    assert reader.take(reader.schema.fields, rows).equals(TABLE.take(pa.array(rows, pa.int64())))


def test_take_of_rows_outside_the_file_raises_invalid_input(reader: FileReader) -> None:
    for row in (-1, 1000):
        with pytest.raises(InvalidInputError, match=f"row {row} is out of range"):
            reader.take(reader.schema.fields, [0, row])


def test_opening_a_small_file_takes_one_request() -> None:
    store = _store(TABLE.select(["x"]), batch_rows=NUM_ROWS)
    reader = FileReader.open(store, "f")
    assert len(store.requests) == 1
    assert len(reader.column_metadatas) == 1
    assert len(store.requests) == 1


def test_wrong_file_size_raises_corrupt_data_on_open() -> None:
    store = _store()
    num_bytes = store.head("f").num_bytes
    assert FileReader.open(store, "f", num_bytes=num_bytes).num_rows == NUM_ROWS
    with pytest.raises(CorruptDataError):
        FileReader.open(store, "f", num_bytes=num_bytes - 1)
    with pytest.raises(CorruptDataError):
        FileReader.open(store, "f", num_bytes=num_bytes + 1)


def test_metadata_larger_than_the_first_read_of_the_file_tail_is_read_completely() -> None:
    table = pa.table({f"column {i:04}": pa.array([i], pa.int32()) for i in range(700)})
    store = _store(table)
    reader = FileReader.open(store, "f")
    assert reader.metadata.footer.column_metadata_offset < store.head("f").num_bytes - 64 * 1024
    assert reader.read_table(reader.schema.fields).equals(table)


def test_only_the_requested_columns_and_pages_are_fetched() -> None:
    table = pa.table({name: pa.array(np.random.default_rng(1).random(40_000)) for name in "abc"})
    store = _store(table, batch_rows=10_000)
    reader = FileReader.open(store, "f")
    before = len(store.requests)
    found = reader.read_table(reader.schema.project(["b"]).fields, row_range=(10_000, 20_000))
    assert found["b"].equals(table["b"].slice(10_000, 10_000))
    page = reader.metadata.columns([1])[0].pages[1]
    assert [sorted(request) for request in store.requests[before:]] == [sorted(page.buffers)]


def test_scan_reads_nothing_after_its_iterator_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(pa.table({"x": pa.array(np.random.default_rng(1).random(100_000))}), batch_rows=10_000)
    reader = FileReader.open(store, "f")
    release = Event()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr("lance_core.file.scan.decode_pool", lambda: pool)
        # The only thread is busy, so the first batch is decoded here, and the pages after it stay in the queue.
        pool.submit(release.wait)
        config = ReadConfig(batch_rows=10_000, inline_bytes=0, ahead_segments=4, decoded_bytes=80_000)
        batches = reader.read_batches(reader.schema.fields, config=config)
        next(batches)
        before = len(store.requests)
        batches.close()  # type: ignore[attr-defined]
        release.set()
    # The pool has now run all remaining tasks in its queue.
    assert len(store.requests) == before


def test_full_zip_pages_of_a_mapped_file_are_not_copied() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(1).random(64 * 100), pa.float64()), 64)
    store = _store(pa.table({"v": vectors}))
    data = store.get("f")
    reader = FileReader.open(store, "f")
    [batch] = reader.read_batches(reader.schema.fields)
    address = batch.column(0).values.buffers()[1].address
    assert data.address <= address < data.address + data.size


def test_batches_of_nested_fixed_size_lists_can_be_filtered() -> None:
    # pyarrow 26.0 filters slices of such arrays incorrectly, so that batches must not be slices.
    values = np.arange(NUM_ROWS * 4).reshape(NUM_ROWS, 2, 2).tolist()
    table = pa.table({"v": pa.array(values, pa.list_(pa.list_(pa.int16(), 2), 2))})
    reader = FileReader.open(_store(table), "f")
    keep = pa.array([i % 2 == 0 for i in range(50)])
    for index, batch in enumerate(reader.read_batches(reader.schema.fields, config=ReadConfig(batch_rows=50))):
        assert batch.filter(keep)["v"].to_pylist() == values[index * 50 : index * 50 + 50 : 2]


def test_opening_a_missing_file_raises_not_found() -> None:
    with pytest.raises(NotFoundError):
        FileReader.open(MemoryStore(), "nothing")
