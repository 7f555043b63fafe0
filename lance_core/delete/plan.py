"""Plans a delete: finds the rows to delete in each fragment. It reads only the predicate's columns and writes nothing.

A fragment that loses its last row is dropped; a fragment that loses some rows gets a list of all its deleted rows; all
other fragments are not changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lance_core.file.read_config import ReadConfig
from lance_core.predicate.predicate import Predicate
from lance_core.scan.fragment_group import joined_readers
from lance_core.scan.matching import find_rows
from lance_core.scan.row_columns import with_row_columns
from lance_core.scan.scan_plan import live_to_physical
from lance_core.scan.scan_source import ScanSource
from lance_core.schema.blob_fields import stored_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt
    from pyroaring import BitMap

    from lance_core.scan.table_view import Handle, TableView
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment

__all__ = [
    "DeletePlan",
    "DeletePlanner",
    "FragmentDelete",
    "plan_delete",
    "plan_fragment",
    "plan_rows",
    "planned_predicate",
]


@dataclass(frozen=True, slots=True)
class FragmentDelete:
    """The changes that a delete makes to one fragment.

    Attributes:
        fragment: the fragment before the delete.
        rows_before: the number of live rows before the delete.
        found: the physical positions of the rows to delete; None if all live rows are deleted.
        deleted: the physical positions of all rows that are deleted after the delete; None if the fragment is dropped.
    """

    fragment: Fragment
    rows_before: int
    found: BitMap | None
    deleted: BitMap | None

    @property
    def rows_deleted(self) -> int:
        """The number of rows to delete."""
        return self.rows_before if self.found is None else len(self.found)

    @property
    def is_dropped(self) -> bool:
        """Whether the fragment is dropped because no live rows remain."""
        return self.deleted is None


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """The changes that a delete would make.

    Attributes:
        read_version: the version that the plan is based on.
        predicate: the condition, as text.
        rows_before: the number of live rows before the delete.
        rows_deleted: the number of rows to delete.
        fragments_changed: the number of fragments that get a new deletion file.
        fragments_dropped: the number of fragments that lose their last row.
        deletes: the changes to each affected fragment.
    """

    read_version: int
    predicate: str
    rows_before: int
    rows_deleted: int
    fragments_changed: int
    fragments_dropped: int
    deletes: tuple[FragmentDelete, ...] = field(repr=False)

    @property
    def dropped_ids(self) -> frozenset[int]:
        """The ids of the fragments that lose their last row."""
        return frozenset(delete.fragment.id for delete in self.deletes if delete.is_dropped)

    @classmethod
    def of(cls, read_version: int, predicate: str, fragments: Iterable[FragmentDelete]) -> DeletePlan:
        """Combine the changes to all fragments."""
        fragments = tuple(fragments)
        deletes = tuple(delete for delete in fragments if delete.rows_deleted or delete.is_dropped)
        return cls(
            read_version=read_version,
            predicate=predicate,
            rows_before=sum(delete.rows_before for delete in fragments),
            rows_deleted=sum(delete.rows_deleted for delete in deletes),
            fragments_changed=sum(not delete.is_dropped for delete in deletes),
            fragments_dropped=sum(delete.is_dropped for delete in deletes),
            deletes=deletes,
        )


def plan_delete(dataset: Handle, predicate: object) -> DeletePlan:
    """Plan a delete based on the version of a handle, without changing anything.

    Args:
        dataset: a handle to the version.
        predicate: the rows to delete, as SQL text or an Arrow expression.

    Raises:
        InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
        NotSupportedError: a part of the predicate is not supported.
    """
    view = dataset.view
    return plan_rows(view, view.manifest.fragments, predicate)


class DeletePlanner:
    """Plans one delete on several versions of a table; fragments that have not changed are searched only once.

    A writer that plans again after each conflict therefore keeps pace with writers that add rows, however large the
    table is.

    Args:
        predicate: the rows to delete, as SQL text or an Arrow expression.

    Attributes:
        predicate: the rows to delete.
    """

    def __init__(self, predicate: object) -> None:
        """Initialize without reading anything."""
        self.predicate = predicate
        self._schema: Schema | None = None
        self._searched: dict[bytes, FragmentDelete] = {}

    def unsearched(self, view: TableView, fragments: Iterable[Fragment]) -> list[Fragment]:
        """Return those of the given fragments that have not been searched yet.

        Raises:
            InvalidInputError: the predicate is invalid.
            NotSupportedError: a part of the predicate is not supported.
        """
        if view.schema != self._schema:
            self._schema, self._searched = view.schema, {}
        planned_predicate(view.schema, self.predicate)
        return [fragment for fragment in fragments if _key(fragment) not in self._searched]

    def found(self, fragment: Fragment) -> FragmentDelete:
        """Return the changes to a fragment that has been searched."""
        return self._searched[_key(fragment)]

    def add(self, deletes: Iterable[FragmentDelete]) -> None:
        """Add the changes that other processes have found for fragments of the most recently planned version."""
        self._searched |= {_key(delete.fragment): delete for delete in deletes}

    def plan(self, view: TableView, fragments: Iterable[Fragment]) -> DeletePlan:
        """Plan the delete for some fragments of a version, or for fragments that are about to be added to it.

        Raises:
            InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
            NotSupportedError: a part of the predicate is not supported.
        """
        if view.schema != self._schema:
            self._schema, self._searched = view.schema, {}
        planned = planned_predicate(view.schema, self.predicate)
        keyed = [(_key(fragment), fragment) for fragment in fragments]
        missing = {key: fragment for key, fragment in keyed if key not in self._searched}
        self._searched.update(zip(missing, _search(list(missing.values()), view, planned), strict=True))
        return DeletePlan.of(view.version, planned.text, [self._searched[key] for key, _ in keyed])


def _key(fragment: Fragment) -> bytes:
    return fragment.message.SerializeToString(deterministic=True)


def plan_rows(view: TableView, fragments: Iterable[Fragment], predicate: object) -> DeletePlan:
    """Plan a delete for some fragments of a version."""
    return DeletePlanner(predicate).plan(view, fragments)


def planned_predicate(schema: Schema, predicate: object) -> Predicate:
    """Return the predicate, bound to the columns of a table.

    Raises:
        InvalidInputError: the predicate is invalid.
        NotSupportedError: a part of the predicate is not supported.
    """
    return Predicate.plan(with_row_columns(stored_schema(schema), offsets=False), predicate)


def plan_fragment(
    fragment: Fragment, rows_before: int, deleted_before: npt.NDArray[np.uint32], found: npt.NDArray[np.int64]
) -> FragmentDelete:
    """Compute the changes to a fragment without reading anything.

    Args:
        fragment: the fragment before the delete.
        rows_before: the number of live rows before the delete.
        deleted_before: the physical positions of the rows that are already deleted.
        found: the physical positions of the rows to delete; all of these rows are live.
    """
    # Imported only when needed: readers do not use it.
    from pyroaring import BitMap

    if rows_before and len(found) == rows_before:
        return FragmentDelete(fragment, rows_before, found=None, deleted=None)
    rows = BitMap(found.astype(np.uint32))
    return FragmentDelete(fragment, rows_before, found=rows, deleted=rows | BitMap(deleted_before))


@cache
def _nothing() -> BitMap:
    from pyroaring import BitMap

    return BitMap()


def _search(fragments: Sequence[Fragment], view: TableView, predicate: Predicate) -> Iterator[FragmentDelete]:
    """Yield the changes to each of the fragments, which are read together if possible."""
    source = ScanSource(view.schema, fragments, view.locator, session=view.session)
    if predicate.constant:
        for fragment in fragments:
            yield FragmentDelete(fragment, source.reader(fragment).num_live_rows, found=None, deleted=None)
        return
    readers = map(source.reader, fragments)
    for group in joined_readers(readers, predicate.wanted.fields, num_first=len(fragments)):
        pieces = list(find_rows(group, predicate, ReadConfig()))
        live = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        for fragment, found in group.by_fragment(live_to_physical(group.deleted_rows(), live)):
            reader = source.reader(fragment)
            if len(found):
                yield plan_fragment(fragment, reader.num_live_rows, reader.deleted_rows(), found)
            else:
                yield FragmentDelete(fragment, reader.num_live_rows, found=_nothing(), deleted=_nothing())
