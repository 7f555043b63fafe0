"""Offset and limit applied to rows that arrive in batches."""

import numpy as np
import pytest

from lance_core.scan.matching import RowCut, gathered


@pytest.mark.parametrize("offset", [None, 0, 1, 3, 5, 9, 10, 20])
@pytest.mark.parametrize("limit", [None, 0, 1, 4, 10, 100])
@pytest.mark.parametrize("sizes", [[10], [3, 3, 4], [1] * 10, [0, 5, 0, 5]], ids=str)
def test_gathered_rows_with_limit_and_offset_are_a_slice(
    offset: int | None, limit: int | None, sizes: list[int]
) -> None:
    rows = np.arange(10)
    pieces = np.split(rows, np.cumsum(sizes)[:-1])
    start = offset or 0
    expected = rows[start : None if limit is None else start + limit].tolist()
    found = list(gathered(iter(pieces), RowCut(offset, limit)))
    assert np.concatenate([np.empty(0, np.int64), *found]).tolist() == expected
    assert all(piece.size for piece in found)


def test_gathering_rows_stops_at_the_limit() -> None:
    def pieces():
        yield np.arange(5)
        raise AssertionError("one piece was enough")

    assert [piece.tolist() for piece in gathered(pieces(), RowCut(1, 4))] == [[1, 2, 3, 4]]


def test_rows_are_examined_in_growing_steps_under_a_limit() -> None:
    cut = RowCut(None, 10)
    assert list(cut.steps(5, 200_005)) == [(5, 65_541), (65_541, 196_613), (196_613, 200_005)]
    # The next step has 262,144 rows.
    assert list(cut.steps(0, 262_145)) == [(0, 262_144), (262_144, 262_145)]
    assert list(RowCut(3, None).steps(5, 1_000_005)) == [(5, 1_000_005)]
