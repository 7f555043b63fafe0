"""Converts a condition on the rows of partitions to a Spark column, so that Spark reads only these rows."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lance_pipelines.ingest.partition_rows import Condition, RowSelection

__all__ = ["required_rows", "rows_of"]


def rows_of(selection: RowSelection) -> Column:
    """Return the condition as a column, which is true for the same rows."""
    return reduce(or_, (reduce(and_, map(_column, conditions)) for conditions in selection.alternatives))


def required_rows(selection: RowSelection) -> Column:
    """Return the condition as a column that fails for every other row."""
    message = f"a row does not belong to the partitions of the run; expected rows where {selection.to_sql()}"
    return F.when(rows_of(selection), F.lit(True)).otherwise(F.raise_error(F.lit(message)).cast("boolean"))


def _column(condition: Condition) -> Column:
    column = F.col(f"`{condition.column}`")
    parts = [(column >= _literal(start)) & (column < _literal(stop)) for start, stop in condition.ranges]
    if condition.values:
        parts.append(column.isin([_literal(value) for value in condition.values]))
    if condition.allows_null:
        parts.append(column.isNull())
    return reduce(or_, parts)


def _literal(value: pa.Scalar) -> Column:
    """Return a literal whose meaning does not depend on the time zone of the session."""
    if pa.types.is_timestamp(value.type):
        moment = value.cast(pa.timestamp("us", value.type.tz)).as_py()
        return F.lit(moment.isoformat()).cast("timestamp_ntz" if value.type.tz is None else "timestamp")
    return F.lit(value.as_py())
