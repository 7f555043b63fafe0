"""Changes: the rows that a merge inserts, updates, and deletes in one version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lance_core.delete.plan import DeletePlan, plan_fragment, planned_predicate
from lance_core.errors import InvalidMergeError
from lance_core.file.read_config import ReadConfig
from lance_core.merge_insert.matching import shown_keys
from lance_core.merge_insert.rules import WhenMatched
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.matching import find_rows
from lance_core.scan.scan_plan import live_to_physical

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_core.delete.plan import FragmentDelete
    from lance_core.merge_insert.matching import FragmentMatches
    from lance_core.merge_insert.rules import MergeRules
    from lance_core.merge_insert.source import RowSource
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment

__all__ = ["Changes", "plan_changes"]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a merge changes in one version.

    Attributes:
        deletes: the rows to delete, including the rows that updated rows replace.
        updated: the number of the source row of each updated row.
        owners: for each updated row, the index of its fragment in the version.
        positions: for each updated row, its physical position in the fragment.
        inserted: mask of the source rows to insert.
        in_place: whether updated rows keep their addresses, so that ``deletes`` does not contain them.
    """

    deletes: DeletePlan
    updated: npt.NDArray[np.signedinteger] = field(repr=False)
    owners: npt.NDArray[np.int32] = field(repr=False)
    positions: npt.NDArray[np.signedinteger] = field(repr=False)
    inserted: npt.NDArray[np.bool_] = field(repr=False)
    in_place: bool = False

    @property
    def num_updated(self) -> int:
        """The number of updated rows."""
        return len(self.updated)

    @property
    def num_inserted(self) -> int:
        """The number of inserted rows."""
        return int(np.count_nonzero(self.inserted))

    @property
    def num_deleted(self) -> int:
        """The number of rows that are deleted without being updated."""
        return self.deletes.rows_deleted - (0 if self.in_place else self.num_updated)

    def offsets(self, fragments: Sequence[Fragment]) -> dict[int, bytes]:
        """Return the positions of the updated rows, by fragment id, as serialized Roaring bitmaps."""
        # Imported only when needed: readers do not use it.
        from pyroaring import BitMap

        return {
            fragments[owner].id: BitMap(self.positions[self.owners == owner].astype(np.uint32)).serialize()
            for owner in np.unique(self.owners).tolist()
        }


def plan_changes(
    view: TableView,
    fragments: Sequence[Fragment],
    matches: Sequence[FragmentMatches],
    rules: MergeRules,
    source: RowSource,
    *,
    in_place: bool = False,
) -> Changes:
    """Plan the changes.

    Args:
        view: the version.
        fragments: its fragments.
        matches: the matches of each fragment.
        rules: the rules of the merge.
        source: the rows of the source.
        in_place: whether updated rows keep their addresses.

    Raises:
        InvalidMergeError: several rows of the source would change the same row of the table, or the condition of
            deletions cannot be evaluated.
    """
    inserted = np.full(source.num_rows, rules.inserts)
    deletes: list[FragmentDelete] = []
    updated: list[npt.NDArray[np.signedinteger]] = []
    owners: list[npt.NDArray[np.int32]] = []
    positions: list[npt.NDArray[np.signedinteger]] = []
    acts = rules.when_matched in (WhenMatched.UPDATE, WhenMatched.DELETE)
    for owner, (fragment, found) in enumerate(zip(fragments, matches, strict=True)):
        inserted[found.source_rows] = False
        source_rows, changed = (found.source_rows[found.met], found.positions[found.met]) if acts else (_NONE, _NONE)
        _check_unambiguous(source_rows, changed, rules, source)
        if rules.updates:
            updated.append(source_rows)
            owners.append(np.full(len(changed), owner, np.int32))
            positions.append(changed)
        if (len(changed) and not in_place) or rules.deletes_unmatched:
            reader = FragmentReader(fragment, view.locator, session=view.session)
            gone = np.sort(changed).astype(np.int64)
            if rules.deletes_unmatched:
                gone = np.union1d(gone, np.setdiff1d(_deletable(view, reader, rules), found.positions))
            deletes.append(plan_fragment(fragment, reader.num_live_rows, reader.deleted_rows(), gone))
    return Changes(
        DeletePlan.of(view.version, "", deletes),
        np.concatenate([_NONE, *updated]),
        np.concatenate([_NONE, *owners]),
        np.concatenate([_NONE, *positions]),
        inserted,
        in_place,
    )


_NONE = np.empty(0, np.int32)


def _check_unambiguous(
    source_rows: npt.NDArray[np.signedinteger],
    positions: npt.NDArray[np.signedinteger],
    rules: MergeRules,
    source: RowSource,
) -> None:
    unique, first, counts = np.unique(positions, return_index=True, return_counts=True)
    if len(unique) != len(positions):
        row = int(source_rows[first[counts > 1][0]])
        raise InvalidMergeError(
            f"several source rows with the key {shown_keys(source, rules, row)} match the same row of the table; only "
            "one source row may update or delete a row",
            row=row,
        )


def _deletable(view: TableView, reader: FragmentReader, rules: MergeRules) -> npt.NDArray[np.int64]:
    """Return the physical positions of the live rows that are deleted if they do not match."""
    if rules.deleted_if is None:
        rows = np.arange(reader.num_live_rows, dtype=np.int64)
    else:
        predicate = planned_predicate(view.schema, rules.deleted_if)
        rows = np.concatenate([np.empty(0, np.int64), *find_rows(reader, predicate, ReadConfig())])
    return live_to_physical(reader.deleted_rows(), rows)
