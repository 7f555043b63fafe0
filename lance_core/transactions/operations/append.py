"""Append: add rows. Old fragments, schema and indices stay as they are.

Source: ``lance.table.Transaction.Append``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.proto import pb_transaction
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.fragment_rules import check_new_fragments

if TYPE_CHECKING:
    from lance_core.table.manifest import Manifest

__all__ = ["Append"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Add fragments.

    Attributes:
        fragments: the new fragments; they get their ids, in this order, at each commit attempt.
    """

    arm: ClassVar[str] = "append"

    fragments: tuple[Fragment, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Append) -> Self:
        """Parse the message."""
        return cls(fragments=tuple(map(Fragment, message.fragments)))

    def to_proto(self) -> pb_transaction.Transaction.Append:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Append(fragments=[fragment.message for fragment in self.fragments])

    def apply(self, current: Manifest) -> ManifestDraft:
        """The version after ``current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a fragment does not fit the table.
        """
        require_writable(current.message)
        check_new_fragments(
            self.fragments,
            field_ids={field.id for field in current.message.fields},
            base_ids={base.id for base in current.message.base_paths},
            file_version=current.file_version,
        )
        draft = ManifestDraft(current)
        draft.append_fragments(self.fragments)
        return draft
