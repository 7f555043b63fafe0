"""Sorts rows with DataFusion, in the same order as the reference implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from datafusion import col

from lance_core.errors import InvalidInputError
from lance_core.predicate.engine import failure, reason, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.public.column_ordering import ColumnOrdering

__all__ = ["sorted_rows"]


def sorted_rows(rows: pa.Table, orderings: Sequence[ColumnOrdering], start: int, stop: int | None) -> pa.Table:
    """Return rows ``[start, stop)`` of a table that is sorted; rows that are equal keep their order.

    Args:
        rows: the table. Its first columns are those to sort by, one for each ordering, without extension types.
        orderings: how to sort by these columns; the names are not used.
        start: number of rows to leave out.
        stop: number of rows after which to stop; None means all rows.

    Raises:
        InvalidInputError: a column has a type that cannot be sorted.
    """
    if not rows.num_rows:
        return rows
    names = [f"column_{index}" for index in range(rows.num_columns)]
    numbers = pa.array(range(rows.num_rows), pa.int64())
    # A single batch is sorted by the calling thread; several are merged by threads, which a forked process lacks.
    batches = rows.rename_columns(names).append_column("number", numbers).combine_chunks().to_batches()
    keys = [
        col(name).sort(ascending=each.ascending, nulls_first=each.nulls_first)
        for name, each in zip(names, orderings, strict=False)
    ]
    try:
        frame = session().read_batches(batches).sort(*keys, col("number").sort())
        if stop is not None:
            frame = frame.limit(max(0, stop - start), start)
        elif start:
            frame = frame.limit(rows.num_rows, start)
        found = pa.Table.from_batches(frame.drop("number").collect(), schema=rows.rename_columns(names).schema)
    except BaseException as error:  # DataFusion raises nothing narrower
        raise InvalidInputError(f"the rows cannot be sorted: {reason(failure(error))}") from error
    return found.rename_columns(rows.schema.names)
