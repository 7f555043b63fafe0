"""Extents: fetches many small byte spans of a file with few reads, and joins them with few copies.

A column in format 0.1 is scattered over thousands of small pages. Spans that are close together are read together, and
all calculations are done on arrays of positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lance_core.encodings.leaf_arrays import bytes_of
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.file.file_bytes import ReadSteps

__all__ = ["Extents", "merged_spans"]

_MAX_GAP_BYTES: Final = 8 * 1024
"""Spans that are at most this many bytes apart are read together."""


class Extents:
    """The parts of one file that are in memory, extended as spans are requested. Not safe for concurrent use.

    Several reads may be interleaved, so that they share requests.
    """

    __slots__ = ("_parts", "_rounds")

    def __init__(self) -> None:
        """Create the object without reading anything."""
        self._parts: list[NDArray[np.uint8]] = []
        # For each round of reads: index of its first part, and locations of its parts, which are disjoint and
        # ascending.
        self._rounds: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []

    def load(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64], *, are_offsets: bool = False
    ) -> ReadSteps[None]:
        """Load spans into memory, in at most one step.

        Args:
            starts: start positions in the file, shape (num_spans,).
            stops: end positions in the file, none of them less than its start; shape (num_spans,).
            are_offsets: whether the spans contain offsets of other bytes; readers of individual rows cache such spans.
        """
        absent = (self._place(starts, stops)[0] < 0) & (starts < stops)
        if not absent.any():
            return
        first, last = merged_spans(starts[absent], stops[absent])
        pairs = zip(first.tolist(), last.tolist(), strict=True)
        found = yield [ByteRange(start, stop, are_offsets) for start, stop in pairs]
        self._rounds.append((len(self._parts), first, last))
        self._parts += [bytes_of(buffer) for buffer in found]

    def gather(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64], *, are_offsets: bool = False
    ) -> ReadSteps[NDArray[np.uint8]]:
        """Return the bytes of the spans, back to back, without a copy if the spans are contiguous. See :meth:`load`."""
        yield from self.load(starts, stops, are_offsets=are_offsets)
        filled = starts < stops
        if not filled.all():
            starts, stops = starts[filled], stops[filled]
        if not len(starts):
            return np.empty(0, np.uint8)
        places, origins = self._place(starts, stops)
        starts, stops = starts - origins, stops - origins
        if bool((places == places[0]).all()):
            return _from_one(self._parts[int(places[0])], starts, stops)
        parts = self._parts
        return np.concatenate(
            [
                parts[place][start:stop]
                for place, start, stop in zip(places.tolist(), starts.tolist(), stops.tolist(), strict=True)
            ]
        )

    def _place(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, for each span, the index of the part that contains it, or -1, and the start of that part."""
        places = np.full(len(starts), -1, np.int64)
        origins = np.zeros(len(starts), np.int64)
        for first_part, part_starts, part_stops in self._rounds:
            near = np.maximum(np.searchsorted(part_starts, starts, side="right") - 1, 0)
            held = (starts >= part_starts[near]) & (stops <= part_stops[near])
            places[held] = first_part + near[held]
            origins[held] = part_starts[near[held]]
        return places, origins


def merged_spans(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ascending spans that cover the given ones and are far enough apart to be read separately."""
    if not len(starts):
        return starts, stops
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(stops[order])
    cuts = np.flatnonzero(starts[1:] - reached[:-1] > _MAX_GAP_BYTES) + 1
    return starts[np.concatenate([[0], cuts])], reached[np.concatenate([cuts - 1, [len(starts) - 1]])]


def _from_one(part: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.uint8]:
    if len(starts) == 1 or bool((starts[1:] == stops[:-1]).all()):
        return part[int(starts[0]) : int(stops[-1])]
    num_bytes, stride = int(stops[0] - starts[0]), int(starts[1] - starts[0])
    # The last page of a column is usually shorter than the others.
    even = len(starts) - 1
    if (
        stride >= 0
        and bool((np.diff(starts[:-1]) == stride).all())
        and bool(((stops - starts)[:even] == num_bytes).all())
    ):
        first = int(starts[0])
        rows = as_strided(part[first:], (even, num_bytes), (stride, 1), writeable=False)
        return np.concatenate([rows.reshape(-1), part[int(starts[-1]) : int(stops[-1])]])
    return np.concatenate([part[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)])
