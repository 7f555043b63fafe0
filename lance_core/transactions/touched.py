"""What an operation touched, as far as conflicts ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update import Update

if TYPE_CHECKING:
    from lance_core.transactions.registry import Operation

__all__ = ["share_fragment", "touched_fragments"]


def touched_fragments(operation: Operation) -> frozenset[int] | None:
    """Ids of the existing fragments that an operation changed, or that an index was built over.

    Returns:
        None when it cannot be told.

    Raises:
        CorruptDataError: the fragment bitmap of a new index is no bitmap.
    """
    match operation:
        case Delete() | Rewrite() | Update() | Merge() | DataReplacement() | DataOverlay() | CreateIndex():
            return operation.touched_fragments()
        case _:
            return None


def share_fragment(ours: Operation, theirs: Operation) -> bool:
    """Whether both touched one fragment, as far as is known."""
    mine, others = touched_fragments(ours), touched_fragments(theirs)
    return mine is None or others is None or not mine.isdisjoint(others)
