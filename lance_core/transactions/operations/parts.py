"""Groups of fragments, which are parts of operations and are also used by other modules.

Source: ``lance.table.Transaction``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.proto import pb_transaction
from lance_core.table.fragment import Fragment

if TYPE_CHECKING:
    from lance_core.proto import pb_table

__all__ = ["OverlayGroup", "RewriteGroup"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroup:
    """Old fragments, and the new fragments that replace them.

    Attributes:
        old_fragments: the fragments as they were when their rows were read.
        new_fragments: the fragments that contain the rows now; empty if every row was deleted.
    """

    old_fragments: tuple[Fragment, ...]
    new_fragments: tuple[Fragment, ...]

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Rewrite.RewriteGroup) -> Self:
        """Parse the protobuf message."""
        return cls(
            old_fragments=tuple(map(Fragment, message.old_fragments)),
            new_fragments=tuple(map(Fragment, message.new_fragments)),
        )

    def to_proto(self) -> pb_transaction.Transaction.Rewrite.RewriteGroup:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Rewrite.RewriteGroup(
            old_fragments=[fragment.message for fragment in self.old_fragments],
            new_fragments=[fragment.message for fragment in self.new_fragments],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayGroup:
    """The overlays of one fragment.

    Attributes:
        fragment_id: the id of the fragment.
        overlays: the overlays, oldest first.
    """

    fragment_id: int
    overlays: tuple[pb_table.DataOverlayFile, ...]
