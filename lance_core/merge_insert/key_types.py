"""Converts the keys of a source to the types of the table, for merges that only delete.

A merge that only deletes stores no value of the source, so the types of keys may differ, as long as their values can be
compared: numbers with numbers, text with text, bytes with bytes, and timestamps with timestamps, if both or neither of
these have a time zone. Dictionary-encoded keys are compared by their values. A key that the type of the table cannot
represent is equal to no key of the table, and becomes null.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.schema.field import Schema

__all__ = ["as_stored", "keys_of_table", "with_keys_of_table"]


def with_keys_of_table(reader: pa.RecordBatchReader, table: Schema, keys: Sequence[str]) -> pa.RecordBatchReader:
    """Return the key columns of a source with the types of the table, if these can be compared with the given ones.

    Dictionaries become their values. If the source lacks a key column, or has one twice, the source is returned
    unchanged.

    Args:
        reader: the rows of the source.
        table: schema of the table.
        keys: names of the key columns.
    """
    if any(reader.schema.names.count(name) != 1 for name in keys):
        return reader
    schema = keys_of_table(reader.schema, table, keys)
    return pa.RecordBatchReader.from_batches(schema, (_converted(batch, schema) for batch in reader))


def keys_of_table(source: pa.Schema, table: Schema, keys: Sequence[str]) -> pa.Schema:
    """Return the fields of the key columns, as :func:`with_keys_of_table` converts them."""
    wanted = {top.name: _values_of(arrow_type(top)) for top in table.fields if top.name in keys}
    fields = [source.field(name) for name in keys if name in source.names]
    return pa.schema(
        [
            field.with_type(wanted[field.name]) if _are_comparable(field.type, wanted[field.name]) else field
            for field in fields
        ]
    )


def as_stored(keys: pa.Schema, table: Schema) -> pa.Schema:
    """Return the fields of converted key columns with the dictionary types that the table has."""
    types = {top.name: arrow_type(top) for top in table.fields if top.name in keys.names}
    return pa.schema(
        [
            field.with_type(types[field.name])
            if field.name in types and _values_of(types[field.name]) == field.type
            else field
            for field in keys
        ]
    )


def _are_comparable(given: pa.DataType, wanted: pa.DataType) -> bool:
    kind = _kind(wanted)
    return kind is not None and kind == _kind(_values_of(given))


def _kind(dtype: pa.DataType) -> str | None:
    if pa.types.is_integer(dtype) or pa.types.is_float32(dtype) or pa.types.is_float64(dtype):
        return "number"
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return "text"
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return "bytes"
    if pa.types.is_timestamp(dtype):
        return "local time" if dtype.tz is None else "moment"
    return None


def _values_of(dtype: pa.DataType) -> pa.DataType:
    return dtype.value_type if pa.types.is_dictionary(dtype) else dtype


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(field.name) for field in schema]
    arrays = [
        array if array.type == field.type else _in_type(array, field.type)
        for array, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_type(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        converted = array.cast(dtype, safe=False)
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"keys of type {array.type} cannot be converted to {dtype}: {error}") from error
    if _kind(dtype) in ("text", "bytes"):
        return converted
    back = converted.cast(array.type, safe=False)
    is_same = pc.fill_null(pc.equal(back, array), False)
    if pa.types.is_floating(dtype) and pa.types.is_floating(array.type):
        is_same = pc.or_(is_same, pc.fill_null(pc.is_nan(array), False))
    return pc.if_else(is_same, converted, pa.scalar(None, dtype))
