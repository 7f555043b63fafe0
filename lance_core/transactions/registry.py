"""Which class stands for which operation.

Every arm of ``Transaction.operation`` is either executable or carried; a test compares the two tables with the
message definition, so that a new arm cannot be forgotten.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.errors import CorruptDataError
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.carried import UNKNOWN_ARM, CarriedOperation
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update_config import UpdateConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.proto import pb_transaction

__all__ = [
    "CARRIED",
    "EXECUTABLE",
    "ExecutableOperation",
    "Operation",
    "operation_from_proto",
    "operation_into_proto",
]

ExecutableOperation: TypeAlias = Append | Delete | Overwrite | Rewrite | Restore | ReserveFragments | UpdateConfig
Operation: TypeAlias = ExecutableOperation | CarriedOperation

_EXECUTABLE: Final[tuple[type[ExecutableOperation], ...]] = (
    Append,
    Delete,
    Overwrite,
    Rewrite,
    Restore,
    ReserveFragments,
    UpdateConfig,
)
EXECUTABLE: Final[Mapping[str, type[ExecutableOperation]]] = MappingProxyType(
    {operation.arm: operation for operation in _EXECUTABLE}
)
"""Operations that can be committed."""

CARRIED: Final = frozenset(
    {
        "create_index",
        "merge",
        "update",
        "project",
        "data_replacement",
        "update_mem_wal_state",
        "clone",
        "update_bases",
        "data_overlay",
    }
)
"""Operations that are read and named only."""


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
    operation = EXECUTABLE.get(arm)
    if operation is None:
        return CarriedOperation(arm=arm, message=getattr(message, arm))
    return operation.from_proto(getattr(message, arm))


def operation_into_proto(operation: ExecutableOperation, message: pb_transaction.Transaction) -> None:
    """Set the operation of a transaction message."""
    getattr(message, operation.arm).CopyFrom(operation.to_proto())
