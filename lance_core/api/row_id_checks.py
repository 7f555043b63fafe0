"""What is checked of the row ids that a rewrite brings along: they are those of the rows that it replaces.

An id that gets lost, occurs twice or was never given makes a table that indices and take cannot be used on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.api.hidden_columns import hidden_columns_of
from lance_core.errors import InvalidInputError
from lance_core.table.deletion_file import read_deletion_offsets
from lance_core.table.fragment import Fragment
from lance_core.table.row_ids import live_rows
from lance_core.table.row_lineage import RowLineage

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.operations.rewrite import Rewrite

__all__ = ["check_rewritten_row_ids"]


def check_rewritten_row_ids(operation: Rewrite, current: Manifest, locator: FileLocator) -> None:
    """Check that the new fragments of every group have the row ids of the live rows of the old ones, in any order.

    Args:
        operation: the rewrite.
        current: the version to build on.
        locator: finds the files of both.

    Raises:
        InvalidInputError: they have others.
        CorruptDataError: row ids of the table are damaged.
    """
    if not current.has_stable_row_ids:
        return
    hidden = hidden_columns_of(locator)
    present = {message.id: message for message in current.message.fragments}
    for index, group in enumerate(operation.groups):
        olds = [Fragment(present[old.id]) for old in group.old_fragments if old.id in present]
        expected = _sorted(
            RowLineage(old.message, hidden).row_ids().at(live_rows(old, read_deletion_offsets(old, locator)))
            for old in olds
        )
        found = _sorted(RowLineage(new.message, hidden).given_row_ids().numbers() for new in group.new_fragments)
        if not np.array_equal(expected, found):
            odd = np.setxor1d(expected, found)
            detail = f"row id {int(odd[0])} is on one side only" if odd.size else "a row id occurs twice"
            raise InvalidInputError(
                f"rewrite group {index}: the new fragments have {len(found)} row ids, which are not those of the "
                f"{len(expected)} rows that they replace: {detail}",
                expected=len(expected),
                found=len(found),
            )


def _sorted(parts: Iterable[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    return np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))
