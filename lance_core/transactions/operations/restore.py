"""Restore: restore the content of an older version, as a new version.

Fragments, schema, indices, config, metadata, and base paths become those of the older version. The later versions
are kept. Counters are not reset: no fragment id or row id is ever assigned twice.

Source: ``lance.table.Transaction.Restore``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from lance_core.errors import InternalError, InvalidInputError
from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_number
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

__all__ = ["PublicRestore", "Restore"]


@named("Restore")
@dataclass
class PublicRestore(BaseOperation):
    """Restore the content of an older version.

    Attributes:
        version: the number of the older version.
    """

    needs_read_version: ClassVar[bool] = False

    version: int

    def to_record(self) -> Restore:
        """Return the internal form of the operation."""
        return Restore(version=checked_number("version", self.version, 1, 2**63))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Operation):
    """Restore a version.

    Attributes:
        version: the number of the version.
    """

    arm: ClassVar[str] = "restore"
    is_planned_on_any_version: ClassVar[bool] = True
    replaces_all_files: ClassVar[bool] = True

    version: int

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Restore) -> Self:
        """Parse the protobuf message."""
        return cls(version=message.version)

    def to_proto(self) -> pb_transaction.Transaction.Restore:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Restore(version=self.version)

    @property
    def restored_version(self) -> int:
        """The version to restore."""
        return self.version

    def to_public(self) -> PublicRestore:
        """Return the public form of the operation."""
        return PublicRestore(self.version)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: either version needs a feature that this library cannot write.
            InvalidInputError: the table stopped reusing field ids in a version later than the one to restore.
        """
        current, source = context.current, context.restored
        if source is None:
            raise InternalError(f"version {self.version} must be read before it is restored", version=self.version)
        require_writable(current.message)
        require_writable(source.message)
        counter = "max_allocated_field_id"
        if current.message.HasField(counter) and not source.message.HasField(counter):
            raise InvalidInputError(
                f"version {self.version} cannot be restored: in a later version, the table stopped reusing field ids",
                version=self.version,
            )
        return ManifestDraft(current, content=source)
