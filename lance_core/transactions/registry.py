"""Which class stands for which operation.

Every arm of ``Transaction.operation`` has one; a test compares the table with the message definition, so that a new arm
cannot be forgotten. An operation from a newer release than the definitions here is carried.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.errors import CorruptDataError
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import UNKNOWN_ARM, CarriedOperation
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.data_overlay import DataOverlay
from lance_core.transactions.operations.data_replacement import DataReplacement
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update import Update
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.operations.update_mem_wal_state import UpdateMemWalState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.proto import pb_transaction

__all__ = [
    "EXECUTABLE",
    "ExecutableOperation",
    "Operation",
    "operation_from_proto",
    "operation_into_proto",
]

ExecutableOperation: TypeAlias = (
    Append
    | Clone
    | CreateIndex
    | DataOverlay
    | DataReplacement
    | Delete
    | Merge
    | Overwrite
    | Project
    | ReserveFragments
    | Restore
    | Rewrite
    | Update
    | UpdateBases
    | UpdateConfig
    | UpdateMemWalState
)
Operation: TypeAlias = ExecutableOperation | CarriedOperation

_EXECUTABLE: Final[tuple[type[ExecutableOperation], ...]] = (
    Append,
    Delete,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Restore,
    ReserveFragments,
    Update,
    Project,
    UpdateConfig,
    DataReplacement,
    UpdateMemWalState,
    Clone,
    UpdateBases,
    DataOverlay,
)
EXECUTABLE: Final[Mapping[str, type[ExecutableOperation]]] = MappingProxyType(
    {operation.arm: operation for operation in _EXECUTABLE}
)
"""Operations that can be committed."""


def operation_from_proto(message: pb_transaction.Transaction) -> Operation:
    """The operation of a transaction.

    Raises:
        CorruptDataError: it has none.
    """
    arm = message.WhichOneof("operation")
    if arm is None:
        if len(UnknownFieldSet(message)) == 0:
            raise CorruptDataError(f"transaction {message.uuid or '(no uuid)'} has no operation")
        return CarriedOperation(arm=UNKNOWN_ARM)
    return EXECUTABLE[arm].from_proto(getattr(message, arm))


def operation_into_proto(operation: ExecutableOperation, message: pb_transaction.Transaction) -> None:
    """Set the operation of a transaction message."""
    getattr(message, operation.arm).CopyFrom(operation.to_proto())
