"""Defines byte ranges and plans reads. This module only computes ranges; it does not read any data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ByteRange", "CoalescedRead", "coalesce_ranges"]


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Half-open byte range ``[start, stop)`` of one object.

    Attributes:
        start: position of the first byte.
        stop: position after the last byte.
        holds_offsets: whether the bytes are offsets of other bytes, for example of strings; readers of individual
            rows cache them.
    """

    start: int
    stop: int
    holds_offsets: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop:
            raise InvalidInputError(f"invalid byte range [{self.start}, {self.stop}); expected 0 <= start <= stop")

    @property
    def num_bytes(self) -> int:
        """Length in bytes."""
        return self.stop - self.start

    def shifted(self, num_bytes: int) -> ByteRange:
        """Return the range shifted by a number of bytes."""
        return ByteRange(self.start + num_bytes, self.stop + num_bytes, self.holds_offsets)


@dataclass(frozen=True, slots=True)
class CoalescedRead:
    """One read request, and the caller's ranges that it covers.

    Attributes:
        extent: the range to read.
        members: indices into the caller's list of ranges, ordered by the start of the range.
    """

    extent: ByteRange
    members: tuple[int, ...]


def coalesce_ranges(ranges: Sequence[ByteRange], *, max_gap_bytes: int, max_extent_bytes: int) -> list[CoalescedRead]:
    """Merge ranges that are close together, so that fewer requests are sent.

    Args:
        ranges: ranges in any order, which may overlap.
        max_gap_bytes: maximum number of bytes between neighboring ranges in the same request.
        max_extent_bytes: maximum size of a merged request in bytes; a single larger range is not split.

    Returns:
        Requests ordered by start; each index into ``ranges`` is a member of exactly one request.
    """
    extents: list[tuple[int, int]] = []
    members: list[list[int]] = []
    for index in sorted(range(len(ranges)), key=lambda index: (ranges[index].start, ranges[index].stop)):
        wanted = ranges[index]
        if extents:
            start, stop = extents[-1]
            joined = max(stop, wanted.stop)
            if wanted.start - stop <= max_gap_bytes and (joined - start <= max_extent_bytes or joined == stop):
                extents[-1] = start, joined
                members[-1].append(index)
                continue
        extents.append((wanted.start, wanted.stop))
        members.append([index])
    return [
        CoalescedRead(ByteRange(start, stop), tuple(indices))
        for (start, stop), indices in zip(extents, members, strict=True)
    ]
