"""RowIdSequence: the row ids of one fragment in row order, as a series of segments.

A sequence is parsed without being unpacked. If the number of ids differs from the number of rows of its fragment, the
sequence is damaged. Ids can be looked up by position, and positions by id. After a compaction, segments may overlap: an
id is in only one of them, but may be within the bounds of several.

**Source:** ``lance.table.RowIdSequence``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_segments import encode_segment, parse_segment
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_core.table.row_id_sets import RowIdSet

__all__ = ["RowIdSequence"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"


class RowIdSequence:
    """Row ids in row order.

    Args:
        sets: the ids of each nonempty segment.

    Attributes:
        sets: the ids of each nonempty segment.
        stops: the position after the last id of each set, shape (num_sets,).
    """

    def __init__(self, sets: Sequence[RowIdSet]) -> None:
        """Count the ids."""
        self.sets = tuple(sets)
        self.stops = np.cumsum([len(each) for each in self.sets], dtype=np.int64)

    @classmethod
    def parse(cls, data: bytes, what: str) -> Self:
        """Parse the bytes without unpacking the ids.

        Raises:
            CorruptDataError: the bytes are not a valid sequence.
        """
        try:
            message = pb_rowids.RowIdSequence.FromString(data)
        except DecodeError as error:
            raise CorruptDataError(f"{what}: the row ids cannot be decoded: {error}") from error
        parsed = [parse_segment(segment, what) for segment in message.segments]
        return cls([each for each in parsed if each is not None])

    @classmethod
    def of(cls, ids: _Numbers, what: str) -> Self:
        """Return the sequence of the ids in an array.

        Raises:
            CorruptDataError: an id occurs twice.
        """
        packed = parse_segment(encode_segment(ids), what) if len(ids) else None
        return cls([] if packed is None else [packed])

    def __len__(self) -> int:
        """Return the number of ids."""
        return int(self.stops[-1]) if len(self.stops) else 0

    def require(self, num_rows: int, what: str) -> Self:
        """Return the sequence itself, after checking that it has as many ids as the fragment has rows.

        Raises:
            CorruptDataError: the number of ids differs from ``num_rows``.
        """
        if len(self) != num_rows:
            raise CorruptDataError(
                f"{what}: a sequence has {counted(len(self), 'row id')}, but the fragment has "
                f"{counted(num_rows, 'row')}",
                expected=num_rows,
                found=len(self),
            )
        return self

    def at(self, positions: _Positions) -> _Numbers:
        """Return the ids at some positions, which may be in any order, as a new array of shape (num_positions,)."""
        if len(self.sets) == 1:
            return self.sets[0].at(positions)
        ids = np.empty(len(positions), np.uint64)
        owners = np.searchsorted(self.stops, positions, side="right")
        for owner in np.unique(owners).tolist():
            here = owners == owner
            start = int(self.stops[owner - 1]) if owner else 0
            ids[here] = self.sets[owner].at(positions[here] - start)
        return ids

    def parts(self) -> Iterator[_Numbers]:
        """Yield the unpacked ids of each segment in turn."""
        for each in self.sets:
            yield each.at(np.arange(len(each), dtype=np.int64))

    def numbers(self) -> _Numbers:
        """Return all ids, unpacked."""
        return np.concatenate([np.empty(0, np.uint64), *self.parts()])

    def find(self, ids: _Numbers) -> _Positions:
        """Return the position of each id, shape (num_ids,); -1 for ids that do not occur."""
        found = np.full(len(ids), -1, np.int64)
        starts = [0, *self.stops[:-1].tolist()]
        for start, each in zip(starts, self.sets, strict=True):
            inside = np.flatnonzero((ids >= np.uint64(each.low)) & (ids <= np.uint64(each.high)))
            positions = each.find(ids[inside])
            hits = positions >= 0
            found[inside[hits]] = positions[hits] + start
        return found
