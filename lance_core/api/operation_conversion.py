"""Between the operations that users write and the records that are committed.

Source: names and fields of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.api.bases import numbered_bases
from lance_core.api.column_operation_conversion import COLUMNS_FROM_CORE, COLUMNS_TO_CORE
from lance_core.api.dataset_base_path import base_path_from_proto
from lance_core.api.operation_values import (
    checked_number,
    checked_properties,
    checked_text,
    fragment_metadata,
    fragment_records,
    schema_with_ids,
)
from lance_core.api.operations import LanceOperation, Transaction
from lance_core.api.table_operation_conversion import TABLES_FROM_CORE, TABLES_TO_CORE
from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, LanceError, NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.transactions.operations.append import Append
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite, RewriteGroup
from lance_core.transactions.operations.update_config import MapUpdate, UpdateConfig
from lance_core.transactions.transaction import Transaction as CoreTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.transactions.registry import ExecutableOperation, Operation

__all__ = ["map_update", "transaction_from_core", "transaction_to_core"]

_RewrittenIndex = pb_transaction.Transaction.Rewrite.RewrittenIndex


def transaction_to_core(transaction: Transaction) -> CoreTransaction:
    """The core's record of a user's transaction.

    Raises:
        InvalidInputError: a value is malformed.
        InvalidTypeError: a value is of a wrong type.
        NotSupportedError: the operation cannot be committed.
    """
    read_version = checked_number("read_version", transaction.read_version, 0, 2**64)
    operation = transaction.operation
    convert = _TO_CORE.get(type(operation))
    if convert is None:
        name = operation.name if isinstance(operation, LanceOperation.Other) else type(operation).__name__
        raise NotSupportedError(f"committing the operation {name!r} is not supported", operation=name)
    properties = checked_properties(transaction.transaction_properties)
    try:
        record = convert(operation)
    except (TypeError, AttributeError) as error:
        if isinstance(error, LanceError):
            raise
        raise InvalidTypeError(f"an attribute of {type(operation).__qualname__} is of a wrong type: {error}") from error
    return CoreTransaction(read_version=read_version, operation=record, uuid=transaction.uuid, properties=properties)


def transaction_from_core(transaction: CoreTransaction) -> Transaction:
    """What users see of a committed transaction."""
    operation = transaction.operation
    convert = _FROM_CORE.get(type(operation))
    return Transaction(
        read_version=transaction.read_version,
        operation=LanceOperation.Other(operation.arm) if convert is None else convert(operation),
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )


def map_update(what: str, values: Mapping[Any, Any], *, replace: bool) -> MapUpdate:
    """The change of a map of settings.

    Args:
        what: the argument, for error messages.
        values: new values; None removes the key.
        replace: drop every other entry.

    Raises:
        InvalidTypeError: a key is no text, or a value neither text nor None.
        InvalidInputError: a text has half a surrogate pair.
    """
    if not isinstance(values, Mapping):
        raise InvalidTypeError(f"{what} must map text to text or None, found {values!r:.80}", argument=what)
    return MapUpdate(
        entries={
            checked_text(f"a key of {what}", key): None
            if value is None
            else checked_text(f"{what}[{key!r:.40}]", value)
            for key, value in values.items()
        },
        replace=bool(replace),
    )


def _append_to_core(operation: LanceOperation.Append) -> Append:
    return Append(fragments=fragment_records(operation.fragments))


def _append_from_core(operation: Append) -> LanceOperation.Append:
    return LanceOperation.Append(fragment_metadata(operation.fragments))


def _overwrite_to_core(operation: LanceOperation.Overwrite) -> Overwrite:
    return Overwrite(
        schema=schema_with_ids(operation.new_schema),
        fragments=fragment_records(operation.fragments),
        initial_bases=numbered_bases(operation.initial_bases or ()),
    )


def _overwrite_from_core(operation: Overwrite) -> LanceOperation.Overwrite:
    bases = [base_path_from_proto(base) for base in operation.initial_bases]
    return LanceOperation.Overwrite(operation.schema, fragment_metadata(operation.fragments), bases or None)


def _delete_to_core(operation: LanceOperation.Delete) -> Delete:
    return Delete(
        updated_fragments=fragment_records(operation.updated_fragments),
        deleted_fragment_ids=tuple(
            checked_number("fragment id", number, 0, 2**64) for number in operation.deleted_fragment_ids
        ),
        predicate=checked_text("predicate", operation.predicate),
    )


def _delete_from_core(operation: Delete) -> LanceOperation.Delete:
    return LanceOperation.Delete(
        fragment_metadata(operation.updated_fragments), list(operation.deleted_fragment_ids), operation.predicate
    )


def _restore_to_core(operation: LanceOperation.Restore) -> Restore:
    return Restore(version=checked_number("version", operation.version, 1, 2**63))


def _restore_from_core(operation: Restore) -> LanceOperation.Restore:
    return LanceOperation.Restore(operation.version)


def _rewrite_to_core(operation: LanceOperation.Rewrite) -> Rewrite:
    return Rewrite(
        groups=tuple(
            RewriteGroup(
                old_fragments=fragment_records(group.old_fragments), new_fragments=fragment_records(group.new_fragments)
            )
            for group in operation.groups
        ),
        rewritten_indices=tuple(map(_index_to_core, operation.rewritten_indices)),
    )


def _rewrite_from_core(operation: Rewrite) -> LanceOperation.Rewrite:
    return LanceOperation.Rewrite(
        [
            LanceOperation.RewriteGroup(fragment_metadata(group.old_fragments), fragment_metadata(group.new_fragments))
            for group in operation.groups
        ],
        [_index_from_core(index) for index in operation.rewritten_indices],
    )


def _reserve_to_core(operation: LanceOperation.ReserveFragments) -> ReserveFragments:
    return ReserveFragments(num_fragments=checked_number("num_fragments", operation.num_fragments, 1, 2**32))


def _reserve_from_core(operation: ReserveFragments) -> LanceOperation.ReserveFragments:
    return LanceOperation.ReserveFragments(operation.num_fragments)


def _config_to_core(operation: LanceOperation.UpdateConfig) -> UpdateConfig:
    return UpdateConfig(
        config=_optional_update("config_updates", operation.config_updates),
        table_metadata=_optional_update("table_metadata_updates", operation.table_metadata_updates),
        schema_metadata=_optional_update("schema_metadata_updates", operation.schema_metadata_updates),
        field_metadata={
            checked_number("field id", field_id, 0, 2**31): map_update(
                "field_metadata_updates", update.updates, replace=update.replace
            )
            for field_id, update in (operation.field_metadata_updates or {}).items()
        },
    )


def _config_from_core(operation: UpdateConfig) -> LanceOperation.UpdateConfig:
    return LanceOperation.UpdateConfig(
        config_updates=_update_from_core(operation.config),
        table_metadata_updates=_update_from_core(operation.table_metadata),
        schema_metadata_updates=_update_from_core(operation.schema_metadata),
        field_metadata_updates={
            field_id: LanceOperation.UpdateMap(dict(update.entries), update.replace)
            for field_id, update in operation.field_metadata.items()
        }
        or None,
    )


def _optional_update(what: str, update: LanceOperation.UpdateMap | None) -> MapUpdate | None:
    return None if update is None else map_update(what, update.updates, replace=update.replace)


def _update_from_core(update: MapUpdate | None) -> LanceOperation.UpdateMap | None:
    return None if update is None else LanceOperation.UpdateMap(dict(update.entries), update.replace)


def _index_to_core(index: LanceOperation.RewrittenIndex) -> _RewrittenIndex:
    try:
        old_id, new_id = (uuid_module.UUID(text).bytes for text in (index.old_id, index.new_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"the ids of a rewritten index are no UUIDs: {index.old_id!r}, {index.new_id!r}"
        ) from error
    message = _RewrittenIndex(
        old_id=pb_table.UUID(uuid=old_id),
        new_id=pb_table.UUID(uuid=new_id),
        new_index_version=checked_number("new_index_version", index.new_index_version, 0, 2**32),
    )
    message.new_index_details.type_url = checked_text("new_details_type_url", index.new_details_type_url)
    message.new_index_details.value = index.new_details_value
    return message


def _index_from_core(message: _RewrittenIndex) -> LanceOperation.RewrittenIndex:
    try:
        old_id, new_id = (str(uuid_module.UUID(bytes=id.uuid)) for id in (message.old_id, message.new_id))
    except ValueError as error:
        raise CorruptDataError(f"the ids of a rewritten index are no UUIDs: {error}") from error
    return LanceOperation.RewrittenIndex(
        old_id=old_id,
        new_id=new_id,
        new_details_type_url=message.new_index_details.type_url,
        new_details_value=message.new_index_details.value,
        new_index_version=message.new_index_version,
    )


_TO_CORE: Final[Mapping[type, Callable[[Any], ExecutableOperation]]] = MappingProxyType(
    {
        LanceOperation.Append: _append_to_core,
        LanceOperation.Overwrite: _overwrite_to_core,
        LanceOperation.Delete: _delete_to_core,
        LanceOperation.Restore: _restore_to_core,
        LanceOperation.Rewrite: _rewrite_to_core,
        LanceOperation.ReserveFragments: _reserve_to_core,
        LanceOperation.UpdateConfig: _config_to_core,
        **COLUMNS_TO_CORE,
        **TABLES_TO_CORE,
    }
)
_FROM_CORE: Final[Mapping[type[Operation], Callable[[Any], LanceOperation.BaseOperation]]] = MappingProxyType(
    {
        Append: _append_from_core,
        Overwrite: _overwrite_from_core,
        Delete: _delete_from_core,
        Restore: _restore_from_core,
        Rewrite: _rewrite_from_core,
        ReserveFragments: _reserve_from_core,
        UpdateConfig: _config_from_core,
        **COLUMNS_FROM_CORE,
        **TABLES_FROM_CORE,
    }
)
