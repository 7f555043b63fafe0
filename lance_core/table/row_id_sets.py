"""Lookups in the five forms of a segment: numbers by position, and positions by number.

Neither lookup unpacks the whole segment. Besides the memory for the result, each form needs:

=================  =====================================================
form               additional memory
=================  =====================================================
range              nothing
range_with_holes   16 bytes for each hole
range_with_bitmap  the bitmap as it is stored, 4 bytes for each 8 slots
sorted_array       the numbers as they are stored
array              the numbers as stored; after the first search, also 4 bytes for each number
=================  =====================================================

``find`` expects numbers between ``low`` and ``high`` and returns -1 for numbers that do not occur.

**Source:** ``lance.table.U64Segment``; bitmaps count from the least significant bit, as pylance 14.0.2 writes them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_core.table.encoded_numbers import PackedNumbers

__all__ = ["ListedIds", "MaskedIds", "PlainRange", "RangeWithHoles", "RowIdSet", "SortedIds"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"

_BITS: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
"""The bits of each byte value, least significant first, shape (256, 8)."""

_ONES_BEFORE: Final = np.cumsum(_BITS, axis=1, dtype=np.int64) - _BITS
"""Number of set bits below each bit of each byte value, shape (256, 8)."""

_NTH_ONE: Final = np.argsort(1 - _BITS, axis=1, kind="stable").astype(np.int64)
"""Positions of the set bits of each byte value, followed by those of the other bits, shape (256, 8)."""

_NUM_ONES: Final = _BITS.sum(axis=1, dtype=np.uint32)

_FEW: Final = 16
"""Up to this many positions are always looked up one by one, even if they are adjacent."""


_SET_BYTES: Final = 300
"""Approximate memory in bytes of a set without its arrays."""


class RowIdSet(Protocol):
    """One or more row ids, in row order."""

    @property
    def low(self) -> int:
        """The smallest id."""
        ...

    @property
    def high(self) -> int:
        """The largest id."""
        ...

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes, including what searches add to it."""
        ...

    def __len__(self) -> int:
        """Return the number of ids."""
        ...

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions, which may be in any order, as a new array."""
        ...

    def find(self, ids: _Numbers) -> _Positions:
        """Return the position of each id; -1 for ids that do not occur."""
        ...


class PlainRange:
    """The ids from ``start`` to ``stop - 1``."""

    def __init__(self, start: int, stop: int) -> None:
        """Initialize the range, which must contain at least one id."""
        self.low, self.high = start, stop - 1

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes."""
        return _SET_BYTES

    def __len__(self) -> int:
        """Return the number of ids."""
        return self.high + 1 - self.low

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions."""
        return positions.astype(np.uint64) + np.uint64(self.low)

    def find(self, ids: _Numbers) -> _Positions:
        """Return the positions of some ids."""
        return (ids - np.uint64(self.low)).astype(np.int64)


class RangeWithHoles:
    """The ids from ``start`` to ``stop - 1``, except the holes."""

    def __init__(self, start: int, stop: int, holes: _Numbers) -> None:
        """Initialize with at least one id and one hole; the holes must be ascending and inside the range."""
        self._start, self._stop = start, stop
        self._holes = (holes - np.uint64(start)).astype(np.int64)
        self._ids_before = self._holes - np.arange(len(holes), dtype=np.int64)

    @property
    def low(self) -> int:
        """The smallest id."""
        return self._start + int(self._slots(np.zeros(1, np.int64))[0])

    @property
    def high(self) -> int:
        """The largest id."""
        return self._start + int(self._slots(np.array([len(self) - 1], np.int64))[0])

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes."""
        return _SET_BYTES + self._holes.nbytes + self._ids_before.nbytes

    def __len__(self) -> int:
        """Return the number of ids."""
        return self._stop - self._start - len(self._holes)

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions."""
        return self._slots(positions).astype(np.uint64) + np.uint64(self._start)

    def find(self, ids: _Numbers) -> _Positions:
        """Return the positions of some ids."""
        slots = (ids - np.uint64(self._start)).astype(np.int64)
        holes_before = np.searchsorted(self._holes, slots)
        is_hole = np.searchsorted(self._holes, slots, side="right") > holes_before
        return np.where(is_hole, -1, slots - holes_before)

    def _slots(self, positions: _Positions) -> _Positions:
        before: _Positions = np.searchsorted(self._ids_before, positions, side="right")
        return positions + before


class MaskedIds:
    """The ids ``start + i`` for which bit ``i`` of the bitmap is set."""

    def __init__(self, start: int, bitmap: npt.NDArray[np.uint8]) -> None:
        """Initialize with a bitmap in which at least one bit is set."""
        self._start, self._bitmap = start, bitmap
        self._stops = np.cumsum(_NUM_ONES[bitmap], dtype=np.uint32)

    @property
    def low(self) -> int:
        """The smallest id."""
        return int(self.at(np.zeros(1, np.int64))[0])

    @property
    def high(self) -> int:
        """The largest id."""
        return int(self.at(np.array([len(self) - 1], np.int64))[0])

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes."""
        return _SET_BYTES + self._bitmap.nbytes + self._stops.nbytes

    def __len__(self) -> int:
        """Return the number of ids."""
        return int(self._stops[-1])

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions."""
        if len(positions) > _FEW and bool((positions[1:] - positions[:-1] == 1).all()):
            return self._run(int(positions[0]), len(positions))
        places = np.searchsorted(self._stops, positions, side="right")
        octets = self._bitmap[places]
        within = positions - (self._stops[places] - _NUM_ONES[octets])
        slots: _Positions = places * 8 + _NTH_ONE[octets, within]
        return slots.astype(np.uint64) + np.uint64(self._start)

    def _run(self, first: int, count: int) -> _Numbers:
        """Return the ids at adjacent positions, by unpacking all bits from the first to the last in one step."""
        low, high = np.searchsorted(self._stops, [first, first + count - 1], side="right").tolist()
        slots = np.flatnonzero(np.unpackbits(self._bitmap[low : high + 1], bitorder="little"))
        skipped = first - int(self._stops[low]) + int(_NUM_ONES[self._bitmap[low]])
        return slots[skipped : skipped + count].astype(np.uint64) + np.uint64(self._start + low * 8)

    def find(self, ids: _Numbers) -> _Positions:
        """Return the positions of some ids."""
        slots = (ids - np.uint64(self._start)).astype(np.int64)
        places, bits = slots >> 3, slots & 7
        octets = self._bitmap[places]
        before = self._stops[places] - _NUM_ONES[octets]
        return np.where(_BITS[octets, bits] != 0, before + _ONES_BEFORE[octets, bits], -1)


class _PackedIds:
    """Ids as they are stored."""

    def __init__(self, ids: PackedNumbers) -> None:
        """Initialize with at least one id."""
        self._ids = ids
        self.low, self.high = ids.low, ids.high

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes."""
        return _SET_BYTES + self._ids.offsets.nbytes

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self._ids)

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions."""
        return self._ids.at(positions)


class SortedIds(_PackedIds):
    """Ids that are stored in ascending order."""

    def find(self, ids: _Numbers) -> _Positions:
        """Return the positions of some ids."""
        wanted = self._ids.offsets_of(ids)
        places = np.searchsorted(self._ids.offsets, wanted)
        return np.where(self._ids.offsets[places] == wanted, places, -1)


class ListedIds(_PackedIds):
    """Ids that are stored in any order."""

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes, including the order that the first search computes."""
        return super().num_bytes + 4 * len(self)

    def find(self, ids: _Numbers) -> _Positions:
        """Return the positions of some ids."""
        wanted = self._ids.offsets_of(ids)
        places = self._order[np.searchsorted(self._ids.offsets, wanted, sorter=self._order)].astype(np.int64)
        return np.where(self._ids.offsets[places] == wanted, places, -1)

    @cached_property
    def _order(self) -> npt.NDArray[np.uint32]:
        return np.argsort(self._ids.offsets, kind="stable").astype(np.uint32)
