"""Which values can be compared, and as what type.

Two cases, because predicates have two:

* A plain literal beside a column takes the column's type, if it can without loss of meaning (:func:`adapt`):
  ``i8 < 300`` and ``i = 1.5`` are mistakes, not comparisons with a wider type. ``binding`` knows where this holds.
* Any other operands are compared as their common type (:func:`common_type`). A date beside a timestamp is midnight in
  UTC whatever the timestamp's zone; a timestamp without a zone is local time of the zone beside it.

Source: predicates given to pylance 14.0.2.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.schema.extension_types import storage_type

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "adapt",
    "arithmetic_type",
    "common_type",
    "comparison_type",
    "convert",
    "evaluated_type",
    "is_binary",
    "is_string",
    "range_type",
    "rescaled",
]

_UNITS: Final = ("s", "ms", "us", "ns")
_DECIMAL: Final = pa.decimal128(20, 0)
"""Holds every int64 and every uint64."""
_CONVERTED: Final = frozenset(
    dtype.id for dtype in (pa.dictionary(pa.int8(), pa.null()), pa.string_view(), pa.binary_view())
)
"""Types of columns whose values are evaluated as another one."""


def is_string(dtype: pa.DataType) -> bool:
    """Return whether values are text."""
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def is_binary(dtype: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype))


def evaluated_type(stored: pa.DataType) -> pa.DataType:
    """Return the type in which values of a column are evaluated: without dictionaries and views."""
    dtype = storage_type(stored)
    if dtype.id not in _CONVERTED:
        return dtype
    if pa.types.is_dictionary(dtype):
        return evaluated_type(dtype.value_type)
    return pa.string() if pa.types.is_string_view(dtype) else pa.binary()


def adapt(scalar: pa.Scalar, stored: pa.DataType) -> pa.Scalar | None:
    """Return a literal as a value of a column's type; None when it is not one.

    Args:
        scalar: as the literal was read: null, bool, int64, uint64, float64, string or binary.
        stored: the column's type.
    """
    dtype = evaluated_type(stored)
    if not scalar.is_valid:
        return pa.scalar(None, dtype)
    if pa.types.is_float16(dtype) and _is_number(scalar.type):
        return _half_or_none(scalar)
    for is_kind, accepts in _ADAPTS:
        if is_kind(scalar.type):
            return _cast_or_none(scalar, dtype) if accepts(dtype) else None
    return None


def common_type(*dtypes: pa.DataType) -> pa.DataType | None:
    """Return a type for values of all these types, found pair by pair from left to right; None when there is none.

    Of several zones it has the last, other than types that are compared.
    """
    return _known(reduce(lambda common, dtype: _common_pair(dtype, common), dtypes))


def comparison_type(*dtypes: pa.DataType) -> pa.DataType | None:
    """Return the type as which values of these types are compared; None when they cannot be."""
    return _narrowed(reduce(_common_pair, dtypes), dtypes)


def range_type(operand: pa.DataType, low: pa.DataType, high: pa.DataType) -> pa.DataType | None:
    """Return the type as which BETWEEN compares; None when it cannot."""
    common = _common_pair(_common_pair(operand, low), _common_pair(operand, high))
    return _narrowed(common, (operand, low, high))


def _narrowed(common: pa.DataType | None, dtypes: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the common type without units of time that none of the operands needs: dates of all years fit then."""
    if common != pa.timestamp("ns"):
        return _known(common)
    return pa.timestamp(_finest([*(dtype.unit for dtype in dtypes if pa.types.is_timestamp(dtype)), "ms"]))


def _known(common: pa.DataType | None) -> pa.DataType | None:
    """Return a type of values: nulls alone are conditions, and Arrow compares no decimals of negative scale."""
    if common is None or not (pa.types.is_null(common) or _scale(common) < 0):
        return common
    return pa.bool_() if pa.types.is_null(common) else pa.decimal256(76, 0)


