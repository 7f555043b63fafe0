"""Maps a range of a dataset's rows to rows of fragments, without reading any files.

The rows of a fragment are numbered in two ways. *Live* rows are numbered without the deleted rows; *physical* rows are
numbered by their positions in the data files. Let ``d`` be the sorted positions of the deleted rows. Then ``d[i] - i``
live rows precede deleted row ``i``, so live row ``k`` is at position ``k + (number of i with d[i] - i <= k)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

__all__ = ["LiveRange", "live_to_physical", "plan_ranges"]


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A range of live rows of one fragment.

    Attributes:
        index: index of the fragment in scan order.
        start: index of the first live row in the range.
        stop: index of the live row at which the range ends (exclusive).
    """

    index: int
    start: int
    stop: int


def plan_ranges(live_counts: Iterable[int], *, offset: int | None, limit: int | None) -> Iterator[LiveRange]:
    """Yield the parts of fragments that contain rows ``[offset, offset + limit)`` of the dataset.

    Args:
        live_counts: number of live rows in each fragment, in scan order; only as many items as needed are consumed.
        offset: number of rows to skip; None means 0.
        limit: maximum number of rows to return; None means no limit.

    Raises:
        InvalidInputError: the offset or the limit is negative.
    """
    for name, value in (("limit", limit), ("offset", offset)):
        if value is not None and value < 0:
            raise InvalidInputError(f"{name} must be non-negative, found {value}")
    return _ranges(live_counts, offset or 0, limit)


def live_to_physical(deleted: npt.NDArray[np.uint32], live_rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the positions of live rows in the data files.

    Args:
        deleted: sorted positions of the deleted rows, shape (num_deleted,).
        live_rows: indices of live rows, in any order, shape (num_rows,).

    Returns:
        A new array of shape (num_rows,).
    """
    if not len(deleted):
        return live_rows.copy()
    live_before = deleted.astype(np.int64) - np.arange(len(deleted), dtype=np.int64)
    return live_rows + np.searchsorted(live_before, live_rows, side="right")


def _ranges(live_counts: Iterable[int], skip: int, left: int | None) -> Iterator[LiveRange]:
    if left == 0:
        return
    for index, count in enumerate(live_counts):
        start = min(skip, count)
        skip -= start
        stop = count if left is None else min(count, start + left)
        if start < stop:
            yield LiveRange(index, start, stop)
        if left is not None:
            left -= stop - start
            if left == 0:
                return
