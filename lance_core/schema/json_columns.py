"""JSON columns: callers use ``arrow.json`` text, and files contain ``lance.json`` binary values.

**Source:** columns of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.schema.field import EXTENSION_METADATA_KEY, EXTENSION_NAME_KEY, Field
from lance_core.schema.jsonb import jsonb_from_text, text_from_jsonb

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.schema.field import Schema

__all__ = [
    "ARROW_JSON",
    "LANCE_JSON",
    "decode_json",
    "encode_json",
    "is_json_text",
    "json_field",
    "shown_json_schema",
]

ARROW_JSON: Final = "arrow.json"
LANCE_JSON: Final = "lance.json"


def is_json_text(field: pa.Field) -> bool:
    """Return whether an Arrow field is JSON text, even if Arrow does not know the extension type."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == ARROW_JSON)
    name = (field.metadata or {}).get(EXTENSION_NAME_KEY.encode())
    return bool(name == ARROW_JSON.encode() and _is_text(field.type))


def json_field(given: pa.Field) -> pa.Field:
    """Return the field that stores a column of JSON text."""
    kept = {key: value for key, value in (given.metadata or {}).items() if not key.startswith(b"ARROW:extension:")}
    names = {EXTENSION_NAME_KEY.encode(): LANCE_JSON.encode(), EXTENSION_METADATA_KEY.encode(): b""}
    return pa.field(given.name, pa.large_binary(), nullable=given.nullable, metadata=kept | names)


def shown_json_schema(schema: Schema) -> Schema:
    """Return the schema with a text field for each stored JSON column; unchanged if there are no such columns."""
    if not any(node.logical_type == "json" for node in schema.walk()):
        return schema
    return replace(schema, fields=tuple(_shown(top) for top in schema.fields))


def _shown(field: Field) -> Field:
    if field.logical_type == "json":
        return _text_field(field)
    if field.is_leaf:
        return field
    return field.with_children([_shown(child) for child in field.children])


def _text_field(field: Field) -> Field:
    metadata = {**field.metadata, EXTENSION_NAME_KEY: ARROW_JSON.encode(), EXTENSION_METADATA_KEY: b""}
    return Field(
        id=field.id,
        name=field.name,
        logical_type="string",
        nullable=field.nullable,
        metadata=metadata,
        extension_name=ARROW_JSON,
    )


def encode_json(array: pa.Array, where: str) -> pa.Array:
    """Convert JSON text to binary JSON, as a large_binary array.

    Raises:
        InvalidInputError: a value is not valid JSON.
    """
    text = array.storage if isinstance(array, pa.ExtensionArray) else array
    try:
        return _mapped(text, jsonb_from_text, pa.large_binary())
    except InvalidInputError as error:
        raise InvalidInputError(f"column {where!r}: a value is not valid JSON: {error}", column=where) from error


def decode_json(array: pa.Array, where: str) -> pa.Array:
    """Convert binary JSON to JSON text, as a string array.

    Raises:
        CorruptDataError: a value is not valid binary JSON.
    """
    try:
        return _mapped(array, text_from_jsonb, pa.string())
    except CorruptDataError as error:
        raise CorruptDataError(f"column {where!r}: a value is not valid binary JSON: {error}", column=where) from error


def _mapped(array: pa.Array, convert: Callable[[bytes], bytes | str], dtype: pa.DataType) -> pa.Array:
    # Documents are trees of any shape, so each distinct document is converted separately. Rows stay in Arrow.
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    distinct = encoded.dictionary.cast(pa.large_binary())
    converted = pa.array([None if value is None else convert(value) for value in distinct.to_pylist()], dtype)
    return converted.take(encoded.indices)


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))
