"""RowIdLookup: finds rows of a version by their ids.

If row ids are stable, an index of the ids is built by the first lookup and kept in the session. Otherwise, the id of a
row is its address. The result for an id without a live row depends on the kind of ids:

======================  =================  =================
id                      stable row ids     addresses
======================  =================  =================
id of a deleted row     no row is found    no row is found
never assigned          no row is found    error
======================  =================  =================

**Source:** ``_take_rows`` of pylance 14.0.2.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.errors import RowOutOfRangeError
from lance_core.file.session import UNCACHED, Session
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.table.row_id_index import RowIdIndex, RowPlaces
from lance_core.table.row_lineage import RowLineage
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.fragment import Fragment

__all__ = ["RowIdLookup"]

_ADDRESS_SHIFT: Final = np.uint64(32)
_OFFSET_MASK: Final = np.uint64((1 << 32) - 1)


class RowIdLookup:
    """Finds rows of one version by their ids.

    Args:
        fragments: all fragments of the version.
        locator: locates the files of the fragments.
        session: opens the files, and keeps the index of the row ids.
        version: identifies the version in the session; by default, the index is not shared with other lookups.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        locator: FileLocator,
        session: Session = UNCACHED,
        version: Hashable = None,
    ) -> None:
        """Initialize without reading anything."""
        self._fragments = fragments
        self._locator = locator
        self._session = session
        self._version = self if version is None else version
        self._own_index: RowIdIndex | None = None

    @property
    def is_stable(self) -> bool:
        """Whether rows have stable ids."""
        return any(fragment.has_row_ids for fragment in self._fragments)

    def find(self, ids: npt.NDArray[np.uint64], *, ignores_deletions: bool = False) -> RowPlaces:
        """Return the locations of rows.

        Args:
            ids: row ids, in any order; ids may repeat.
            ignores_deletions: whether to also find deleted rows; has no effect if row ids are stable.

        Raises:
            RowOutOfRangeError: one of the addresses belongs to neither a live row nor a deleted row.
            CorruptDataError: two rows have the same stable id, or a sequence of ids is damaged.
        """
        if self.is_stable:
            found = self._index().find(ids)
            return found.live({owner: self._deleted(self._fragments[owner]) for owner in found.owners})
        return self._at_addresses(ids, ignores_deletions=ignores_deletions)

    def _index(self) -> RowIdIndex:
        if self._own_index is not None:
            return self._own_index
        index: RowIdIndex | None = self._session.row_id_index(self._version)
        if index is None:
            index = self._built()
            self._session.keep_row_id_index(self._version, index, index.num_bytes)
        if index.num_bytes > self._session.max_bytes:
            # The session cannot keep it, and building it for every lookup would take too long.
            self._own_index = index
        return index

    def _built(self) -> RowIdIndex:
        hidden = hidden_columns_of(self._locator, self._session)
        sequences = [RowLineage(fragment.message, hidden).row_ids() for fragment in self._fragments]
        return RowIdIndex([fragment.id for fragment in self._fragments], sequences)

    @cached_property
    def _by_id(self) -> dict[int, int]:
        return {fragment.id: index for index, fragment in enumerate(self._fragments)}

    def _at_addresses(self, addresses: npt.NDArray[np.uint64], *, ignores_deletions: bool) -> RowPlaces:
        fragment_ids, positions = addresses >> _ADDRESS_SHIFT, (addresses & _OFFSET_MASK).astype(np.int64)
        owners = np.full(len(addresses), -1, np.int64)
        for fragment_id in np.unique(fragment_ids).tolist():
            here = np.flatnonzero(fragment_ids == fragment_id)
            owner = self._by_id.get(fragment_id)
            if owner is None:
                raise RowOutOfRangeError(
                    f"row address {int(addresses[here[0]])}: fragment {fragment_id} does not exist"
                )
            fragment = self._fragments[owner]
            if int(positions[here].max()) >= fragment.physical_rows:
                raise RowOutOfRangeError(
                    f"fragment {fragment_id} has no row at offset {positions[here].max()}: it has "
                    f"{counted(fragment.physical_rows, 'row')}, including deleted rows"
                )
            if fragment.deletion_file is not None and not ignores_deletions:
                here = here[~np.isin(positions[here], self._deleted(fragment))]
            owners[here] = owner
        return RowPlaces(owners, positions)

    def _deleted(self, fragment: Fragment) -> npt.NDArray[np.uint32]:
        return FragmentReader(fragment, self._locator, 0, self._session).deleted_rows()
