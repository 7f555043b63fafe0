"""Converts the type names of CAST and typed literals from sqlglot's types to Arrow's.

Source: the list that pylance 14.0.2 reports for an unknown type.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["type_of"]

_TYPES: Final[Mapping[exp.DType, pa.DataType]] = MappingProxyType(
    {
        exp.DType.BOOLEAN: pa.bool_(),
        exp.DType.TINYINT: pa.int8(),
        exp.DType.SMALLINT: pa.int16(),
        exp.DType.INT: pa.int32(),
        exp.DType.BIGINT: pa.int64(),
        exp.DType.UTINYINT: pa.uint8(),
        exp.DType.USMALLINT: pa.uint16(),
        exp.DType.UINT: pa.uint32(),
        exp.DType.UBIGINT: pa.uint64(),
        exp.DType.FLOAT: pa.float32(),
        exp.DType.DOUBLE: pa.float64(),
        exp.DType.TEXT: pa.string(),
        exp.DType.DATE: pa.date32(),
    }
)
_TIMESTAMPS: Final = frozenset({exp.DType.TIMESTAMP, exp.DType.DATETIME})
_UNITS: Final = MappingProxyType({0: "s", 3: "ms", 6: "us", 9: "ns"})


def type_of(written: exp.Expr, *, default_unit: str = "us") -> pa.DataType | None:
    """Return the Arrow type for a type name in a predicate; None if the name is unknown.

    Args:
        written: the type name.
        default_unit: the unit of a timestamp type that is written without a precision ``(n)``.
    """
    if not isinstance(written, exp.DataType):
        return None
    if not written.expressions:
        return pa.timestamp(default_unit) if written.this in _TIMESTAMPS else _TYPES.get(written.this)
    sizes = [size.name for size in written.expressions]
    if not all(size.isdecimal() and len(size) <= 2 for size in sizes):
        return None
    return _type_with(written.this, [int(size) for size in sizes])


def _type_with(kind: exp.DType, sizes: list[int]) -> pa.DataType | None:
    """Return the type for ``timestamp(n)`` or ``decimal(p, s)``; None if it is unknown."""
    if kind in _TIMESTAMPS and len(sizes) == 1:
        unit = _UNITS.get(sizes[0])
        return None if unit is None else pa.timestamp(unit)
    if kind is exp.DType.DECIMAL and len(sizes) == 2 and sizes[1] <= sizes[0] <= 38 and sizes[0]:
        return pa.decimal128(*sizes)
    return None
