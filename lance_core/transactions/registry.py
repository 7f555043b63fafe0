"""Registry of the operations, with their record classes and public classes.

Every member of the oneof ``Transaction.operation`` has an entry; a test compares the table with the message definition,
so that no new operation is forgotten. An operation from a release newer than these definitions becomes a
``CarriedOperation``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_core.errors import CorruptDataError
from lance_core.public.overlay_metadata import DataOverlayFile as PublicDataOverlayFile
from lance_core.transactions.operations import operation
from lance_core.transactions.operations.append import Append, PublicAppend
from lance_core.transactions.operations.carried import CarriedOperation, PublicOther
from lance_core.transactions.operations.clone import Clone, PublicClone
from lance_core.transactions.operations.create_index import CreateIndex, PublicCreateIndex
from lance_core.transactions.operations.data_overlay import DataOverlay, PublicDataOverlay, PublicDataOverlayGroup
from lance_core.transactions.operations.data_replacement import (
    DataReplacement,
    PublicDataReplacement,
    PublicDataReplacementGroup,
)
from lance_core.transactions.operations.delete import Delete, PublicDelete
from lance_core.transactions.operations.map_update import PublicUpdateMap
from lance_core.transactions.operations.merge import Merge, PublicMerge
from lance_core.transactions.operations.overwrite import Overwrite, PublicOverwrite
from lance_core.transactions.operations.project import Project, PublicProject
from lance_core.transactions.operations.reserve_fragments import PublicReserveFragments, ReserveFragments
from lance_core.transactions.operations.restore import PublicRestore, Restore
from lance_core.transactions.operations.rewrite import PublicRewrite, PublicRewriteGroup, PublicRewrittenIndex, Rewrite
from lance_core.transactions.operations.update import PublicUpdate, Update
from lance_core.transactions.operations.update_bases import PublicUpdateBases, UpdateBases
from lance_core.transactions.operations.update_config import PublicUpdateConfig, UpdateConfig
from lance_core.transactions.operations.update_mem_wal_state import PublicUpdateMemWalState, UpdateMemWalState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.proto import pb_transaction
    from lance_core.transactions.operations.operation import Operation

__all__ = [
    "EXECUTABLE",
    "LanceOperation",
    "operation_from_proto",
    "operation_into_proto",
]

_EXECUTABLE: Final[tuple[type[Operation], ...]] = (
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
EXECUTABLE: Final[Mapping[str, type[Operation]]] = MappingProxyType(
    {operation.arm: operation for operation in _EXECUTABLE}
)
"""Operations that can be committed."""


class LanceOperation:
    """Namespace of the operations that can be committed to a dataset."""

    BaseOperation: TypeAlias = operation.BaseOperation

    Append: TypeAlias = PublicAppend
    Clone: TypeAlias = PublicClone
    CreateIndex: TypeAlias = PublicCreateIndex
    DataOverlay: TypeAlias = PublicDataOverlay
    DataReplacement: TypeAlias = PublicDataReplacement
    Delete: TypeAlias = PublicDelete
    Merge: TypeAlias = PublicMerge
    Other: TypeAlias = PublicOther
    Overwrite: TypeAlias = PublicOverwrite
    Project: TypeAlias = PublicProject
    ReserveFragments: TypeAlias = PublicReserveFragments
    Restore: TypeAlias = PublicRestore
    Rewrite: TypeAlias = PublicRewrite
    Update: TypeAlias = PublicUpdate
    UpdateBases: TypeAlias = PublicUpdateBases
    UpdateConfig: TypeAlias = PublicUpdateConfig
    UpdateMemWalState: TypeAlias = PublicUpdateMemWalState

    DataOverlayFile: TypeAlias = PublicDataOverlayFile
    DataOverlayGroup: TypeAlias = PublicDataOverlayGroup
    DataReplacementGroup: TypeAlias = PublicDataReplacementGroup
    RewriteGroup: TypeAlias = PublicRewriteGroup
    RewrittenIndex: TypeAlias = PublicRewrittenIndex
    UpdateMap: TypeAlias = PublicUpdateMap


def operation_from_proto(message: pb_transaction.Transaction) -> Operation:
    """Return the operation of a transaction.

    Raises:
        CorruptDataError: the transaction has no operation.
    """
    arm = message.WhichOneof("operation")
    if arm is None:
        if len(UnknownFieldSet(message)) == 0:
            raise CorruptDataError(f"transaction {message.uuid or '(no uuid)'} has no operation")
        return CarriedOperation()
    return EXECUTABLE[arm].from_proto(getattr(message, arm))


def operation_into_proto(operation: Operation, message: pb_transaction.Transaction) -> None:
    """Set the operation of a transaction message.

    Raises:
        NotSupportedError: the operation is unknown.
    """
    content = operation.to_proto()
    getattr(message, operation.arm).CopyFrom(content)
