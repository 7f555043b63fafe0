"""Converts schemas to and from ``pa.Schema``, and to and from the flat list of ``lance.file.Field`` messages.

The messages equal those that pylance writes, byte for byte: ``type`` is always 0, ``parent_id`` is -1 at the top level,
and ``encoding`` repeats information from the logical type. The members of a blob v2 descriptor, which occur only in the
schemas of data files, have neither an id nor a parent; they directly follow the field of their blob.

**Source:** ``lance.file.Field``, ``lance.file.Schema``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidSchemaError, NotSupportedError
from lance_core.proto import pb_file
from lance_core.schema.extension_types import extension_metadata, has_extension, restore_schema
from lance_core.schema.field import (
    EXTENSION_NAME_KEY,
    HIDDEN_FIELD_IDS,
    UNASSIGNED_ID,
    Field,
    Schema,
)
from lance_core.schema.json_columns import LANCE_JSON, is_json_text, json_field
from lance_core.schema.keys import (
    CLUSTERING_POSITION,
    PRIMARY_POSITION,
    check_primary_keys,
    is_primary_key,
    position,
)
from lance_core.schema.logical_types import BFLOAT16, MAX_LIST_DEPTH, arrow_field, logical_type_of, plain_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

__all__ = [
    "MAX_DEPTH",
    "RESERVED_NAMES",
    "bfloat16_list_name",
    "check_names",
    "fields_from_proto",
    "fields_to_proto",
    "schema_from_arrow",
    "schema_from_proto",
    "schema_to_arrow",
    "schema_to_proto",
]

RESERVED_NAMES: Final = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)
"""Names of the system columns that every table provides."""

_TOP_LEVEL: Final = -1
MAX_DEPTH: Final = 64
"""Maximum nesting depth of fields."""

_VAR_BINARY: Final = frozenset({"string", "large_string", "binary", "large_binary", "json"})
_NO_ENCODING: Final = frozenset({"struct", "null"})

_VIEWS: Final = (pa.string_view(), pa.binary_view())


def schema_from_arrow(arrow: pa.Schema, *, first_field_id: int = 0) -> Schema:
    """Convert an Arrow schema to a Lance schema, with ids assigned depth first from ``first_field_id``.

    Raises:
        InvalidSchemaError: :func:`check_names` rejects a name, or a primary key field is invalid.
        NotSupportedError: the format does not support one of the types.
    """
    check_names(arrow.names)
    tops = tuple(_from_arrow_field(column, column.name) for column in arrow)
    check_primary_keys(tops)
    return Schema(fields=tops, metadata=_text_keys(arrow.metadata)).with_ids(first_field_id)


def check_names(names: Iterable[str]) -> None:
    """Check the names of the top-level columns of a new schema; members of structs may have any name.

    Raises:
        InvalidSchemaError: a name contains a dot, is repeated, or is reserved for a system column.
    """
    seen: set[str] = set()
    for name in names:
        if "." in name:
            raise InvalidSchemaError(f"top-level column {name!r} must not contain '.'", column=name)
        if name in RESERVED_NAMES:
            raise InvalidSchemaError(
                f"top-level column {name!r} has a reserved name; reserved: {sorted(RESERVED_NAMES)}", column=name
            )
        if name in seen:
            raise InvalidSchemaError(f"column {name!r} occurs more than once", column=name)
        seen.add(name)


def schema_to_arrow(schema: Schema) -> pa.Schema:
    """Convert a schema to an Arrow schema. Extension types unknown to Arrow become storage types with field metadata.

    Raises:
        CorruptDataError: a logical type is malformed.
        NotSupportedError: a logical type is unknown.
    """
    arrow = pa.schema([arrow_field(top) for top in schema.fields], metadata=dict(schema.metadata) or None)
    return restore_schema(arrow) if any(has_extension(top) for top in schema.fields) else arrow


def fields_to_proto(schema: Schema) -> list[pb_file.Field]:
    """Return the fields as a flat list of messages, depth first, with parents before their children."""
    messages: list[pb_file.Field] = []
    for top in schema.fields:
        _append_messages(messages, top, _TOP_LEVEL)
    return messages


def fields_from_proto(
    messages: Iterable[pb_file.Field], metadata: Mapping[str, bytes] | None = None, *, hidden: Collection[int] = ()
) -> Schema:
    """Convert a flat list of messages to a tree of fields.

    Args:
        messages: the field messages, with parents before their children.
        metadata: metadata of the schema.
        hidden: negative ids that are allowed for top-level fields.

    Raises:
        CorruptDataError: an id occurs twice or is negative, or a parent does not precede its child.
        NotSupportedError: a field without an id does not follow a blob, or fields are nested more than 64 levels deep.
    """
    depths: dict[int, int] = {_TOP_LEVEL: 0}
    children: dict[int, list[pb_file.Field]] = {_TOP_LEVEL: []}
    last: pb_file.Field | None = None
    for node in messages:
        if node.id == UNASSIGNED_ID:
            if last is None or node.parent_id != _TOP_LEVEL or not _from_message(last, {}).is_blob:
                raise NotSupportedError(f"schema: field {node.name!r} has no id and is not part of a blob descriptor")
            children[last.id].append(node)
            continue
        last = node
        if (node.id < 0 and (node.id not in hidden or node.parent_id != _TOP_LEVEL)) or node.id in children:
            raise CorruptDataError(f"schema: field {node.name!r} has id {node.id}, which is negative or already in use")
        if node.parent_id not in children:
            raise CorruptDataError(
                f"schema: field {node.name!r} (id {node.id}) has parent {node.parent_id}, which does not precede it"
            )
        depths[node.id] = depths[node.parent_id] + 1
        if depths[node.id] > MAX_DEPTH:
            raise NotSupportedError(f"schema: field {node.name!r} is nested more than {MAX_DEPTH} levels deep")
        children[node.id] = []
        children[node.parent_id].append(node)
    tops = tuple(_from_message(node, children) for node in children[_TOP_LEVEL])
    return Schema(fields=tops, metadata=metadata or {})


def schema_to_proto(schema: Schema) -> pb_file.Schema:
    """Convert the schema to a ``Schema`` message, including metadata."""
    return pb_file.Schema(fields=fields_to_proto(schema), metadata=dict(schema.metadata))


def schema_from_proto(message: pb_file.Schema) -> Schema:
    """Convert a ``Schema`` message to a schema; see :func:`fields_from_proto`."""
    return fields_from_proto(message.fields, dict(message.metadata), hidden=HIDDEN_FIELD_IDS)


def _from_arrow_field(column: pa.Field, where: str) -> Field:
    if where.count(".") >= MAX_DEPTH:
        raise NotSupportedError(f"column {where!r} is nested more than {MAX_DEPTH} levels deep")
    if is_json_text(column):
        column = json_field(column)
    metadata = _text_keys(column.metadata)
    if isinstance(column.type, pa.BaseExtensionType):
        metadata = extension_metadata(column.type) | metadata
    extension_name = metadata.get(EXTENSION_NAME_KEY, b"")
    dtype = plain_type(column.type)
    _check_items(dtype, where)
    is_json = extension_name == LANCE_JSON.encode() and pa.types.is_large_binary(dtype)
    return Field(
        name=column.name,
        logical_type="json" if is_json else bfloat16_list_name(dtype) or logical_type_of(dtype, where),
        nullable=column.nullable,
        children=tuple(_from_arrow_field(child, f"{where}.{child.name}") for child in _arrow_children(dtype)),
        metadata=metadata,
        extension_name=_text(extension_name, where),
        unenforced_primary_key=is_primary_key(metadata),
        unenforced_primary_key_position=position(metadata, PRIMARY_POSITION) or 0,
        unenforced_clustering_key_position=position(metadata, CLUSTERING_POSITION) or 0,
    )


def _arrow_children(dtype: pa.DataType) -> Sequence[pa.Field]:
    if pa.types.is_struct(dtype):
        return list(dtype)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [dtype.value_field]
    if pa.types.is_map(dtype):
        return [pa.field("entries", pa.struct([dtype.key_field, dtype.item_field]), nullable=False)]
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_struct(plain_type(dtype.value_type)):
        return [dtype.value_field]
    return ()


def _append_messages(messages: list[pb_file.Field], node: Field, parent_id: int) -> None:
    messages.append(
        pb_file.Field(
            name=node.name,
            id=node.id,
            parent_id=parent_id,
            logical_type=node.logical_type,
            nullable=node.nullable,
            encoding=_encoding_hint(node.logical_type),
            extension_name=node.extension_name,
            metadata=dict(node.metadata),
            unenforced_primary_key=node.unenforced_primary_key,
            unenforced_primary_key_position=node.unenforced_primary_key_position,
            unenforced_clustering_key=node.unenforced_clustering_key,
            unenforced_clustering_key_position=node.unenforced_clustering_key_position,
        )
    )
    for child in node.children:
        _append_messages(messages, child, _TOP_LEVEL if child.id == UNASSIGNED_ID else node.id)


def _encoding_hint(logical_type: str) -> pb_file.Encoding:
    if logical_type in _NO_ENCODING:
        return pb_file.NONE
    if logical_type in _VAR_BINARY:
        return pb_file.VAR_BINARY
    return pb_file.DICTIONARY if logical_type.startswith("dict:") else pb_file.PLAIN


def _from_message(message: pb_file.Field, children: Mapping[int, list[pb_file.Field]]) -> Field:
    # The value that means "no id" is also the parent id of top-level fields.
    below = () if message.id == UNASSIGNED_ID else children.get(message.id, ())
    return Field(
        id=message.id,
        name=message.name,
        logical_type=message.logical_type,
        nullable=message.nullable,
        children=tuple(_from_message(child, children) for child in below),
        metadata=dict(message.metadata),
        extension_name=message.extension_name,
        unenforced_primary_key=message.unenforced_primary_key,
        unenforced_primary_key_position=message.unenforced_primary_key_position,
        unenforced_clustering_key=message.unenforced_clustering_key,
        unenforced_clustering_key_position=message.unenforced_clustering_key_position,
    )


def _text_keys(metadata: Mapping[bytes, bytes] | None) -> dict[str, bytes]:
    return {_text(key, "metadata"): value for key, value in (metadata or {}).items()}


def _text(value: bytes, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{where}: {value!r} is not valid UTF-8") from error


def bfloat16_list_name(dtype: pa.DataType) -> str | None:
    """Return the logical type for (nested) fixed-size lists of bfloat16; None for other types."""
    name, sizes = None, []
    for item, size in _lists(dtype):
        sizes.append(str(size))
        name = _extension_of(item)
    if name != BFLOAT16 or len(sizes) > MAX_LIST_DEPTH:
        return None
    return ":".join([*["fixed_size_list"] * len(sizes), BFLOAT16, *reversed(sizes)])


def _check_items(dtype: pa.DataType, where: str) -> None:
    """Check that a logical type can express the items of a fixed-size list or the values of a dictionary.

    Dictionaries, and fixed-size lists of anything but structs, have no child field whose metadata could specify an
    extension type. The logical type itself can express only ``lance.bfloat16``, at any depth. Other extension types
    would be lost silently, as would view types in a dictionary. pylance rejects the same types.

    Args:
        dtype: storage type of a field; struct members and list items are not checked.
        where: the column's path, for messages.

    Raises:
        NotSupportedError: an extension type or a view type would be lost; the message contains the type to cast to.
    """
    for item, _ in _lists(dtype):
        name = _extension_of(item)
        if name not in ("", BFLOAT16) and not pa.types.is_struct(plain_type(item.type)):
            raise NotSupportedError(
                f"column {where!r}: items of extension type {name} are not supported in fixed-size lists; cast the "
                f"items to {plain_type(item.type)}",
                column=where,
            )
    if pa.types.is_dictionary(dtype):
        value_type = dtype.value_type
        if isinstance(value_type, pa.BaseExtensionType) or value_type in _VIEWS:
            raise NotSupportedError(
                f"column {where!r}: dictionary values of type {value_type} are not supported; cast the values to "
                f"{plain_type(value_type)}",
                column=where,
            )


def _lists(dtype: pa.DataType) -> Iterator[tuple[pa.Field, int]]:
    """Yield the item field and the size of each nested fixed-size list, starting with the outermost."""
    while pa.types.is_fixed_size_list(dtype):
        yield dtype.value_field, dtype.list_size
        dtype = plain_type(dtype.value_type)


def _extension_of(item: pa.Field) -> str:
    if isinstance(item.type, pa.BaseExtensionType):
        return str(item.type.extension_name)
    name: bytes = (item.metadata or {}).get(EXTENSION_NAME_KEY.encode(), b"")
    return name.decode(errors="replace")
