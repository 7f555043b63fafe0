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
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from lance_core.table.row_id_sequence import RowIdSequence
    from lance_core.table.row_id_sets import RowIdSet

__all__ = ["FoundRows", "RowIdIndex", "RowPlaces"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"
_Positions: TypeAlias = "npt.NDArray[np.int64]"


_FRAGMENT_BYTES: Final = 40
"""Approximate memory in bytes of the cached information about a fragment."""


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

    def find(self, ids: _Numbers) -> FoundRows:
        """Find the rows with the given ids, including deleted rows.

        Args:
            ids: row ids, in any order, possibly with duplicates.
        """
        wanted, inverse = np.unique(ids, return_inverse=True)
        first = np.searchsorted(wanted, self._lows)
        last = np.searchsorted(wanted, self._highs, side="right")
        parts: list[_Part] = []
        for number in np.flatnonzero(first < last).tolist():
            start, stop = int(first[number]), int(last[number])
            found = self._sets[number].find(wanted[start:stop])
            is_found = found >= 0
            if is_found.any():
                rows = found[is_found] + self._starts[number]
                parts.append(_Part(int(self._owners[number]), start + np.flatnonzero(is_found), rows))
        return FoundRows(wanted, inverse, parts, self._fragment_ids)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of one segment.

    Attributes:
        owner: the index of the fragment.
        places: the position of each id among the distinct ids.
        rows: the physical position of each row in the fragment.
    """

    owner: int
    places: _Positions
    rows: _Positions


class FoundRows:
    """Rows with the requested ids, some of which may be deleted.

    Args:
        wanted: the distinct requested ids.
        inverse: for each requested id, its position in ``wanted``.
        parts: the rows, in the order of the fragments.
        fragment_ids: the ids of the fragments, for messages.
    """

    def __init__(
        self, wanted: _Numbers, inverse: _Positions, parts: Sequence[_Part], fragment_ids: Sequence[int]
    ) -> None:
        """Initialize; see the class docstring."""
        self._wanted = wanted
        self._inverse = inverse
        self._parts = parts
        self._fragment_ids = fragment_ids

    @property
    def owners(self) -> list[int]:
        """The indices of the fragments that contain the rows."""
        return list(dict.fromkeys(part.owner for part in self._parts))

    def live(self, deleted: Mapping[int, npt.NDArray[np.uint32]]) -> RowPlaces:
        """Return the locations of the rows that are not deleted.

        Args:
            deleted: for each of the :attr:`owners`, the sorted positions of the deleted rows.

        Raises:
            CorruptDataError: two rows that are not deleted have the same id.
        """
        owners = np.full(len(self._wanted), -1, np.int64)
        positions = np.full(len(self._wanted), -1, np.int64)
        for part in self._parts:
            is_live = ~np.isin(part.rows, deleted[part.owner])
            places, rows = part.places[is_live], part.rows[is_live]
            repeated = places[owners[places] >= 0]
            if len(repeated):
                other = self._fragment_ids[int(owners[repeated[0]])]
                raise CorruptDataError(
                    f"row id {int(self._wanted[repeated[0]])} occurs in fragment {other} and in fragment "
                    f"{self._fragment_ids[part.owner]}"
                )
            owners[places], positions[places] = part.owner, rows
        return RowPlaces(owners[self._inverse], positions[self._inverse])
