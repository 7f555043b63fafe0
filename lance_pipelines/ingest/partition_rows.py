"""Which rows belong to the partitions of a run: a predicate over the columns that a declaration partitions by.

=====================  ===============================  ================================================================
partition              column                           rows
=====================  ===============================  ================================================================
a time window          timestamp with a time zone       instants from the start of the window, before its end
                       timestamp without a time zone    local times in the time zone of the partitions
                       date                             days of the window, which must start and end at midnight
                       string                           the partition's key
any other              string, integer, date, boolean   the partition's key, converted to the type of the column
any                    any of these                     the value that the declaration gives for the key, or null
=====================  ===============================  ================================================================

Adjacent windows are combined into one range, and keys into one list, so that a backfill of a year is one comparison::

    `day` >= date '2024-01-01' and `day` < date '2025-01-01' and `region` in ('eu', 'us')

A declaration with several dimensions names one column for each. This module uses neither Dagster nor Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from difflib import get_close_matches
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError

__all__ = [
    "Condition",
    "Partition",
    "PartitionColumn",
    "PartitionValue",
    "RowSelection",
    "column_slice",
    "partition_columns",
    "select_rows",
]

_MIDNIGHT: Final = time(0)

Range: TypeAlias = tuple[pa.Scalar, pa.Scalar]
"""Start and end of a half-open range, in the type of the column."""

Slice: TypeAlias = "Range | pa.Scalar"
"""The values of a column in one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """A column that assigns rows to partitions.

    Attributes:
        column: name of a top-level column.
        dimension: name of the dimension of multi-dimensional partitions; None for partitions of one dimension.
        values: maps partition keys to the value in their rows, which may be None; a key that is not listed is itself
            the value.
    """

    column: str
    dimension: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """The position of a partition in one dimension.

    Attributes:
        key: the key in this dimension.
        window: start and end of a time window, with time zones; None if the dimension is not one of time.
    """

    key: str
    window: tuple[datetime, datetime] | None = None


Partition: TypeAlias = Mapping[str | None, PartitionValue]
"""One partition: its value in every dimension, keyed by the dimension's name, or by None if there is only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on one column, which is true for values in one of the ranges, listed values, and nulls if allowed.

    Attributes:
        column: name of the column.
        ranges: half-open ranges that neither overlap nor touch, in ascending order.
        values: single values, none of which is null.
        allows_null: whether the condition is true for nulls.
    """

    column: str
    ranges: tuple[Range, ...] = ()
    values: tuple[pa.Scalar, ...] = ()
    allows_null: bool = False

    def to_sql(self) -> str:
        """Return the condition as SQL text for filters and deletes of datasets."""
        name = f"`{self.column}`"
        parts = [f"{name} >= {_literal(start)} and {name} < {_literal(stop)}" for start, stop in self.ranges]
        if len(self.values) == 1:
            parts.append(f"{name} = {_literal(self.values[0])}")
        elif self.values:
            parts.append(f"{name} in ({', '.join(map(_literal, self.values))})")
        if self.allows_null:
            parts.append(f"{name} is null")
        return parts[0] if len(parts) == 1 else f"({' or '.join(f'({part})' for part in parts)})"


