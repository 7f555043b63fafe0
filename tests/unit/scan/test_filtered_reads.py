"""Filtered scans read the columns of the filter completely, and the other columns only for the returned rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import StoreCapabilities
from lance_core.io.read_costs import REMOTE_COSTS
from lance_core.io.uri import register_store, unregister_store
from tests.support.counting_store import CountingStore

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]
NUM_ROWS = 300_000
_URI = "memory://filtered/t.lance"


class RemoteStore(CountingStore):
    """A counting store whose requests cost as much as those of an object store."""

    @property
    def capabilities(self) -> StoreCapabilities:
        return replace(self.inner.capabilities, read_costs=REMOTE_COSTS)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    random = np.random.default_rng(13)
    return pa.table(
        {
            "i": np.arange(NUM_ROWS),
            "k": random.integers(0, 1000, NUM_ROWS),
            "s": [f"{row:07}{'y' * (row % 50)}" for row in range(NUM_ROWS)],
            "v": pa.FixedSizeListArray.from_arrays(pa.array(random.standard_normal(16 * NUM_ROWS)), 16),
        }
    )


@pytest.fixture(scope="module", params=VERSIONS)
def table(request: pytest.FixtureRequest, rows: pa.Table) -> Iterator["_Table"]:
    with _written(rows, request.param, max_rows_per_file=NUM_ROWS) as written:
        yield written


@contextmanager
def _written(rows: pa.Table, version: str, *, max_rows_per_file: int) -> Iterator["_Table"]:
    store = RemoteStore(MemoryStore())
    register_store("filtered", store)
    try:
        lance_core.write_dataset(rows, _URI, data_storage_version=version, max_rows_per_file=max_rows_per_file)
        yield _Table(store, rows)
    finally:
        unregister_store("filtered")


class _Table:
    def __init__(self, store: RemoteStore, rows: pa.Table) -> None:
        self._store = store
        self._rows = rows
        self.num_bytes = sum(store.inner.head(file.path).num_bytes for file in store.inner.list("t.lance/data"))

    def read(self, mask: np.ndarray, **scan: object) -> tuple[int, int]:
        """Check the rows of a scan, and return its numbers of store calls and of bytes read."""
        dataset = lance_core.dataset(_URI)
        dataset.to_table(**scan)
        self._store.reset()
        found = dataset.to_table(**scan)
        cost = len(self._store.calls), self._store.num_bytes_read()
        expected = self._rows.filter(pa.array(mask)).slice(0, scan.get("limit"))
        assert found.equals(expected.select(scan["columns"]) if "columns" in scan else expected)
        return cost

    def count(self, predicate: str) -> tuple[int, int]:
        """Return the cost of counting rows in a dataset that was just opened, as numbers of calls and bytes."""
        dataset = lance_core.dataset(_URI)
        self._store.reset()
        dataset.count_rows(predicate)
        return len(self._store.calls), self._store.num_bytes_read()


def test_a_limit_ends_a_scan_before_the_rest_of_the_table_is_read(table: _Table, rows: pa.Table) -> None:
    scan = {"filter": "s like '%yy%'", "limit": 10}
    calls, num_bytes = table.read(np.arange(NUM_ROWS) % 50 >= 2, **scan)
    assert calls <= 6
    # The first 65,536 rows of the filter's column.
    column = table.read(np.ones(NUM_ROWS, bool), columns=["s"])[1]
    assert num_bytes < 0.3 * column + 100_000
    assert num_bytes < table.num_bytes / 10


def test_limit_that_is_reached_late_adds_few_requests(table: _Table) -> None:
    mask = np.arange(NUM_ROWS) >= NUM_ROWS - 3
    scan = {"filter": f"s >= '{NUM_ROWS - 3:07}'", "columns": ["s"], "use_stats": False}
    whole, _ = table.read(mask, **scan)
    limited, _ = table.read(mask, **scan, limit=3)
    assert limited <= whole + 12


def test_counting_rows_reads_only_the_columns_of_the_filter(table: _Table) -> None:
    _, num_bytes = table.count("k < 500")
    _, of_all_rows = table.read(np.ones(NUM_ROWS, bool), columns=["k"])
    # The metadata at the end of the file, and the statistics of 0.1.
    assert of_all_rows <= num_bytes < of_all_rows + 400_000
    assert num_bytes < table.num_bytes / 6


def test_sparse_rows_are_fetched_individually(table: _Table, rows: pa.Table) -> None:
    mask = rows["k"].to_numpy() == 7
    [(calls, num_bytes), (_, of_filter)] = (
        table.read(mask, filter="k = 7"),
        table.read(np.ones(NUM_ROWS, bool), columns=["k"]),
    )
    assert calls < 12
    # Every 1,000th row; 2.0 also reads bytes within 64 KiB, like object stores.
    assert num_bytes - of_filter < (table.num_bytes - of_filter) / 2


def test_clusters_of_rows_are_fetched_without_the_rows_between_them(table: _Table) -> None:
    numbers = np.arange(NUM_ROWS)
    mask = (numbers < 20_000) | (numbers >= 290_000)
    _, num_bytes = table.read(mask, filter="i < 20000 or i >= 290000", use_stats=False)
    _, of_filter = table.read(np.ones(NUM_ROWS, bool), columns=["i"])
    assert num_bytes - of_filter < 0.2 * table.num_bytes


@pytest.mark.parametrize("version", VERSIONS)
def test_scan_with_a_limit_does_not_open_later_fragments(rows: pa.Table, version: str) -> None:
    with _written(rows, version, max_rows_per_file=30_000) as table:
        calls, num_bytes = table.read(rows["k"].to_numpy() < 500, filter="k < 500", limit=10)
        assert calls <= 6
        assert num_bytes < table.num_bytes / 50
