"""Append: add rows. Existing fragments, the schema, and indices do not change.

Source: ``lance.table.Transaction.Append``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.proto import pb_transaction
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.fragment_rules import check_new_fragments
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["Append", "PublicAppend"]


@named("Append")
@dataclass
class PublicAppend(BaseOperation):
    """Add rows.

    Attributes:
        fragments: the new fragments; their data files refer to the dataset's field ids.
    """

    fragments: Iterable[FragmentMetadata]

    def __post_init__(self) -> None:
        """Check the argument types."""
        check_fragments(self.fragments)

    def appended_fragments(self) -> list[FragmentMetadata]:
        """Return the new fragments."""
        return list(self.fragments)

    def to_record(self) -> Append:
        """Return the internal form of the operation."""
        return Append(fragments=fragment_records(self.fragments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Operation):
    """Add fragments.

    Attributes:
        fragments: the new fragments; each commit attempt assigns their ids, in this order.
    """

    arm: ClassVar[str] = "append"
    is_planned_on_any_version: ClassVar[bool] = True
    appends_fragments: ClassVar[bool] = True

    fragments: tuple[Fragment, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Append) -> Self:
        """Parse the protobuf message."""
        return cls(fragments=tuple(map(Fragment, message.fragments)))

    def to_proto(self) -> pb_transaction.Transaction.Append:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Append(fragments=[fragment.message for fragment in self.fragments])

    def added_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments."""
        return self.fragments

    def held_field_ids(self) -> frozenset[int]:
        """Return the ids of the fields of the new rows."""
        return frozenset(chain.from_iterable(fragment.live_field_ids() for fragment in self.fragments))

    def to_public(self) -> PublicAppend:
        """Return the public form of the operation."""
        return PublicAppend(shown_fragments(self.fragments))

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a fragment is incompatible with the table.
        """
        current = context.current
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
