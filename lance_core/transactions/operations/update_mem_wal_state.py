"""UpdateMemWalState: record the parts of the write-ahead log that were compacted into the table. No rows change.

Source: ``lance.table.Transaction.UpdateMemWalState``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from lance_core.proto import pb_table, pb_transaction
from lance_core.public.absorbed_tables import absorbed_tables_from_core, absorbed_tables_to_core
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.mem_wal import with_absorbed_tables
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

__all__ = ["PublicUpdateMemWalState", "UpdateMemWalState"]


@named("UpdateMemWalState")
@dataclass
class PublicUpdateMemWalState(BaseOperation):
    """Record parts of the write-ahead log as compacted into the table. Not available in pylance's Python interface.

    Attributes:
        compacted_sstables: (shard id, generation) of each part.
    """

    compacted_sstables: list[tuple[str, int]]

    def to_record(self) -> UpdateMemWalState:
        """Return the internal form of the operation."""
        return UpdateMemWalState(absorbed_tables=absorbed_tables_to_core(self.compacted_sstables))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMemWalState(Operation):
    """Record parts of the write-ahead log as compacted into the table.

    Attributes:
        absorbed_tables: shard id and generation of each part.
    """

    arm: ClassVar[str] = "update_mem_wal_state"
    may_change_rows: ClassVar[bool] = False

    absorbed_tables: tuple[pb_table.CompactedSsTable, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateMemWalState) -> Self:
        """Parse the protobuf message."""
        return cls(absorbed_tables=tuple(message.compacted_sstables))

    def to_proto(self) -> pb_transaction.Transaction.UpdateMemWalState:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateMemWalState(compacted_sstables=self.absorbed_tables)

    def to_public(self) -> PublicUpdateMemWalState:
        """Return the public form of the operation."""
        return PublicUpdateMemWalState(absorbed_tables_from_core(self.absorbed_tables))

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: the table has no write-ahead log.
        """
        current = context.current
        require_writable(current.message)
        draft = ManifestDraft(current)
        draft.set_index_section(with_absorbed_tables(draft.index_section, self.absorbed_tables, version=draft.version))
        return draft
