"""Which values can be compared, and as what type.

Two cases, because predicates have two:

* A plain literal beside a column takes the column's type, if it can without loss of meaning (:func:`adapt`):
  ``i8 < 300`` and ``i = 1.5`` are mistakes, not comparisons with a wider type. ``binding`` knows where this holds.
* Any other two operands are compared as their common type (:func:`common_type`).

Source: predicates given to pylance 14.0.2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.schema.extension_types import storage_type

__all__ = ["adapt", "arithmetic_type", "common_type", "convert", "evaluated_type", "is_binary", "is_string"]

_UNITS: Final = ("s", "ms", "us", "ns")
_DECIMAL: Final = pa.decimal128(20, 0)
"""Holds every int64 and every uint64."""


def is_string(dtype: pa.DataType) -> bool:
    """Whether values are text."""
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def is_binary(dtype: pa.DataType) -> bool:
    """Whether values are bytes."""
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype))


def evaluated_type(stored: pa.DataType) -> pa.DataType:
    """The type in which values of a column are evaluated: without dictionaries, views and half precision."""
    dtype = storage_type(stored)
    if pa.types.is_dictionary(dtype):
        return evaluated_type(dtype.value_type)
    if pa.types.is_string_view(dtype):
        return pa.string()
    if pa.types.is_binary_view(dtype):
        return pa.binary()
    return pa.float32() if pa.types.is_float16(dtype) else dtype


def adapt(scalar: pa.Scalar, stored: pa.DataType) -> pa.Scalar | None:
    """A literal as a value of a column's type; None when it is none.

    Args:
        scalar: as the literal was read: null, bool, int64, uint64, float64, string or binary.
        stored: the column's type.
    """
    dtype = evaluated_type(stored)
    if not scalar.is_valid:
        return pa.scalar(None, dtype)
    if pa.types.is_float16(storage_type(stored)) and _is_number(scalar.type):
        with np.errstate(over="ignore"):
            return pa.scalar(float(np.float16(scalar.as_py())), pa.float32())
    for is_kind, accepts in _ADAPTS:
        if is_kind(scalar.type):
            return _cast_or_none(scalar, dtype) if accepts(dtype) else None
    return None


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type as which values of two types are compared; None when they cannot be."""
    if left == right:
        # Nulls are compared as any type, and a condition is one.
        return pa.bool_() if pa.types.is_null(left) else left if _is_comparable(left) else None
    for first, second in ((left, right), (right, left)):
        if pa.types.is_null(first):
            return second if _is_comparable(second) else None
    if _is_number(left) and _is_number(right):
        return _common_number(left, right)
    for is_kind, common in ((is_string, pa.large_string()), (is_binary, pa.large_binary())):
        if is_kind(left) and is_kind(right):
            return common
    if pa.types.is_temporal(left) and pa.types.is_temporal(right):
        return _common_instant(left, right)
    if pa.types.is_decimal(left) and pa.types.is_decimal(right):
        return pa.decimal256(76, max(left.scale, right.scale))
    for first, second in ((left, right), (right, left)):
        if pa.types.is_decimal(first) and pa.types.is_integer(second):
            return pa.decimal256(76, first.scale)
    return None


def arithmetic_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two numbers are added, multiplied …; None when they are not.

    Integers of this type wrap around.
    """
    if not (_is_number(left) and _is_number(right)):
        return None
    common = _common_number(left, right)
    return None if pa.types.is_decimal(common) else common


def convert(values: pa.Array | pa.Scalar, dtype: pa.DataType) -> pa.Array | pa.Scalar:
    """Values as the common type: finer units of time are cut off, and a timestamp without zone gets one.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, or a time does not exist in the zone.
    """
    if values.type == dtype:
        return values
    if pa.types.is_timestamp(dtype) and dtype.tz is not None and getattr(values.type, "tz", None) is None:
        naive = pc.cast(values, pa.timestamp(dtype.unit), safe=not pa.types.is_timestamp(values.type))
        return pc.assume_timezone(naive, dtype.tz)
    loses = pa.types.is_floating(dtype) or (pa.types.is_timestamp(dtype) and pa.types.is_timestamp(values.type))
    return pc.cast(values, dtype, safe=not loses)


def _cast_or_none(scalar: pa.Scalar, dtype: pa.DataType) -> pa.Scalar | None:
    if pa.types.is_fixed_size_binary(dtype) and len(scalar.as_py()) != dtype.byte_width:
        return None
    try:
        if pa.types.is_decimal(dtype):
            scalar = pc.cast(scalar, _DECIMAL)
        elif pa.types.is_time32(dtype):
            scalar = pc.cast(scalar, pa.int32())
        return pc.cast(scalar, dtype, safe=not pa.types.is_floating(dtype))
    except pa.ArrowInvalid:
        return None


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _is_comparable(dtype: pa.DataType) -> bool:
    return not (pa.types.is_nested(dtype) or pa.types.is_interval(dtype))


def _accepts_integer(dtype: pa.DataType) -> bool:
    return _is_number(dtype) or bool(pa.types.is_decimal(dtype) or pa.types.is_time(dtype))


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        is_double = pa.types.is_float64(left) or pa.types.is_float64(right)
        return pa.float64() if is_double else pa.float32()
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return max(left, right, key=lambda dtype: dtype.bit_width)
    signed, unsigned = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    if signed.bit_width > unsigned.bit_width:
        return signed
    return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: _DECIMAL}[unsigned.bit_width]


def _common_instant(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Dates among each other as days; a date beside a timestamp as that; two timestamps in the coarser unit."""
    stamps = [dtype for dtype in (left, right) if pa.types.is_timestamp(dtype)]
    dates = [dtype for dtype in (left, right) if pa.types.is_date(dtype)]
    if len(stamps) + len(dates) < 2:
        return None
    if not stamps:
        return pa.date32()
    unit = min((dtype.unit for dtype in stamps), key=_UNITS.index)
    return pa.timestamp(unit, next((dtype.tz for dtype in stamps if dtype.tz is not None), None))


_ADAPTS: Final = (
    (pa.types.is_boolean, pa.types.is_boolean),
    (pa.types.is_integer, _accepts_integer),
    (pa.types.is_floating, pa.types.is_floating),
    (is_string, is_string),
    (is_binary, is_binary),
)
"""Kind of literal -> kind of column whose values it can be."""