def _common_pair(left: pa.DataType | None, right: pa.DataType | None) -> pa.DataType | None:
    if left is None or right is None or not (_is_comparable(left) and _is_comparable(right)):
        return None
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if _is_number(left) and _is_number(right):
        return _common_number(left, right)
    if pa.types.is_temporal(left) and pa.types.is_temporal(right):
        return _common_instant(left, right)
    if _is_exact(left) and _is_exact(right):
        return pa.decimal256(76, max(0, _scale(left), _scale(right)))
    if is_string(left) and is_string(right):
        return pa.large_string()
    if is_binary(left) and is_binary(right):
        return pa.large_binary()
    for text, data in ((left, right), (right, left)):
        if is_string(text) and is_binary(data) and not pa.types.is_fixed_size_binary(data):
            return pa.large_binary()
    return None


def arithmetic_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type in which two numbers are added, multiplied …; None when they are not.

    Integers of this type wrap around.
    """
    if not (_is_number(left) and _is_number(right)):
        return None
    common = _common_number(left, right)
    return None if pa.types.is_decimal(common) else common


def convert(values: pa.Array | pa.Scalar, dtype: pa.DataType) -> pa.Array | pa.Scalar:
    """Return values as the common type: finer units of time are cut off, and a timestamp without zone gets one.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit, or a time does not exist in the zone.
    """
    if values.type == dtype:
        return values
    gets_zone = pa.types.is_timestamp(dtype) and dtype.tz is not None and getattr(values.type, "tz", None) is None
    target = pa.timestamp(dtype.unit) if gets_zone else dtype
    same = pc.cast(values, target, safe=not (pa.types.is_floating(dtype) or _is_coarser(target, values.type)))
    return pc.assume_timezone(same, dtype.tz) if gets_zone else same


def rescaled(moment: pa.Scalar, dtype: pa.TimestampType) -> pa.Scalar:
    """Return a timestamp as another: cut off towards 1970 where the unit is coarser, and not moved between zones.

    Raises:
        pyarrow.ArrowInvalid: it is beyond the years of the unit.
    """
    return pc.cast(moment, dtype, safe=not _is_coarser(dtype, moment.type))


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


def _half_or_none(scalar: pa.Scalar) -> pa.Scalar | None:
    """Return a number in half precision; None when it becomes infinite, or zero, there."""
    half = pc.cast(scalar, pa.float16(), safe=False)
    number, rounded = float(scalar.as_py()), float(half.as_py())
    return None if math.isinf(rounded) != math.isinf(number) or (rounded == 0) != (number == 0) else half


def _is_coarser(dtype: pa.DataType, source: pa.DataType) -> bool:
    """Return whether a timestamp of the first type has the coarser unit than one, or a date, of the other."""
    if not pa.types.is_timestamp(dtype) or not (pa.types.is_timestamp(source) or pa.types.is_date64(source)):
        return False
    return _UNITS.index(dtype.unit) < _UNITS.index("ms" if pa.types.is_date64(source) else source.unit)


def _finest(units: Sequence[str]) -> str:
    return max(units, key=_UNITS.index)


def _is_exact(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_decimal(dtype))


def _scale(dtype: pa.DataType) -> int:
    """Return digits behind the point; negative where there are fewer before it."""
    return int(dtype.scale) if pa.types.is_decimal(dtype) else 0


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))


def _is_comparable(dtype: pa.DataType) -> bool:
    return not (pa.types.is_nested(dtype) or pa.types.is_interval(dtype))


def _accepts_integer(dtype: pa.DataType) -> bool:
    return _is_number(dtype) or bool(pa.types.is_decimal(dtype) or pa.types.is_time(dtype))


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    floating = [dtype for dtype in (left, right) if pa.types.is_floating(dtype)]
    if floating:
        return max(floating, key=lambda dtype: dtype.bit_width)
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return max(left, right, key=lambda dtype: dtype.bit_width)
    signed, unsigned = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    if signed.bit_width > unsigned.bit_width:
        return signed
    return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: _DECIMAL}[unsigned.bit_width]


def _common_instant(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Of two dates or durations the finer, of two timestamps the coarser, of a date and a timestamp one in no zone."""
    if pa.types.is_duration(left) and pa.types.is_duration(right):
        return pa.duration(_finest([left.unit, right.unit]))
    stamps = [dtype for dtype in (left, right) if pa.types.is_timestamp(dtype)]
    dates = [dtype for dtype in (left, right) if pa.types.is_date(dtype)]
    if len(stamps) + len(dates) < 2:
        return None
    if dates:
        return pa.timestamp("ns") if stamps else pa.date64()
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
