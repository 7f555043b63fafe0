"""Field ids that got another meaning while rows were written, or an index was built, for them.

Ids of columns are reused once no data file has them: after a column was dropped, the next one may get its id.
Rows that were written before would be read as values of the new column, or not at all. No single transaction tells
this; the schemas of the versions in between do: the id is missing in one of them, and is there again later.

Source: ids given out by pylance 14.0.2, whose own appends and indices do not look at this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.operations.operation import Operation

__all__ = ["ReusedFields"]


class ReusedFields:
    """Watches the versions that a change is placed on top of.

    Args:
        operation: the change; only appended rows and new indices go with versions that drop and add columns.
    """

    def __init__(self, operation: Operation) -> None:
        """No version is seen yet."""
        self._ids = operation.held_field_ids()
        self._gone: set[int] = set()

    def find(self, manifest: Manifest) -> int | None:
        """See the next version.

        Returns:
            A field id of the change's rows or indices that has another meaning there; None when there is none.
        """
        if not self._ids:
            return None
        present = {field.id for field in manifest.message.fields}
        reused = self._gone & present
        self._gone |= self._ids - present
        return min(reused, default=None)
