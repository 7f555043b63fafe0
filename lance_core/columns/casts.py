"""Defines to which types a column can be changed, and casts its values.

==========================  =====================================================================================
from …                      to …
==========================  =====================================================================================
a bool                      a bool
an integer                  an integer; values must fit
a floating point number     a floating point number; values that are too large become infinite
text                        text, with offsets of any width, or dictionary-encoded
a dictionary                any type to which its values can be cast
binary                      binary, with offsets of any width
a timestamp                 a timestamp of any unit and time zone, a date, or a time
a date                      a date or a timestamp
a time, duration, decimal   the same type with another unit, precision, or scale; values must fit
a list                      a list, large list, or fixed-size list whose items can be cast; lengths must fit
==========================  =====================================================================================

Source: the casts that ``alter_columns`` of pylance 14.0.2 accepts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_core.errors import NotSupportedError, SchemaMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["can_cast", "cast_batch"]


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_variable_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def _is_instant(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_date(kind))


_CASTS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...]] = (
    (types.is_integer, types.is_integer),
    (types.is_floating, types.is_floating),
    (types.is_boolean, types.is_boolean),
    (_is_text, _is_text),
    (_is_binary, _is_binary),
    (_is_instant, _is_instant),
    (types.is_timestamp, types.is_time),
    (types.is_time, types.is_time),
    (types.is_duration, types.is_duration),
    (types.is_decimal, types.is_decimal),
)
"""Pairs of tests: one for the type before a cast, and one for the type after it. For lists and dictionaries, the types
of the items or values are tested."""


def can_cast(before: pa.DataType, after: pa.DataType) -> bool:
    """Return whether a column can be changed from one type to another."""
    if types.is_dictionary(before):
        return can_cast(before.value_type, after)
    if types.is_dictionary(after):
        return can_cast(before, after.value_type)
    if types.is_fixed_size_list(before) and types.is_fixed_size_list(after) and before.list_size != after.list_size:
        return False
    if _is_list(before) and _is_list(after):
        return can_cast(before.value_type, after.value_type)
    return any(is_source(before) and is_target(after) for is_source, is_target in _CASTS)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast the columns of a batch to the types of a schema.

    Raises:
        SchemaMismatchError: a value does not fit in its new type.
        NotSupportedError: Arrow cannot cast a column.
    """
    fields = zip(batch.columns, schema, batch.schema, strict=True)
    return pa.record_batch([_cast(column, after, before) for column, after, before in fields], schema=schema)


def _is_list(kind: pa.DataType) -> bool:
    return _is_variable_list(kind) or types.is_fixed_size_list(kind)


def _cast(column: pa.Array, after: pa.Field, before: pa.Field) -> pa.Array:
    # Floating point numbers may lose precision, and times their fractions, as in the reference.
    options = pc.CastOptions(
        target_type=after.type,
        allow_int_overflow=False,
        allow_time_truncate=True,
        allow_time_overflow=False,
        allow_decimal_truncate=True,
        allow_float_truncate=True,
        allow_invalid_utf8=False,
    )
    try:
        return pc.cast(column, options=options)
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(
            f"column {after.name!r} cannot be cast from {before.type} to {after.type}: {error}", column=after.name
        ) from error
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"column {after.name!r}: a value cannot be cast from {before.type} to {after.type}: {error}",
            column=after.name,
        ) from error
