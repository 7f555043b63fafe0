"""Rules that determine which values can be compared, and the type in which they are compared.

Predicates distinguish two cases:

* An untyped literal that is compared with a column adopts the column's type, provided that the type can represent the
  literal (:func:`adapt`): ``i8 < 300`` and ``i = 1.5`` are errors, not comparisons in a wider type. ``binding``
  determines where this applies.
* All other operands are compared in their common type (:func:`common_type`). A date that is compared with a timestamp
  means midnight UTC, regardless of the timestamp's time zone. A timestamp without a time zone means local time in the
  time zone of the other operand.

Source: predicates tested with pylance 14.0.2.
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
"""A type that can represent every int64 and every uint64."""
_CONVERTED: Final = frozenset(
    dtype.id for dtype in (pa.dictionary(pa.int8(), pa.null()), pa.string_view(), pa.binary_view())
)
"""Ids of the Arrow types whose values are converted to a different type for evaluation."""


def is_string(dtype: pa.DataType) -> bool:
    """Return whether a type is a string type."""
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def is_binary(dtype: pa.DataType) -> bool:
    """Return whether a type is a binary type."""
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype))


def evaluated_type(stored: pa.DataType) -> pa.DataType:
    """Return the type in which values of a column are evaluated; it is never a dictionary or view type."""
    dtype = storage_type(stored)
    if dtype.id not in _CONVERTED:
        return dtype
    if pa.types.is_dictionary(dtype):
        return evaluated_type(dtype.value_type)
    return pa.string() if pa.types.is_string_view(dtype) else pa.binary()


def adapt(scalar: pa.Scalar, stored: pa.DataType) -> pa.Scalar | None:
    """Convert a literal to a value of a column's type; return None if that is not possible.

    Args:
        scalar: the parsed literal: null, bool, int64, uint64, float64, string, or binary.
        stored: type of the column.
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
    """Return the common type of several types, combined pairwise from left to right; None if there is none.

    If the types have different time zones, the result has the last of these time zones, unlike the result of
    :func:`comparison_type`.
    """
    return _known(reduce(lambda common, dtype: _common_pair(dtype, common), dtypes))


def comparison_type(*dtypes: pa.DataType) -> pa.DataType | None:
    """Return the type in which values of these types are compared; None if they cannot be compared."""
    return _narrowed(reduce(_common_pair, dtypes), dtypes)


def range_type(operand: pa.DataType, low: pa.DataType, high: pa.DataType) -> pa.DataType | None:
    """Return the type in which BETWEEN compares its operands; None if they cannot be compared."""
    common = _common_pair(_common_pair(operand, low), _common_pair(operand, high))
    return _narrowed(common, (operand, low, high))


def _narrowed(common: pa.DataType | None, dtypes: Sequence[pa.DataType]) -> pa.DataType | None:
    """Return the common type, with a time unit no finer than the operands require, so that dates of all years fit."""
    if common != pa.timestamp("ns"):
        return _known(common)
    return pa.timestamp(_finest([*(dtype.unit for dtype in dtypes if pa.types.is_timestamp(dtype)), "ms"]))


def _known(common: pa.DataType | None) -> pa.DataType | None:
    """Replace types that cannot be evaluated: null becomes bool, and negative decimal scales become 0."""
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
    """Return the type in which arithmetic on two operands is computed; None if it is not supported.

    Integer arithmetic wraps around on overflow.
    """
    if not (_is_number(left) and _is_number(right)):
        return None
    common = _common_number(left, right)
    return None if pa.types.is_decimal(common) else common


def convert(values: pa.Array | pa.Scalar, dtype: pa.DataType) -> pa.Array | pa.Scalar:
    """Convert values to the common type.

    Finer time units are truncated. Timestamps without a time zone are interpreted in the time zone of the common type.

    Raises:
        pyarrow.ArrowInvalid: a value is out of range, or a local time does not exist in the time zone.
    """
    if values.type == dtype:
        return values
    gets_zone = pa.types.is_timestamp(dtype) and dtype.tz is not None and getattr(values.type, "tz", None) is None
    target = pa.timestamp(dtype.unit) if gets_zone else dtype
    same = pc.cast(values, target, safe=not (pa.types.is_floating(dtype) or _is_coarser(target, values.type)))
    return pc.assume_timezone(same, dtype.tz) if gets_zone else same


def rescaled(moment: pa.Scalar, dtype: pa.TimestampType) -> pa.Scalar:
    """Convert a timestamp to another type without shifting time zones; coarser units truncate toward 1970.

    Raises:
        pyarrow.ArrowInvalid: the timestamp is outside the range of the unit.
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
    """Convert a number to half precision; return None if the conversion makes it infinite or zero."""
    half = pc.cast(scalar, pa.float16(), safe=False)
    number, rounded = float(scalar.as_py()), float(half.as_py())
    return None if math.isinf(rounded) != math.isinf(number) or (rounded == 0) != (number == 0) else half


def _is_coarser(dtype: pa.DataType, source: pa.DataType) -> bool:
    """Return whether a timestamp type has a coarser unit than another timestamp or date type."""
    if not pa.types.is_timestamp(dtype) or not (pa.types.is_timestamp(source) or pa.types.is_date64(source)):
        return False
    return _UNITS.index(dtype.unit) < _UNITS.index("ms" if pa.types.is_date64(source) else source.unit)


def _finest(units: Sequence[str]) -> str:
    return max(units, key=_UNITS.index)


def _is_exact(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_decimal(dtype))


def _scale(dtype: pa.DataType) -> int:
    """Return the scale of a decimal type, which may be negative; 0 for other types."""
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
    """Return the finer of two date or duration types, the coarser of two timestamp types, or ``timestamp[ns]``."""
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
"""Pairs of type tests: the first accepts types of literals, the second the column types to which such literals are
converted."""
