"""End offsets that also encode nulls, as used by strings and lists.

::

    stored      2    8    2    5        adjustment 6
    end         2    2    2    5        stored, minus the adjustment if stored >= adjustment
    valid       1    0    1    1        stored < adjustment
    row         0-2  2-2  2-2  2-5      starts at the previous end, or at 0

Source: ``lance.encodings.Binary``, ``lance.encodings.List``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.encodings.v2_0.api import MAX_INT32
from lance_core.encodings.v2_0.flat import read_offsets
from lance_core.encodings.v2_0.spans import MAX_POSITION, Spans
from lance_core.errors import CorruptDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import PageBuffers, Steps
    from lance_core.proto import pb20

__all__ = ["Ends", "end_offsets", "read_ends"]


@dataclass(frozen=True, slots=True)
class Ends:
    """Rows of variable length.

    Attributes:
        offsets: (num_rows + 1,) int32 or int64: the start of each row, followed by the end of the last row, as
            positions in the concatenation of ``wanted``. The first is 0. In a valid file, they ascend; this is checked
            only if the rows form several runs.
        validity: (num_rows,) mask, True = valid; None = no nulls.
        wanted: the runs of bytes or items that belong to the rows.
    """

    offsets: NDArray[Any]
    validity: NDArray[np.bool_] | None
    wanted: Spans


def end_offsets(offsets: NDArray[Any], validity: NDArray[np.bool_] | None, adjustment: int) -> NDArray[np.uint64]:
    """Convert Arrow offsets to stored ends, shape (num_rows,)."""
    first = offsets[0]
    ends = (offsets[1:] - first if first else offsets[1:]).astype(np.uint64)
    if validity is not None:
        # A multiplication has no branch to mispredict, unlike a selection.
        ends += np.multiply(~validity, np.uint64(adjustment), dtype=np.uint64)
    return ends


def read_ends(encoding: pb20.ArrayEncoding, adjustment: int, rows: Spans, page: PageBuffers) -> Steps[Ends]:
    """Read the positions of some rows.

    Raises:
        CorruptDataError: the offsets do not have 64 bits, or do not ascend.
    """
    if not rows.total:
        return Ends(np.zeros(1, np.int32), None, Spans.single(0, 0))
    # A row starts where the previous row ends.
    with_previous = Spans.of(np.maximum(rows.starts - 1, 0), rows.stops)
    stored = yield from read_offsets(encoding, with_previous, page)
    largest = int(stored.max())
    is_valid = None
    if largest >= adjustment:
        is_valid = stored < np.uint64(adjustment)
        stored = np.where(is_valid, stored, stored - np.uint64(adjustment))
        largest = int(stored.max())
    if largest >= MAX_POSITION:
        raise CorruptDataError(f"offset {largest} exceeds the maximum file size")
    num_runs = len(rows.starts)
    ends = np.empty(rows.total + num_runs, np.int32 if largest <= MAX_INT32 else np.int64)
    ends[: 1 - (rows.start > 0)] = 0
    ends[len(ends) - len(stored) :] = stored
    if num_runs == 1:
        return _one_run(ends, is_valid, rows)
    return _several_runs(ends, is_valid, rows)


def _one_run(ends: NDArray[Any], is_valid: NDArray[np.bool_] | None, rows: Spans) -> Ends:
    first, last = int(ends[0]), int(ends[-1])
    if first > last:
        raise CorruptDataError(f"offsets are not in ascending order: {first} is followed by {last}")
    if is_valid is not None and rows.start:
        is_valid = is_valid[1:]
    return Ends(ends - ends.dtype.type(first) if first else ends, _mask(is_valid), Spans.single(first, last))


def _several_runs(ends: NDArray[Any], is_valid: NDArray[np.bool_] | None, rows: Spans) -> Ends:
    sizes = np.diff(ends)
    if bool((sizes < 0).any()):
        raise CorruptDataError("offsets are not in ascending order")
    # Every run has an extra entry before its first row.
    lengths = rows.lengths
    fronts = np.cumsum(lengths + 1) - (lengths + 1)
    wanted = Spans.of(ends[fronts].astype(np.int64), ends[fronts + lengths].astype(np.int64))
    offsets = np.zeros(rows.total + 1, np.int64)
    np.cumsum(np.delete(sizes, fronts[1:] - 1), out=offsets[1:])
    if is_valid is not None:
        is_valid = np.delete(is_valid, fronts if rows.start else fronts[1:] - 1)
    return Ends(offsets, _mask(is_valid), wanted)


def _mask(is_valid: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return None if is_valid is None or bool(is_valid.all()) else is_valid
