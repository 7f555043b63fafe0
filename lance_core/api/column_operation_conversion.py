"""Between the operations on values and columns that users write and the records that are committed."""

from __future__ import annotations

import uuid as uuid_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from lance_core.api.column_operations import ColumnOperations as User
from lance_core.api.fragment_conversion import (
    data_file_from_record,
    data_file_to_record,
    overlay_from_record,
    overlay_to_record,
)
from lance_core.api.operation_values import (
    checked_number,
    fragment_metadata,
    fragment_records,
    schema_with_ids,
)
from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError
from lance_core.proto import pb_table, pb_transaction
from lance_core.transactions.operations.data_overlay import DataOverlay, OverlayGroup
from lance_core.transactions.operations.data_replacement import DataReplacement, Replacement
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.project import Project
from lance_core.transactions.operations.update import Update, UpdateMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["COLUMNS_FROM_CORE", "COLUMNS_TO_CORE", "absorbed_tables_from_core", "absorbed_tables_to_core"]

_U64: Final = 2**64
_FIELD_IDS: Final = 2**31


def absorbed_tables_to_core(tables: Iterable[tuple[str, int]]) -> tuple[pb_table.CompactedSsTable, ...]:
    """What was absorbed from the write-ahead log, as messages.

    Raises:
        InvalidInputError: a shard id is no UUID, or a generation no number.
    """
    try:
        pairs = [(uuid_module.UUID(shard).bytes, generation) for shard, generation in tables]
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"compacted_sstables must be pairs of shard id and generation: {error}") from error
    return tuple(
        pb_table.CompactedSsTable(
            shard_id=pb_table.UUID(uuid=shard), generation=checked_number("generation", generation, 0, _U64)
        )
        for shard, generation in pairs
    )


def absorbed_tables_from_core(tables: Iterable[pb_table.CompactedSsTable]) -> list[tuple[str, int]]:
    """What users see of it.

    Raises:
        CorruptDataError: a shard id is no UUID.
    """
    try:
        return [(str(uuid_module.UUID(bytes=table.shard_id.uuid)), table.generation) for table in tables]
    except ValueError as error:
        raise CorruptDataError(f"the id of a shard is no UUID: {error}") from error


def _update_to_core(operation: User.Update) -> Update:
    try:
        mode = UpdateMode(operation.update_mode or UpdateMode.ROWS.value)
    except ValueError as error:
        raise InvalidInputError(
            f"update_mode is {operation.update_mode!r}, expected one of {[each.value for each in UpdateMode]}"
        ) from error
    return Update(
        removed_fragment_ids=tuple(
            checked_number("fragment id", each, 0, _U64) for each in operation.removed_fragment_ids
        ),
        updated_fragments=fragment_records(operation.updated_fragments),
        new_fragments=fragment_records(operation.new_fragments),
        fields_modified=_field_ids("fields_modified", operation.fields_modified),
        fields_for_preserving=_field_ids(
            "fields_for_preserving_frag_bitmap", operation.fields_for_preserving_frag_bitmap
        ),
        mode=mode,
        inserted_rows=_filter_to_core(operation.inserted_rows),
        updated_offsets={
            checked_number("fragment id", fragment_id, 0, _U64): _bytes("updated_fragment_offsets", offsets)
            for fragment_id, offsets in (operation.updated_fragment_offsets or {}).items()
        },
        absorbed_tables=absorbed_tables_to_core(operation.compacted_sstables),
    )


def _update_from_core(operation: Update) -> User.Update:
    return User.Update(
        removed_fragment_ids=list(operation.removed_fragment_ids),
        updated_fragments=fragment_metadata(operation.updated_fragments),
        new_fragments=fragment_metadata(operation.new_fragments),
        fields_modified=list(operation.fields_modified),
        fields_for_preserving_frag_bitmap=list(operation.fields_for_preserving),
        update_mode=operation.mode.value,
        updated_fragment_offsets=dict(operation.updated_offsets) or None,
        inserted_rows=None if operation.inserted_rows is None else operation.inserted_rows.SerializeToString(),
        compacted_sstables=absorbed_tables_from_core(operation.absorbed_tables),
    )


def _merge_to_core(operation: User.Merge) -> Merge:
    return Merge(
        fragments=fragment_records(operation.fragments),
        schema=schema_with_ids(operation.schema),
        preserves_nullability=bool(operation.preserves_nullability),
    )


def _merge_from_core(operation: Merge) -> User.Merge:
    return User.Merge(fragment_metadata(operation.fragments), operation.schema, operation.preserves_nullability)


def _project_to_core(operation: User.Project) -> Project:
    return Project(
        schema=schema_with_ids(operation.schema), preserves_nullability=bool(operation.preserves_nullability)
    )


def _project_from_core(operation: Project) -> User.Project:
    return User.Project(operation.schema, operation.preserves_nullability)


def _replacement_to_core(operation: User.DataReplacement) -> DataReplacement:
    return DataReplacement(
        replacements=tuple(
            Replacement(
                fragment_id=checked_number("fragment id", each.fragment_id, 0, _U64),
                new_file=data_file_to_record(each.new_file),
            )
            for each in operation.replacements
        )
    )


def _replacement_from_core(operation: DataReplacement) -> User.DataReplacement:
    return User.DataReplacement(
        [
            User.DataReplacementGroup(each.fragment_id, data_file_from_record(each.new_file))
            for each in operation.replacements
        ]
    )


def _overlay_to_core(operation: User.DataOverlay) -> DataOverlay:
    return DataOverlay(
        groups=tuple(
            OverlayGroup(
                fragment_id=checked_number("fragment id", group.fragment_id, 0, _U64),
                overlays=tuple(map(overlay_to_record, group.overlays)),
            )
            for group in operation.groups
        )
    )


def _overlay_from_core(operation: DataOverlay) -> User.DataOverlay:
    return User.DataOverlay(
        [
            User.DataOverlayGroup(group.fragment_id, [overlay_from_record(each) for each in group.overlays])
            for group in operation.groups
        ]
    )


def _field_ids(name: str, values: Iterable[object]) -> tuple[int, ...]:
    return tuple(checked_number(name, each, 0, _FIELD_IDS) for each in values)


def _bytes(name: str, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidTypeError(f"{name} must be bytes, found {type(value).__name__}", argument=name)
    return value


def _filter_to_core(value: bytes | None) -> pb_transaction.Transaction.KeyExistenceFilter | None:
    if value is None:
        return None
    try:
        return pb_transaction.Transaction.KeyExistenceFilter.FromString(_bytes("inserted_rows", value))
    except DecodeError as error:
        raise InvalidInputError(f"inserted_rows is no serialized KeyExistenceFilter: {error}") from error


COLUMNS_TO_CORE: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        User.Update: _update_to_core,
        User.Merge: _merge_to_core,
        User.Project: _project_to_core,
        User.DataReplacement: _replacement_to_core,
        User.DataOverlay: _overlay_to_core,
    }
)
COLUMNS_FROM_CORE: Final[Mapping[type, Callable[[Any], Any]]] = MappingProxyType(
    {
        Update: _update_from_core,
        Merge: _merge_from_core,
        Project: _project_from_core,
        DataReplacement: _replacement_from_core,
        DataOverlay: _overlay_from_core,
    }
)
