"""Offset and limit over rows that come in pieces."""

import numpy as np
import pyarrow as pa
import pytest

from lance_core.api.filtering.matching import RowCut, gathered
from lance_core.api.row_columns import RowColumns


@pytest.mark.parametrize("offset", [None, 0, 1, 3, 5, 9, 10, 20])
@pytest.mark.parametrize("limit", [None, 0, 1, 4, 10, 100])
@pytest.mark.parametrize("sizes", [[10], [3, 3, 4], [1] * 10, [0, 5, 0, 5]], ids=str)
def test_a_cut_is_a_slice_of_the_whole(offset: int | None, limit: int | None, sizes: list[int]) -> None:
    rows = np.arange(10)
    pieces = np.split(rows, np.cumsum(sizes)[:-1])
    start = offset or 0
    expected = rows[start : None if limit is None else start + limit].tolist()
    found = list(gathered(iter(pieces), RowCut(offset, limit)))
    assert np.concatenate([np.empty(0, np.int64), *found]).tolist() == expected
    assert all(piece.size for piece in found)


def test_nothing_is_asked_for_after_the_last_row() -> None:
    def pieces():
        yield np.arange(5)
        raise AssertionError("one piece was enough")

    assert [piece.tolist() for piece in gathered(pieces(), RowCut(1, 4))] == [[1, 2, 3, 4]]


def test_row_columns() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    columns = RowColumns(with_id=True, with_address=True)
    found = columns.append(batch, 3, np.array([0, 7]))
    assert found.schema.equals(columns.schema(batch.schema))
    assert found.to_pydict() == {"a": [1, 2], "_rowid": [3 << 32, (3 << 32) + 7], "_rowaddr": [3 << 32, (3 << 32) + 7]}
    assert RowColumns().append(batch, 3, np.array([0, 7])) is batch
