"""The number and size of the requests that a read sends to a store that cannot map files."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.families import open_writer
from lance_core.file.reader import FileReader
from lance_core.file.write_config import WriteConfig
from lance_core.io.memory_store import MemoryStore
from lance_core.schema.convert import schema_from_arrow
from tests.support.counting_store import CountingStore

NUM_ROWS = 200_000
ROWS = [17, 30_000, 77_777, 150_001, 199_999]


@cache
def _table() -> pa.Table:
    random = np.random.default_rng(5)
    return pa.table(
        {
            "word": random.integers(0, 1 << 62, NUM_ROWS),
            "vector": pa.FixedSizeListArray.from_arrays(random.random(NUM_ROWS * 40, np.float32), 40),
            "list": pa.ListArray.from_arrays(np.arange(NUM_ROWS + 1, dtype=np.int32), random.integers(0, 99, NUM_ROWS)),
            "text": pa.array([f"{i:0300}" for i in range(NUM_ROWS)]),
            "two": pa.StructArray.from_arrays(
                [random.integers(0, 1 << 62, NUM_ROWS), random.integers(0, 1 << 30, NUM_ROWS)], ["a", "b"]
            ),
        }
    )


@pytest.fixture(scope="module")
def store() -> CountingStore:
    store = CountingStore(MemoryStore())
    writer = open_writer(store.create("f"), schema_from_arrow(_table().schema), WriteConfig())
    for batch in _table().to_batches(max_chunksize=50_000):
        writer.write_batch(batch)
    writer.finish()
    return store


@pytest.fixture
def reader(store: CountingStore) -> FileReader:
    reader = FileReader.open(store, "f")
    assert len(reader.column_metadatas) == 6
    store.reset()
    return reader


def test_taking_a_row_reads_two_extents_per_column_with_cached_metadata(
    store: CountingStore, reader: FileReader
) -> None:
    for name in _table().column_names:
        fields = reader.schema.project([name]).fields
        expected = _table().select([name]).take(ROWS)
        assert reader.take(fields, ROWS).equals(expected.combine_chunks())
        store.reset()
        assert reader.take(fields, ROWS).equals(expected.combine_chunks())
        num_leaves = len(fields[0].leaves())
        assert sum(map(len, store.reads)) <= 2 * len(ROWS) * num_leaves
        # A single row costs a chunk of some kilobytes, or its own bytes.
        assert store.num_bytes_read() <= 12_000 * len(ROWS) * num_leaves


def test_columns_of_one_take_share_their_requests(store: CountingStore, reader: FileReader) -> None:
    found = reader.take(reader.schema.fields, ROWS)
    assert found.equals(_table().take(ROWS).combine_chunks())
    # The metadata of the pages, the repetition indexes, and the values.
    assert len(store.reads) <= 3
    store.reset()
    reader.take(reader.schema.fields, ROWS)
    assert len(store.reads) <= 2


def test_rows_near_each_other_share_an_extent(store: CountingStore, reader: FileReader) -> None:
    fields = reader.schema.project(["vector"]).fields
    rows = [1000, 1002, 1005, 1090, 40_000]
    assert reader.take(fields, rows).equals(_table().select(["vector"]).take(rows).combine_chunks())
    assert [len(ranges) for ranges in store.reads] == [2]


def test_row_range_of_structural_pages_reads_only_the_required_bytes(store: CountingStore, reader: FileReader) -> None:
    for name, least in (("word", 8), ("vector", 160), ("list", 1), ("text", 300), ("two", 12)):
        fields = reader.schema.project([name]).fields
        store.reset()
        found = reader.read_table(fields, row_range=(60_000, 60_100))
        assert found.equals(_table().select([name]).slice(60_000, 100))
        assert store.num_bytes_read() <= 100 * least + 40_000
        # Most of an entire page would not be needed.
        assert store.num_bytes_read() < sum(page.num_bytes for page in reader.column_metadatas[0].pages)


def test_a_small_scan_takes_one_request(store: CountingStore, reader: FileReader) -> None:
    fields = reader.schema.project(["list"]).fields
    assert reader.read_table(fields).equals(_table().select(["list"]))
    assert len(store.reads) == 1


def test_page_metadata_is_read_once(store: CountingStore, reader: FileReader) -> None:
    fields = reader.schema.project(["word"]).fields
    for start in range(0, 40_000, 10_000):
        reader.read_table(fields, row_range=(start, start + 10))
    # The first read also reads the chunk words.
    assert len(store.reads) == 5
