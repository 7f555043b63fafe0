"""Spans: requested rows, items, bits or bytes.

A scan requests one run of rows, and a take requests many short runs; a decoder treats both alike. From one level of
nesting to the next, the unit of the spans changes (rows to items, items to bytes), but their order stays the same.

Source: specific to this library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from lance_core.errors import CorruptDataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_POSITION", "Spans"]

MAX_POSITION: Final = 1 << 62
"""Positions in a file must be below this limit, so that the sum of two positions is less than 2^63."""


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Half-open runs in ascending order that do not overlap; a run may be empty.

    Attributes:
        starts: start of each run, (num_spans,) int64; at least one run.
        stops: end of each run, (num_spans,) int64.
        total: sum of the lengths of the runs.
        are_offsets: whether the runs contain offsets of other bytes; readers of individual rows cache such runs.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    total: int
    are_offsets: bool = False

    @classmethod
    def single(cls, start: int, stop: int) -> Self:
        """Return a single run."""
        return cls(np.array([start], np.int64), np.array([stop], np.int64), stop - start)

    @classmethod
    def of(cls, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Self:
        """Build spans from ascending runs that do not overlap; adjacent runs are joined."""
        if len(starts) > 1:
            joins = starts[1:] == stops[:-1]
            if bool(joins.any()):
                starts = starts[np.concatenate(([True], ~joins))]
                stops = stops[np.concatenate((~joins, [True]))]
        return cls(starts, stops, int((stops - starts).sum()))

    @classmethod
    def of_points(cls, points: NDArray[np.int64]) -> Self:
        """Build spans from individual positions, ascending and without duplicates; at least one."""
        return cls.of(points, points + 1)

    @property
    def start(self) -> int:
        """Start of the first run."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        """End of the last run."""
        return int(self.stops[-1])

    @property
    def is_single(self) -> bool:
        """Whether there is only one run."""
        return len(self.starts) == 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each run, (num_spans,) int64."""
        return self.stops - self.starts

    def scaled(self, factor: int) -> Spans:
        """Return the same runs in a smaller unit: each position becomes ``factor`` positions.

        Raises:
            CorruptDataError: a position is larger than any file.
        """
        if self.stop * factor >= MAX_POSITION:
            raise CorruptDataError(f"position {self.stop} * {factor} exceeds the maximum file size")
        return Spans(self.starts * factor, self.stops * factor, self.total * factor)

    def shifted(self, offset: int) -> Spans:
        """Return the same runs, shifted by ``offset``.

        Raises:
            CorruptDataError: a position is larger than any file.
        """
        if self.stop + offset >= MAX_POSITION:
            raise CorruptDataError(f"position {self.stop} + {offset} exceeds the maximum file size")
        return Spans(self.starts + offset, self.stops + offset, self.total)

    def positions(self) -> NDArray[np.int64]:
        """Return all positions, shape (total,)."""
        if self.is_single:
            return np.arange(self.start, self.stop)
        lengths = self.lengths
        before = np.cumsum(lengths) - lengths
        return np.repeat(self.starts - before, lengths) + np.arange(self.total)

    def clipped(self, start: int, stop: int) -> Spans | None:
        """Return the parts inside ``[start, stop)``, relative to ``start``; None if there are no such parts."""
        if start == 0 and self.total > 0 and self.stop <= stop:
            return self
        first = int(np.searchsorted(self.stops, start, side="right"))
        last = int(np.searchsorted(self.starts, stop, side="left"))
        if first >= last:
            return None
        starts = np.maximum(self.starts[first:last], start) - start
        stops = np.minimum(self.stops[first:last], stop) - start
        return Spans(starts, stops, int((stops - starts).sum()))

    def covering(self, unit: int) -> Spans:
        """Return the runs in units of ``unit`` positions, extended to whole units."""
        starts, stops = self.starts // unit, -(-self.stops // unit)
        if len(starts) > 1:
            # Neighboring runs may be in the same unit.
            new = np.concatenate(([True], starts[1:] > stops[:-1]))
            starts = starts[new]
            stops = stops[np.concatenate((new[1:], [True]))]
        return Spans(starts, stops, int((stops - starts).sum()))

    def index_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of each position in the concatenation of the runs; all positions must be in the runs."""
        if self.is_single:
            return positions - self.start
        lengths = self.lengths
        before = np.cumsum(lengths) - lengths
        run = np.searchsorted(self.starts, positions, side="right") - 1
        found: NDArray[np.int64] = positions - self.starts[run] + before[run]
        return found
