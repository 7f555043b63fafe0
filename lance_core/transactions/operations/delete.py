"""Delete: mark rows as deleted, or drop whole fragments. No data file changes.

A fragment that lost some of its rows refers to a new deletion file, which lists all of its deleted rows; a fragment
that lost its last row is removed from the table. Schema, indices and row ids do not change.

The operation contains complete fragments, but only their deletion files are used. Other changes to the fragment that
were committed in the meantime, such as the removal of a data file whose last column was dropped, are kept.

Source: ``lance.table.Transaction.Delete``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_number, checked_text
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lance_core.public.fragment_metadata import FragmentMetadata

__all__ = ["Delete", "PublicDelete"]


@named("Delete")
@dataclass
class PublicDelete(BaseOperation):
    """Mark rows as deleted, or drop whole fragments.

    Attributes:
        updated_fragments: the fragments that lost some of their rows, with their new deletion files, as returned by
            ``LanceFragment.delete``.
        deleted_fragment_ids: the ids of the fragments that lost every row, for which ``LanceFragment.delete`` returned
            None.
        predicate: the condition that selected the rows; informational.
    """

    updated_fragments: Iterable[FragmentMetadata]
    deleted_fragment_ids: Iterable[int]
    predicate: str

    def __post_init__(self) -> None:
        """Check the argument types."""
        check_fragments(self.updated_fragments)

    def to_record(self) -> Delete:
        """Return the internal form of the operation."""
        return Delete(
            updated_fragments=fragment_records(self.updated_fragments),
            deleted_fragment_ids=tuple(
                checked_number("fragment id", number, 0, 2**64) for number in self.deleted_fragment_ids
            ),
            predicate=checked_text("predicate", self.predicate),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Operation):
    """Mark rows as deleted.

    Attributes:
        updated_fragments: fragments with a new deletion file.
        deleted_fragment_ids: the ids of the fragments that lost every row.
        predicate: the condition that selected the rows; informational.
    """

    arm: ClassVar[str] = "delete"
    hides_rows: ClassVar[bool] = True
    only_removes_rows: ClassVar[bool] = True

    updated_fragments: tuple[Fragment, ...] = ()
    deleted_fragment_ids: tuple[int, ...] = ()
    predicate: str = ""

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Delete) -> Self:
        """Parse the protobuf message."""
        return cls(
            updated_fragments=tuple(map(Fragment, message.updated_fragments)),
            deleted_fragment_ids=tuple(message.deleted_fragment_ids),
            predicate=message.predicate,
        )

    def to_proto(self) -> pb_transaction.Transaction.Delete:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Delete(
            updated_fragments=[fragment.message for fragment in self.updated_fragments],
            deleted_fragment_ids=self.deleted_fragment_ids,
            predicate=self.predicate,
        )

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that lose rows."""
        return frozenset({*self.deleted_fragment_ids, *(fragment.id for fragment in self.updated_fragments)})

    def changed_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments that lost some of their rows."""
        return self.updated_fragments

    def removed_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that lost every row."""
        return frozenset(self.deleted_fragment_ids)

    def with_hidden_rows(self, changed: tuple[Fragment, ...], emptied: Collection[int]) -> Self:
        """Return the delete with new deletion files and additional fragments that lose every row."""
        gone = (*self.deleted_fragment_ids, *sorted(emptied))
        return replace(self, updated_fragments=changed, deleted_fragment_ids=gone)

    def to_public(self) -> PublicDelete:
        """Return the public form of the operation."""
        return PublicDelete(shown_fragments(self.updated_fragments), list(self.deleted_fragment_ids), self.predicate)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a fragment is not in the table, is listed twice, or has no deletion file.
        """
        current = context.current
        require_writable(current.message)
        self._check()
        draft = ManifestDraft(current)
        draft.remove_fragments(self.deleted_fragment_ids)
        draft.set_deletions({fragment.id: fragment.message for fragment in self.updated_fragments})
        return draft

    def _check(self) -> None:
        if len(self.touched_fragments()) != len(self.updated_fragments) + len(self.deleted_fragment_ids):
            raise InvalidInputError("a delete lists a fragment twice")
        for fragment in self.updated_fragments:
            deletion = fragment.deletion_file
            if deletion is None:
                raise InvalidInputError(
                    f"a delete lists fragment {fragment.id} as updated, but the fragment has no deletion file"
                )
            if deletion.num_deleted_rows > fragment.physical_rows:
                raise InvalidInputError(
                    f"a delete records {counted(deletion.num_deleted_rows, 'deleted row')} for fragment "
                    f"{fragment.id}, which has "
                    f"only {counted(fragment.physical_rows, 'row')}",
                    expected=fragment.physical_rows,
                    found=deletion.num_deleted_rows,
                )