@dataclass(frozen=True, slots=True)
class RowSelection:
    """A condition on rows: a disjunction of alternatives, each of which is a conjunction of conditions."""

    alternatives: tuple[tuple[Condition, ...], ...]

    def to_sql(self) -> str:
        """Return the condition as SQL text for filters and deletes of datasets."""
        texts = [" and ".join(condition.to_sql() for condition in all_of) for all_of in self.alternatives]
        return texts[0] if len(texts) == 1 else " or ".join(f"({text})" for text in texts)

    def mask(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether the condition is true for it; never null."""
        found = [reduce(pc.and_, (_mask(each, rows) for each in all_of)) for all_of in self.alternatives]
        return reduce(pc.or_, found)


def partition_columns(partition_by: str | Sequence[PartitionColumn]) -> tuple[PartitionColumn, ...]:
    """Return the columns that assign rows to partitions; a single column may be given by its name."""
    return (PartitionColumn(column=partition_by),) if isinstance(partition_by, str) else tuple(partition_by)


def select_rows(columns: Sequence[PartitionColumn], partitions: Sequence[Partition], schema: pa.Schema) -> RowSelection:
    """Return the condition that is true for the rows of the partitions, and for no other row.

    Args:
        columns: the columns that assign rows to partitions, one for each dimension.
        partitions: the partitions; at least one.
        schema: the schema of the rows.

    Raises:
        InvalidInputError: a column or a dimension does not exist, or a key is not a value of its column.
        NotSupportedError: a column has a type that cannot assign rows to partitions.
    """
    rows = [tuple(column_slice(column, partition, schema) for column in columns) for partition in partitions]
    return RowSelection(tuple(_grouped([column.column for column in columns], frozenset(rows))))


def _grouped(columns: Sequence[str], rows: frozenset[tuple[Slice, ...]]) -> list[tuple[Condition, ...]]:
    """Return conjunctions; one of them is true for each of the rows. Equal parts of different rows are combined."""
    if not columns:
        return [()]
    rests: dict[Slice, set[tuple[Slice, ...]]] = {}
    for first, *rest in rows:
        rests.setdefault(first, set()).add(tuple(rest))
    firsts: dict[frozenset[tuple[Slice, ...]], list[Slice]] = {}
    for first, below in rests.items():
        firsts.setdefault(frozenset(below), []).append(first)
    found = [
        (_condition(columns[0], group), *others)
        for below, group in firsts.items()
        for others in _grouped(columns[1:], below)
    ]
    return sorted(found, key=lambda conditions: [condition.to_sql() for condition in conditions])


def _condition(column: str, slices: Sequence[Slice]) -> Condition:
    values = [each for each in slices if not isinstance(each, tuple)]
    return Condition(
        column=column,
        ranges=_merged([each for each in slices if isinstance(each, tuple)]),
        values=tuple(sorted((value for value in values if value.is_valid), key=lambda value: value.as_py())),
        allows_null=any(not value.is_valid for value in values),
    )


def _merged(ranges: Sequence[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for start, stop in sorted(ranges, key=lambda each: each[0].value):
        if merged and merged[-1][1].value >= start.value:
            last_start, last_stop = merged.pop()
            merged.append((last_start, max(last_stop, stop, key=lambda each: each.value)))
        else:
            merged.append((start, stop))
    return tuple(merged)


def column_slice(by: PartitionColumn, partition: Partition, schema: pa.Schema) -> Slice:
    """Return the values of a column in one partition: a half-open range, or a single value, which may be null.

    Raises:
        InvalidInputError: the column or the dimension does not exist, or the key is not a value of the column.
        NotSupportedError: the column has a type that cannot assign rows to partitions.
    """
    place = partition.get(by.dimension)
    if place is None:
        names = ", ".join(repr(each) for each in partition if each is not None)
        given = "no dimension" if by.dimension is None else f"dimension {by.dimension!r}"
        raise InvalidInputError(
            f"column {by.column!r} is assigned to {given}, but the partitions have "
            f"{f'the dimensions {names}' if names else 'only one dimension, which has no name'}",
            column=by.column,
        )
    index = schema.get_field_index(by.column)
    if index < 0:
        close = get_close_matches(by.column, schema.names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; columns: {', '.join(schema.names)}"
        raise InvalidInputError(f"the rows have no column {by.column!r} to partition by{hint}", column=by.column)
    if "`" in by.column:
        raise NotSupportedError(
            f"cannot partition by column {by.column!r}: its name contains a backtick", column=by.column
        )
    kind = schema.field(index).type
    if place.key in by.values:
        return _value(by.column, kind, place.key, by.values[place.key])
    if place.window is None or _is_string(kind):
        return _value(by.column, kind, place.key, place.key)
    return _range(by.column, kind, place.key, place.window)


def _value(column: str, kind: pa.DataType, key: str, value: object) -> pa.Scalar:
    if not (_is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)):
        raise NotSupportedError(
            f"column {column!r} has type {kind}; a column that assigns rows to keys must contain strings, integers, "
            "booleans, or dates (date32)",
            column=column,
        )
    try:
        return pa.scalar(value).cast(kind) if isinstance(value, str) else pa.scalar(value, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise InvalidInputError(
            f"partition {key!r}: {value!r} is not a valid value for column {column!r} of type {kind}", column=column
        ) from error


def _range(column: str, kind: pa.DataType, key: str, window: tuple[datetime, datetime]) -> Range:
    if pa.types.is_date32(kind):
        if any(moment.time() != _MIDNIGHT for moment in window):
            raise InvalidInputError(
                f"partition {key!r}: column {column!r} has type {kind}, but the partition does not start and end at "
                "midnight",
                column=column,
            )
        start, stop = (pa.scalar(moment.date(), kind) for moment in window)
    elif pa.types.is_timestamp(kind):
        start, stop = (_moment(column, kind, key, moment) for moment in window)
    else:
        raise NotSupportedError(
            f"column {column!r} has type {kind}; a column that assigns rows to time windows must contain timestamps, "
            "dates (date32), or strings",
            column=column,
        )
    return start, stop


def _moment(column: str, kind: pa.TimestampType, key: str, moment: datetime) -> pa.Scalar:
    """Return a point in time in the type of a column; its local time in that type must be unambiguous."""
    if kind.tz is not None:
        moment = pa.scalar(moment, pa.timestamp("us", kind.tz)).as_py()
    if moment.fold or (kind.tz is not None and moment.utcoffset() != moment.replace(fold=1).utcoffset()):
        raise InvalidInputError(
            f"partition {key!r} starts or ends in an hour that occurs twice when daylight saving time ends; column "
            f"{column!r} of type {kind} cannot distinguish the two; use timestamps in UTC, or partitions in UTC",
            column=column,
        )
    reading = moment if kind.tz is not None else moment.replace(tzinfo=None)
    return pa.scalar(reading, pa.timestamp("us", kind.tz)).cast(kind)


def _mask(condition: Condition, rows: pa.RecordBatch) -> pa.BooleanArray:
    column = rows.column(condition.column)
    parts = [
        pc.and_(pc.greater_equal(column, start), pc.less(column, stop)).fill_null(False)
        for start, stop in condition.ranges
    ]
    parts += [pc.equal(column, value).fill_null(False) for value in condition.values]
    if condition.allows_null:
        parts.append(pc.is_null(column))
    return reduce(pc.or_, parts)


def _literal(value: pa.Scalar) -> str:
    if _is_string(value.type):
        quoted = str(value.as_py()).replace("'", "''")
        return f"'{quoted}'"
    if pa.types.is_boolean(value.type):
        return "true" if value.as_py() else "false"
    if pa.types.is_date32(value.type):
        return f"date '{value.as_py().isoformat()}'"
    if pa.types.is_timestamp(value.type):
        # A literal is a reading of the clock in the time zone of the column.
        reading = value.cast(pa.timestamp("us", value.type.tz)).as_py().replace(tzinfo=None)
        return f"timestamp '{reading.isoformat(sep=' ')}'"
    return str(value.as_py())


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
