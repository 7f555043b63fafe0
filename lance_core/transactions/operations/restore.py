"""Restore: make an older version's content the table's again, as a new version.

Fragments, schema, indices, config, metadata and base paths become those of the older version. Versions in between
stay listed. Counters do not go back: a fragment or row id that was ever given is not given again.

Source: ``lance.table.Transaction.Restore``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_transaction
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["Restore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """Go back to a version.

    Attributes:
        version: its number.
    """

    arm: ClassVar[str] = "restore"

    version: int

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Restore) -> Self:
        """Parse the message."""
        return cls(version=message.version)

    def to_proto(self) -> pb_transaction.Transaction.Restore:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Restore(version=self.version)

    def apply(self, current: Manifest, source: Manifest) -> ManifestDraft:
        """The version after ``current``.

        Args:
            current: the version to build on.
            source: the version to go back to.

        Raises:
            UnsupportedFeatureFlagError: either version needs a feature that this library cannot write.
            InvalidInputError: the table counts the field ids that it gives, and has begun to after that version.
        """
        require_writable(current.message)
        require_writable(source.message)
        counter = "max_allocated_field_id"
        if current.message.HasField(counter) and not source.message.HasField(counter):
            raise InvalidInputError(
                f"version {self.version} cannot be restored: the table never uses a field id again, which was switched "
                "on after that version",
                version=self.version,
            )
        return ManifestDraft(current, content=source)
