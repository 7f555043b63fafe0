"""ReserveFragments: reserve fragment ids for a later Rewrite.

The operation creates a version in which only the counter ``max_fragment_id`` changes; no other writer uses ids up to
its new value. A compaction numbers its new fragments this way before it commits, so that an index can refer to them.

Source: ``lance.table.Transaction.ReserveFragments``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from lance_core.errors import InvalidInputError
from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_number
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

__all__ = ["PublicReserveFragments", "ReserveFragments"]


@named("ReserveFragments")
@dataclass
class PublicReserveFragments(BaseOperation):
    """Reserve fragment ids for a later Rewrite. Not available in pylance's Python interface.

    Attributes:
        num_fragments: the number of ids to reserve.
    """

    num_fragments: int

    def to_record(self) -> ReserveFragments:
        """Return the internal form of the operation."""
        return ReserveFragments(num_fragments=checked_number("num_fragments", self.num_fragments, 1, 2**32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveFragments(Operation):
    """Reserve fragment ids.

    Attributes:
        num_fragments: the number of ids to reserve; after the commit, they are the highest ids up to
            ``max_fragment_id``.
    """

    arm: ClassVar[str] = "reserve_fragments"
    may_change_rows: ClassVar[bool] = False
    only_reserves_ids: ClassVar[bool] = True
    is_planned_on_any_version: ClassVar[bool] = True
    leaves_no_trace: ClassVar[bool] = True

    num_fragments: int

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.ReserveFragments) -> Self:
        """Parse the protobuf message."""
        return cls(num_fragments=message.num_fragments)

    def to_proto(self) -> pb_transaction.Transaction.ReserveFragments:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.ReserveFragments(num_fragments=self.num_fragments)

    def to_public(self) -> PublicReserveFragments:
        """Return the public form of the operation."""
        return PublicReserveFragments(self.num_fragments)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: the number of ids is less than 1, or not enough ids remain.
        """
        current = context.current
        require_writable(current.message)
        if self.num_fragments < 1:
            raise InvalidInputError(f"num_fragments must be at least 1, found {self.num_fragments}")
        draft = ManifestDraft(current)
        draft.reserve_fragment_ids(self.num_fragments)
        return draft
