"""Checks the row ids in a change: they must be the ids of the rows that the change moves.

If an id were lost or duplicated, or had never been assigned, indices and ``take`` would no longer work on the table.

=========  ==================================================================================
rewrite    the ids of all rows that it replaces, each exactly once
update     only ids of rows in the fragments that it changes; it deletes these rows from their old fragments
=========  ==================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.errors import InvalidInputError
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.table.deletion_vector import read_deletion_offsets
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import live_rows
from lance_core.table.row_lineage import RowLineage

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.operations.parts import RewriteGroup

__all__ = ["check_row_ids"]


def check_row_ids(operation: Operation, current: Manifest, locator: FileLocator) -> None:
    """Check the row ids in a rewrite or an update; see the module docstring.

    Args:
        operation: the operation; nothing is checked unless it is a rewrite or an update.
        current: the version to build on.
        locator: locates the files of ``operation`` and ``current``.

    Raises:
        InvalidInputError: the row ids differ from those of the moved rows.
        CorruptDataError: the row ids of the table are damaged.
    """
    if not current.has_stable_row_ids:
        return
    _check_rewritten(operation.rewritten_groups(), current, locator)
    if operation.moved_fragments():
        _check_moved(operation, current, locator)


def _check_rewritten(groups: Iterable[RewriteGroup], current: Manifest, locator: FileLocator) -> None:
    """Check that the new fragments of every group have the row ids of the old live rows, in any order."""
    hidden = hidden_columns_of(locator)
    present = {message.id: message for message in current.message.fragments}
    for index, group in enumerate(groups):
        olds = [Fragment(present[old.id]) for old in group.old_fragments if old.id in present]
        expected = _sorted(
            RowLineage(old.message, hidden).row_ids().at(live_rows(old, read_deletion_offsets(old, locator)))
            for old in olds
        )
        found = _sorted(RowLineage(new.message, hidden).given_row_ids().numbers() for new in group.new_fragments)
        if not np.array_equal(expected, found):
            odd = np.setxor1d(expected, found)
            detail = (
                f"row id {odd[0]} occurs only in the {'replaced rows' if odd[0] in expected else 'new fragments'}"
                if odd.size
                else "a row id occurs twice"
            )
            raise InvalidInputError(
                f"rewrite group {index}: the new fragments have {len(found)} row ids, which differ from those of the "
                f"{len(expected)} rows that they replace: {detail}",
                expected=len(expected),
                found=len(found),
            )


def _check_moved(operation: Operation, current: Manifest, locator: FileLocator) -> None:
    """Check that the row ids in the new fragments belong to rows that the update moves."""
    hidden = hidden_columns_of(locator)
    moved = np.concatenate(
        [RowLineage(new.message, hidden).given_row_ids().numbers() for new in operation.moved_fragments()]
    )
    changed = {fragment.id: fragment for fragment in operation.changed_fragments()}
    touched = operation.touched_fragments() or frozenset()
    found = np.zeros(len(moved), bool)
    for message in current.message.fragments:
        if message.id not in touched:
            continue
        positions = RowLineage(message, hidden).row_ids().find(moved)
        found |= positions >= 0
        after = changed.get(message.id)
        if after is None:
            continue
        stays = np.isin(positions, live_rows(after, read_deletion_offsets(after, locator)))
        if stays.any():
            raise InvalidInputError(
                f"a new fragment has row id {int(moved[stays][0])}, which is still in use in fragment {message.id}"
            )
    if not found.all():
        raise InvalidInputError(
            f"a new fragment has row id {int(moved[~found][0])}, which occurs in no updated or removed fragment"
        )
    if len(np.unique(moved)) != len(moved):
        raise InvalidInputError("two rows in the new fragments have the same row id")


def _sorted(parts: Iterable[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
