"""RowIdIndex: finds rows by stable row id.

An id may occur in several fragments: an update marks the old row as deleted, and stores the new row elsewhere with the
same id. At most one of these rows is live; the index finds the live row::

    requested ids -> segments whose bounds include them -> positions in the segments -> without deleted rows

Segments are searched without being unpacked (:mod:`~lance_core.table.row_id_sets`), so an index takes about as much
memory as the manifest. Deletion files are read only for fragments in which ids were found.

**Source:** behavior of ``_take_rows`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from lance_core.table.row_id_sequence import RowIdSequence
    from lance_core.table.row_id_sets import RowIdSet

__all__ = ["RowIdIndex", "RowPlaces"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"


_FRAGMENT_BYTES: Final = 40
"""Approximate memory in bytes of what is known about a fragment."""


@dataclass(frozen=True, slots=True)
class RowPlaces:
    """The locations of rows; one entry per requested id.

    Attributes:
        owners: for each id, the index of the fragment that contains the row; -1 if there is no row with this id.
        positions: for each id, the physical position of the row in its fragment.
    """

    owners: _Positions
    positions: _Positions

    @property
    def is_found(self) -> npt.NDArray[np.bool_]:
        """Boolean mask of the ids for which there is a row."""
        return self.owners >= 0


class RowIdIndex:
    """Finds the rows of one version by stable row id.

    Args:
        fragment_ids: the ids of the fragments of the version.
        sequences: the row ids of each fragment.
    """

    def __init__(self, fragment_ids: Sequence[int], sequences: Iterable[RowIdSequence]) -> None:
        """Collect the segments of all fragments."""
        self._fragment_ids = fragment_ids
        self._sets: list[RowIdSet] = []
        owners: list[int] = []
        starts: list[int] = []
        for owner, sequence in enumerate(sequences):
            self._sets += sequence.sets
            owners += [owner] * len(sequence.sets)
            starts += [0, *sequence.stops[:-1].tolist()] if sequence.sets else []
        self._owners = np.array(owners, np.int64)
        self._starts = np.array(starts, np.int64)
        self._lows = np.array([each.low for each in self._sets], np.uint64)
        self._highs = np.array([each.high for each in self._sets], np.uint64)

    @property
    def num_bytes(self) -> int:
        """Approximate memory in bytes, including what searches add to it."""
        per_set = self._owners.itemsize + self._starts.itemsize + self._lows.itemsize + self._highs.itemsize
        return (_FRAGMENT_BYTES * len(self._fragment_ids)) + sum([per_set + each.num_bytes for each in self._sets])

    def find(self, ids: _Numbers, deleted_of: Callable[[int], npt.NDArray[np.uint32]]) -> RowPlaces:
        """Find the rows with the given ids.

        Args:
            ids: row ids, in any order, possibly with duplicates.
            deleted_of: function that returns the sorted positions of the deleted rows of the fragment with an index.

        Raises:
            CorruptDataError: two rows that are not deleted have the same id.
        """
        wanted, inverse = np.unique(ids, return_inverse=True)
        owners = np.full(len(wanted), -1, np.int64)
        positions = np.full(len(wanted), -1, np.int64)
        first = np.searchsorted(wanted, self._lows)
        last = np.searchsorted(wanted, self._highs, side="right")
        hit = np.flatnonzero(first < last)
        for group in np.split(hit, np.flatnonzero(np.diff(self._owners[hit])) + 1):
            if len(group):
                self._find_in(group, wanted, first, last, deleted_of, owners, positions)
        return RowPlaces(owners[inverse], positions[inverse])

    def _find_in(
        self,
        group: _Positions,
        wanted: _Numbers,
        first: _Positions,
        last: _Positions,
        deleted_of: Callable[[int], npt.NDArray[np.uint32]],
        owners: _Positions,
        positions: _Positions,
    ) -> None:
        """Record the rows found in the segments of one fragment."""
        owner = int(self._owners[group[0]])
        deleted: npt.NDArray[np.uint32] | None = None
        for number in group.tolist():
            start, stop = int(first[number]), int(last[number])
            found = self._sets[number].find(wanted[start:stop])
            places = start + np.flatnonzero(found >= 0)
            rows = found[found >= 0] + self._starts[number]
            if len(rows):
                deleted = deleted_of(owner) if deleted is None else deleted
                is_live = ~np.isin(rows, deleted)
                places, rows = places[is_live], rows[is_live]
            repeated = places[owners[places] >= 0]
            if len(repeated):
                other = self._fragment_ids[int(owners[repeated[0]])]
                raise CorruptDataError(
                    f"row id {int(wanted[repeated[0]])} occurs in fragment {other} and in fragment "
                    f"{self._fragment_ids[owner]}"
                )
            owners[places], positions[places] = owner, rows
