"""Between the operations on indices, places and the log that users write and the records that are committed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.api.column_operation_conversion import absorbed_tables_from_core, absorbed_tables_to_core
from lance_core.api.dataset_base_path import base_path_from_proto, base_path_to_proto
from lance_core.api.index_records import index_from_proto, index_to_proto
from lance_core.api.operation_values import checked_number, checked_text
from lance_core.api.table_operations import TableOperations as User
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.update_bases import UpdateBases
from lance_core.transactions.operations.update_mem_wal_state import UpdateMemWalState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TABLES_FROM_CORE", "TABLES_TO_CORE"]


def _index_to_core(operation: User.CreateIndex) -> CreateIndex:
    return CreateIndex(
        new_indices=tuple(map(index_to_proto, operation.new_indices)),
        removed_indices=tuple(map(index_to_proto, operation.removed_indices)),
    )


def _index_from_core(operation: CreateIndex) -> User.CreateIndex:
    return User.CreateIndex(
        list(map(index_from_proto, operation.new_indices)), list(map(index_from_proto, operation.removed_indices))
    )


def _clone_to_core(operation: User.Clone) -> Clone:
    return Clone(
        is_shallow=bool(operation.is_shallow),
        ref_name=None if operation.ref_name is None else checked_text("ref_name", operation.ref_name),
        ref_version=checked_number("ref_version", operation.ref_version, 1, 2**63),
        ref_path=checked_text("ref_path", operation.ref_path),
        branch_name=None if operation.branch_name is None else checked_text("branch_name", operation.branch_name),
    )


def _clone_from_core(operation: Clone) -> User.Clone:
    return User.Clone(
        operation.is_shallow, operation.ref_name, operation.ref_version, operation.ref_path, operation.branch_name
    )


def _bases_to_core(operation: User.UpdateBases) -> UpdateBases:
    return UpdateBases(new_bases=tuple(map(base_path_to_proto, operation.new_bases)))


def _bases_from_core(operation: UpdateBases) -> User.UpdateBases:
    return User.UpdateBases(list(map(base_path_from_proto, operation.new_bases)))


def _log_to_core(operation: User.UpdateMemWalState) -> UpdateMemWalState:
    return UpdateMemWalState(absorbed_tables=absorbed_tables_to_core(operation.compacted_sstables))


def _log_from_core(operation: UpdateMemWalState) -> User.UpdateMemWalState:
    return User.UpdateMemWalState(absorbed_tables_from_core(operation.absorbed_tables))


TABLES_TO_CORE: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        User.CreateIndex: _index_to_core,
        User.Clone: _clone_to_core,
        User.UpdateBases: _bases_to_core,
        User.UpdateMemWalState: _log_to_core,
    }
)
TABLES_FROM_CORE: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        CreateIndex: _index_from_core,
        Clone: _clone_from_core,
        UpdateBases: _bases_from_core,
        UpdateMemWalState: _log_from_core,
    }
)
