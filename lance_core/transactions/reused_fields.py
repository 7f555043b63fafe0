"""Field ids that were reassigned to other columns while rows were being written, or an index was being built.

A field id is reused once no data file contains it: after a column is dropped, the next new column may get its id. Rows
that were written before would be read as values of the new column, or not at all. No single transaction reveals this,
but the schemas of the intermediate versions do: the id is missing in one of them and exists again later.

Source: ids assigned by pylance 14.0.2, whose own appends and indices do not check this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest
    from lance_core.transactions.operations.operation import Operation

__all__ = ["ReusedFields"]


class ReusedFields:
    """Checks the versions that were committed after a change was planned.

    Args:
        operation: the change; only appends and new indices can be committed after columns were dropped or added.
    """

    def __init__(self, operation: Operation) -> None:
        """Start before the first version."""
        self._ids = operation.held_field_ids()
        self._gone: set[int] = set()

    def find(self, manifest: Manifest) -> int | None:
        """Check the next version.

        Returns:
            A field id of the change's rows or indices that was reassigned; None if there is none.
        """
        if not self._ids:
            return None
        present = {field.id for field in manifest.message.fields}
        reused = self._gone & present
        self._gone |= self._ids - present
        return min(reused, default=None)
