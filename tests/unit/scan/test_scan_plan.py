"""Row arithmetic of scans, compared with plain lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.errors import InvalidInputError
from lance_core.scan.scan_plan import LiveRange, live_to_physical, plan_ranges


@given(
    counts=st.lists(st.integers(0, 6), max_size=6),
    offset=st.none() | st.integers(0, 20),
    limit=st.none() | st.integers(0, 20),
)
def test_planned_ranges_with_limit_and_offset_are_a_slice_of_all_rows(
    counts: list[int], offset: int | None, limit: int | None
) -> None:
    rows = [(index, row) for index, count in enumerate(counts) for row in range(count)]
    start = offset or 0
    expected = rows[start : None if limit is None else start + limit]
    found = [
        (part.index, row)
        for part in plan_ranges(counts, offset=offset, limit=limit)
        for row in range(part.start, part.stop)
    ]
    assert found == expected


def test_scan_plan_does_not_count_fragments_beyond_the_limit() -> None:
    def counts():
        yield 5
        raise AssertionError

    assert list(plan_ranges(counts(), offset=1, limit=2)) == [LiveRange(0, 1, 3)]


@pytest.mark.parametrize("name", ["offset", "limit"])
def test_negative_limit_or_offset_raises_invalid_input(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} must be non-negative, found -1"):
        plan_ranges([1], **{"offset": None, "limit": None, name: -1})


@given(st.integers(1, 60), st.data())
def test_live_row_positions_skip_deleted_rows(physical_rows: int, data: st.DataObject) -> None:
    deleted = sorted(data.draw(st.sets(st.integers(0, physical_rows - 1))))
    positions = [position for position in range(physical_rows) if position not in deleted]
    found = live_to_physical(np.array(deleted, np.uint32), np.arange(len(positions), dtype=np.int64))
    assert found.tolist() == positions
