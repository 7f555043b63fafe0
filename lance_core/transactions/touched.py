"""What an operation touched, as far as conflicts ask for it.

Operations that this library executes say so themselves; of the others, whose messages are carried whole, the parts
that matter are read here.

Source: ``lance.table.Transaction``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_transaction
from lance_core.transactions.operations.carried import CarriedOperation
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.rewrite import Rewrite

if TYPE_CHECKING:
    from lance_core.transactions.registry import Operation

__all__ = ["preserves_nullability", "touched_fragments"]

_Pb: TypeAlias = pb_transaction.Transaction


def touched_fragments(operation: Operation) -> frozenset[int] | None:
    """Ids of the existing fragments that an operation changed, or that an index was built over.

    Returns:
        None when it cannot be told.

    Raises:
        CorruptDataError: the fragment bitmap of a new index is no bitmap.
    """
    match operation:
        case Delete() | Rewrite():
            return operation.touched_fragments()
        case CarriedOperation(message=_Pb.Update() as update):
            return frozenset({*update.removed_fragment_ids, *(fragment.id for fragment in update.updated_fragments)})
        case CarriedOperation(message=_Pb.DataReplacement() as replacement):
            return frozenset(group.fragment_id for group in replacement.replacements)
        case CarriedOperation(message=_Pb.DataOverlay() as overlay):
            return frozenset(group.fragment_id for group in overlay.groups)
        case CarriedOperation(message=_Pb.CreateIndex() as index):
            return _indexed_fragments(index)
        case _:
            return None


def preserves_nullability(operation: Operation) -> bool | None:
    """Whether a change of the schema promises that no field became required; None for other operations."""
    if isinstance(operation, CarriedOperation) and isinstance(operation.message, (_Pb.Merge, _Pb.Project)):
        return operation.message.preserves_nullability
    return None


def _indexed_fragments(message: pb_transaction.Transaction.CreateIndex) -> frozenset[int] | None:
    # Imported late: few tables have an index.
    from pyroaring import BitMap

    fragment_ids: set[int] = set()
    for index in message.new_indices:
        if not index.fragment_bitmap:
            return None
        try:
            fragment_ids.update(BitMap.deserialize(index.fragment_bitmap))
        except (ValueError, IndexError, MemoryError) as error:
            raise CorruptDataError(f"index {index.name!r}: its fragment bitmap cannot be read: {error}") from error
    return frozenset(fragment_ids)
