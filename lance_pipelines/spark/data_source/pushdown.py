"""Translates Spark's filters to SQL conditions of ``lance_core`` that are true for the same rows.

Spark pushes a conjunction of simple conditions, never one with OR, and evaluates all others itself. A condition is
translated only if both engines evaluate it in the same way; all others are returned to Spark.

==========================  =====================================  =================================================
Stored type                 Spark                                  here
==========================  =====================================  =================================================
integers, text, dates       as in SQL                              the same
timestamps                  microseconds                           only those that are stored as microseconds
decimals                    exact                                  only those of at most 38 digits
floating-point numbers      NaN equals NaN and is the greatest;    ``isnan`` is tested in addition, because NaN with
                            -0.0 equals 0.0                        the sign bit set would be the smallest; zeros and
                                                                   NaN in the condition are left to Spark
binary, time, intervals,    any                                    left to Spark
arrays, structs, maps
types that are converted    conditions on the converted value      left to Spark
==========================  =====================================  =================================================

A comparison with null is null in both. ``NOT (a <=> b)`` is never null in Spark, so it is written with IS NULL. Names
are those of the table; Spark has already matched them regardless of case.

Source: ``pyspark.sql.datasource`` of PySpark 4.3; comparisons of both engines (``tests/spark/test_push_down.py``).
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import datasource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["to_sql"]

_COMPARISONS: Final[Mapping[type[datasource.Filter], str]] = MappingProxyType(
    {
        datasource.EqualTo: "=",
        datasource.EqualNullSafe: "=",
        datasource.GreaterThan: ">",
        datasource.GreaterThanOrEqual: ">=",
        datasource.LessThan: "<",
        datasource.LessThanOrEqual: "<=",
    }
)
_MATCHES: Final[Mapping[type[datasource.Filter], str]] = MappingProxyType(
    {
        datasource.StringStartsWith: "starts_with",
        datasource.StringEndsWith: "ends_with",
        datasource.StringContains: "contains",
    }
)
_TEXTS: Final = frozenset({pa.string(), pa.large_string()})
_FLOATS: Final = frozenset({pa.float32(), pa.float64()})


def to_sql(condition: datasource.Filter, schema: pa.Schema) -> str | None:
    """Return a SQL condition that is true for the same rows; None if there is none.

    Args:
        condition: one of the filters that Spark pushes.
        schema: the stored columns.
    """
    negated = isinstance(condition, datasource.Not)
    plain: Any = condition.child if isinstance(condition, datasource.Not) else condition
    stored = _stored_type(schema, getattr(plain, "attribute", ()))
    if stored is None:
        return None
    name = ".".join(f"`{part}`" for part in plain.attribute)
    if isinstance(plain, datasource.IsNull | datasource.IsNotNull):
        is_null = isinstance(plain, datasource.IsNull) != negated
        return f"{name} IS {'NULL' if is_null else 'NOT NULL'}"
    if isinstance(plain, datasource.EqualNullSafe):
        return _null_safe(name, stored, plain.value, negated=negated)
    if isinstance(plain, datasource.In):
        return _member(name, stored, plain.value, negated=negated)
    if type(plain) in _COMPARISONS:
        found = _comparison(name, stored, _COMPARISONS[type(plain)], plain.value)
    elif type(plain) in _MATCHES:
        found = _match(name, stored, _MATCHES[type(plain)], plain.value)
    else:
        return None
    return found if found is None or not negated else f"NOT ({found})"


def _stored_type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    """Return the type of a column or of a member of a struct; None if the name is not one that SQL text can contain."""
    if not path or any("`" in part or "." in part for part in path) or path[0] not in schema.names:
        return None
    found = schema.field(path[0]).type
    for part in path[1:]:
        if not pa.types.is_struct(found) or found.get_field_index(part) < 0:
            return None
        found = found.field(part).type
    return found


def _null_safe(name: str, stored: pa.DataType, value: Any, *, negated: bool) -> str | None:
    if value is None:
        return f"{name} IS {'NOT NULL' if negated else 'NULL'}"
    found = _comparison(name, stored, "=", value)
    return found if found is None or not negated else f"({name} IS NULL OR NOT ({found}))"


def _member(name: str, stored: pa.DataType, values: Iterable[Any], *, negated: bool) -> str | None:
    given = list(values)
    present = [value for value in given if value is not None]
    literals = [_literal(stored, value) for value in present]
    if not literals or any(literal is None for literal in literals):
        return None
    if negated and len(present) < len(given):
        # Never true, as long as the list contains null.
        return "false"
    return f"{name} {'NOT IN' if negated else 'IN'} ({', '.join(filter(None, literals))})"


def _comparison(name: str, stored: pa.DataType, operator: str, value: Any) -> str | None:
    literal = _literal(stored, value)
    if literal is None:
        return None
    if stored not in _FLOATS or operator == "=":
        return f"{name} {operator} {literal}"
    if operator in {">", ">="}:
        return f"({name} {operator} {literal} OR isnan({name}))"
    return f"({name} {operator} {literal} AND NOT isnan({name}))"


def _match(name: str, stored: pa.DataType, function: str, value: Any) -> str | None:
    literal = _literal(stored, value) if stored in _TEXTS else None
    return None if literal is None else f"{function}({name}, {literal})"


def _literal(stored: pa.DataType, value: Any) -> str | None:
    """Return a value as SQL text; None if it is not a value of the type, or if the engines treat it differently."""
    kind = pa.decimal128 if pa.types.is_decimal128(stored) else stored
    write = _LITERALS.get(kind)
    if write is None or value is None or isinstance(value, bool) != (stored == pa.bool_()):
        return None
    try:
        # Rejects values of other types, and numbers outside the range of the type.
        exact = pa.scalar(value, stored).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return write(stored, exact) if exact == value else None


def _float(stored: pa.DataType, value: float) -> str | None:
    return repr(value) if value and math.isfinite(value) else None


def _text(stored: pa.DataType, value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _date(stored: pa.DataType, value: date) -> str:
    return f"date '{value.isoformat()}'"


def _timestamp(stored: pa.DataType, value: datetime) -> str:
    wall_clock = value if stored.tz is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"timestamp '{wall_clock.isoformat(sep=' ')}{'' if stored.tz is None else 'Z'}'"


def _decimal(stored: pa.DataType, value: Decimal) -> str:
    return f"CAST('{value:f}' AS decimal({stored.precision}, {stored.scale}))"


_LITERALS: Final[Mapping[Any, Callable[[pa.DataType, Any], str | None]]] = MappingProxyType(
    {
        pa.bool_(): lambda _, value: str(value).lower(),
        **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), lambda _, value: str(value)),
        **dict.fromkeys(_FLOATS, _float),
        **dict.fromkeys(_TEXTS, _text),
        pa.date32(): _date,
        pa.timestamp("us"): _timestamp,
        pa.timestamp("us", "UTC"): _timestamp,
        pa.decimal128: _decimal,
    }
)
"""How the values of each type are written as SQL text; conditions on other types are left to Spark."""
