"""Scans with a filter fetch all columns of small files at once, and those of large files after the filter."""

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import LanceError, NotFoundError, StorageError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS
from lance_core.io.uri import register_store, unregister_store
from lance_core.scan.row_mask import serialize_row_addrs
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call, When

NUM_FILES = 12
FILE_ROWS = 6_000
NUM_ROWS = NUM_FILES * FILE_ROWS
URI = "memory://early/small.lance"
LARGE_URI = "memory://early/large.lance"
FILTERS = {
    "none": "k < 0",
    "one row": f"k = {NUM_ROWS // 2}",
    "some rows": "k % 100 = 7",
    "half of the rows": "k % 2 = 0",
    "all rows": "k >= 0",
    "strings": "s like '%9%' and x > 0",
    "struct": "p.a < 50",
    "list": "array_length(l) = 2",
}
COLUMNS = {
    "all": None,
    "the filter's and one other": ["k", "v"],
    "others": ["v", "y"],
    "in another order": ["v", "s", "p.b", "k", "x"],
    "lists": ["l"],
    "with row ids": ["_rowid", "v", "_rowaddr"],
}


class RemoteStore(CountingStore):
    """Counts requests that cost as much as those of an object store."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(self.inner.capabilities, read_costs=REMOTE_COSTS)


def _rows(num_rows: int, width: int) -> pa.Table:
    random = np.random.default_rng(13)
    keys = random.permutation(num_rows)
    return pa.table(
        {
            "k": keys,
            "y": random.integers(0, 2**31 - 1, num_rows, np.int32),
            "x": random.standard_normal(num_rows),
            "s": [None if key % 11 == 3 else f"{key}@{key * 7 % 1000}" for key in keys.tolist()],
            "l": [list(range(key % 4)) if key % 5 else None for key in keys.tolist()],
            "p": [{"a": key % 100, "b": f"b{key % 13}"} for key in keys.tolist()],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(random.standard_normal(width * num_rows)), width),
        }
    )


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def store(request: pytest.FixtureRequest) -> Iterator[RemoteStore]:
    store = RemoteStore(MemoryStore())
    register_store("early", store)
    try:
        version = request.param
        lance_core.write_dataset(_rows(NUM_ROWS, 8), URI, data_storage_version=version, max_rows_per_file=FILE_ROWS)
        lance_core.write_dataset(_rows(40_000, 64), LARGE_URI, data_storage_version=version, max_rows_per_file=10_000)
        yield store
    finally:
        unregister_store("early")


@pytest.fixture
def dataset(store: RemoteStore) -> lance_core.LanceDataset:
    return _warm(store, URI)


def _warm(store: RemoteStore, uri: str) -> lance_core.LanceDataset:
    """A dataset whose files have been opened."""
    store.fault = lambda call: None
    opened = lance_core.dataset(uri)
    opened.to_table()
    store.reset()
    return opened


@pytest.mark.parametrize("condition", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS.keys())
def test_columns_of_small_files_are_fetched_with_one_request_each(store, dataset, condition, columns, monkeypatch):
    found = dataset.to_table(columns=columns, filter=condition)
    assert len(store.reads) <= NUM_FILES
    expected = _fetched_later(dataset, monkeypatch, columns=columns, filter=condition)
    assert found.equals(expected)
    assert found.schema.equals(expected.schema)


def _fetched_later(dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch, **scan: object) -> pa.Table:
    with monkeypatch.context() as patch:
        patch.setattr("lance_core.io.read_costs.ReadCosts.early_bytes", lambda *_: 0)
        return dataset.to_table(**scan)


def test_columns_of_large_files_are_fetched_for_the_matching_rows_only(store):
    dataset = _warm(store, LARGE_URI)
    found = dataset.to_table(filter="k = 77")
    assert found["k"].to_pylist() == [77]
    # The column of the filter, and one row of the others.
    assert store.num_bytes_read() < 10 * 40_000


def test_scan_with_a_limit_fetches_no_columns_early(store, dataset):
    assert dataset.to_table(filter="k >= 0", limit=3).num_rows == 3
    assert len({call.path for call in store.calls}) == 1


def test_count_reads_only_the_column_of_the_filter(store, dataset):
    assert dataset.count_rows(filter="k % 2 = 0") == NUM_ROWS // 2
    assert store.num_bytes_read() < 9 * NUM_ROWS


def test_filtered_scan_of_row_ids_reads_only_the_column_of_the_filter(store, dataset):
    found = dataset.to_table(columns=["_rowid"], filter="k % 2 = 0")
    assert found.num_rows == NUM_ROWS // 2
    assert store.num_bytes_read() < 9 * NUM_ROWS


def test_scan_of_selected_row_addresses_does_not_read_whole_columns(store, dataset):
    assert dataset.scanner(row_addr_allowlist=serialize_row_addrs([5])).to_table().num_rows == 1
    assert store.num_bytes_read() < 100_000


def test_deleted_rows_are_not_returned(store, dataset, monkeypatch):
    dataset.delete("k % 3 = 0")
    try:
        scan = {"filter": "k % 2 = 0", "columns": ["k", "v", "s"]}
        found = dataset.to_table(**scan)
        assert found["k"].to_pylist() == [key for key in found["k"].to_pylist() if key % 2 == 0 and key % 3]
        assert found.num_rows == sum(1 for key in range(0, NUM_ROWS, 2) if key % 3)
        assert found.equals(_fetched_later(dataset, monkeypatch, **scan))
    finally:
        lance_core.dataset(URI, version=1).restore()


def test_bytes_are_fetched_in_portions_that_fit_into_the_buffer(store, dataset, monkeypatch):
    file_bytes = sum(store.inner.head(file.path).num_bytes for file in store.inner.list("small.lance/data")) / NUM_FILES
    buffer_bytes = round(5 * file_bytes)
    scan = {"filter": "k % 2 = 0", "io_buffer_size": buffer_bytes}
    batches = dataset.to_batches(**scan)
    first = next(batches)
    assert len({call.path for call in store.calls}) == 4
    assert store.num_bytes_read() <= buffer_bytes
    found = pa.Table.from_batches([first, *batches])
    assert len(store.reads) == NUM_FILES
    assert found.equals(_fetched_later(dataset, monkeypatch, filter="k % 2 = 0"))


def test_files_that_do_not_fit_into_the_buffer_are_not_fetched_early(store, dataset):
    found = dataset.to_table(filter="k = 77", io_buffer_size=1000)
    assert found["k"].to_pylist() == [77]
    assert store.num_bytes_read() < 20 * NUM_ROWS


def test_abandoned_scan_sends_no_further_requests(store, dataset):
    file_bytes = sum(store.inner.head(file.path).num_bytes for file in store.inner.list("small.lance/data")) / NUM_FILES
    batches = dataset.to_batches(filter="k % 2 = 0", io_buffer_size=round(3 * file_bytes))
    next(batches)
    batches.close()
    assert len(store.reads) <= 2


def test_forked_process_continues_a_scan(dataset):
    batches = dataset.to_batches(filter="k % 2 = 0")
    first = next(batches)
    child = os.fork()
    if child == 0:
        os._exit(0 if sum(batch.num_rows for batch in [first, *batches]) == NUM_ROWS // 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(batch.num_rows for batch in [first, *batches]) == NUM_ROWS // 2


def test_failed_request_raises_its_error(store, dataset):
    name = dataset.get_fragments()[4].data_files()[0].path
    store.fault = lambda call: When.BEFORE if call.path.endswith(name) else None
    with pytest.raises(StorageError, match="injected"):
        dataset.to_table(filter="k % 2 = 0")


def test_request_that_fails_once_is_repeated(store, dataset):
    name = dataset.get_fragments()[4].data_files()[0].path
    failures = iter([When.BEFORE])

    def fails(call: Call) -> When | None:
        return next(failures, None) if call.path.endswith(name) else None

    store.fault = fails
    assert dataset.to_table(filter="k % 2 = 0").num_rows == NUM_ROWS // 2


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_damaged_file_is_named_in_the_error(store, dataset, damage):
    name = dataset.get_fragments()[4].data_files()[0].path
    path = next(file.path for file in store.inner.list("small.lance/data") if file.path.endswith(name))
    content = store.inner.get(path)
    store.inner.delete(path)
    if damage == "truncated":
        store.inner.put(path, content.slice(0, 1000))
    try:
        with pytest.raises(NotFoundError if damage == "missing" else LanceError, match=name):
            dataset.to_table(filter="k % 2 = 0")
    finally:
        store.inner.put(path, content)


def test_filter_with_early_fetch_returns_the_matching_rows(dataset):
    rows = _rows(NUM_ROWS, 8)
    mask = pc.and_(pc.match_like(rows["s"], "%9%"), pc.greater(rows["x"], 0.0))
    assert dataset.to_table(filter="s like '%9%' and x > 0").equals(rows.filter(mask))
