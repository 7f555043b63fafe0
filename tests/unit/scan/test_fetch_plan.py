"""Which matching rows are read individually, and which in ranges."""

import numpy as np
import pytest

from lance_core.io.read_costs import MEMORY_COSTS, REMOTE_COSTS, ReadCosts
from lance_core.scan.fetch_plan import Fetch, RowCosts, plan_fetches

NARROW = RowCosts(num_leaves=1, row_bytes=8.0, of_store=MEMORY_COSTS)
WIDE = RowCosts(num_leaves=1, row_bytes=8192.0, of_store=MEMORY_COSTS)
EVERY = np.arange(100_000, dtype=np.int64)


def planned(rows: np.ndarray, costs: RowCosts) -> list[tuple[int, int, bool]]:
    """Return the plan, after checking that its parts contain all rows in order."""
    plan = plan_fetches(rows, costs)
    assert [plan[0].start, *(each.stop for each in plan)] == [*(each.start for each in plan), len(rows)]
    return [(int(rows[each.start]), int(rows[each.stop - 1]), each.in_range) for each in plan]


def test_dense_rows_are_read_as_one_range() -> None:
    assert planned(EVERY[::2], NARROW) == [(0, 99_998, True)]


def test_sparse_rows_are_read_individually() -> None:
    assert planned(EVERY[::80], NARROW) == [(0, 99_920, False)]


def test_few_rows_are_read_individually_even_if_they_are_neighbors() -> None:
    assert planned(EVERY[:1000], NARROW) == [(0, 999, False)]
    assert planned(EVERY[:2000], NARROW) == [(0, 1999, True)]


def test_rows_far_apart_are_read_in_several_ranges() -> None:
    rows = np.concatenate([EVERY[:5000], EVERY[60_000:], EVERY[-1:] + 10**7])
    for store in (MEMORY_COSTS, REMOTE_COSTS):
        # Reading a gap of 55,000 rows takes longer than starting another range.
        costs = RowCosts(4, 200.0, store)
        assert planned(rows, costs) == [(0, 4999, True), (60_000, 99_999, True), (10_099_999, 10_099_999, False)]


def test_clusters_of_few_rows_are_read_together() -> None:
    rows = np.sort(np.concatenate([EVERY[::20_000], EVERY[40_000:42_000] + 3]))
    assert planned(rows, WIDE) == [(0, 20_000, False), (40_000, 42_002, True), (60_000, 80_000, False)]
    # Reading small rows in between takes less time than starting another range.
    assert planned(rows, NARROW) == [(0, 80_000, False)]


@pytest.mark.parametrize(
    ("row_bytes", "step", "in_range"),
    [(8, 20, True), (8, 60, False), (128, 20, True), (1024, 20, False), (8192, 4, False), (8192, 1, True)],
)
def test_large_rows_are_read_individually_at_higher_densities(row_bytes: int, step: int, in_range: bool) -> None:
    [(_, _, found)] = planned(EVERY[::step], RowCosts(1, float(row_bytes), MEMORY_COSTS))
    assert found is in_range


def test_rows_covered_by_one_request_are_read_as_one_range() -> None:
    rows = EVERY[::12]
    # 12 rows have 48 KiB, which is less than a single request covers.
    assert planned(rows, RowCosts(1, 4096.0, REMOTE_COSTS))[0][2]
    slow = ReadCosts(request_seconds=0.0, bytes_per_second=REMOTE_COSTS.bytes_per_second, near_bytes=0)
    assert not planned(rows, RowCosts(1, 4096.0, slow))[0][2]


def test_computed_columns_are_evaluated_for_individual_rows() -> None:
    assert plan_fetches(EVERY, RowCosts(0, 0.0, MEMORY_COSTS)) == [Fetch(0, len(EVERY), in_range=False)]


def test_object_store_reads_a_range_if_individual_rows_would_take_as_many_bytes() -> None:
    rows = np.arange(0, 2_000_000, 200)
    assert [in_range for *_, in_range in planned(rows, RowCosts(5, 160.0, REMOTE_COSTS))] == [True]
    assert [in_range for *_, in_range in planned(rows, RowCosts(5, 160.0, MEMORY_COSTS))] == [False]
