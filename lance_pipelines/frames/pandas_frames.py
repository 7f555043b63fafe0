"""Frames of pandas.

A dataset has no index. The levels of an index that has names are stored as columns; an index without a name, such as
the row numbers, is not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # no types

    from lance_pipelines.frames.table_slice import TableSlice

__all__ = ["load_pandas", "pandas_of_table", "reader_of_pandas"]


def load_pandas(rows: TableSlice) -> pd.DataFrame:
    """Read all rows, with row numbers as the index."""
    return pandas_of_table(rows.scanner().to_table())


def pandas_of_table(table: pa.Table) -> pd.DataFrame:
    """Return the rows of a table, with row numbers as the index."""
    return table.to_pandas()


def reader_of_pandas(frame: pd.DataFrame) -> pa.RecordBatchReader:
    """Return a reader of the frame's rows.

    Raises:
        InvalidInputError: the values of a column have different types, or several columns have the same name.
    """
    named = [name for name in frame.index.names if name is not None]
    try:
        columns = frame.reset_index(level=named) if named else frame
        table = pa.Table.from_pandas(columns, preserve_index=False)
    except (ValueError, TypeError, pa.ArrowException) as error:
        reason = "; ".join(map(str, error.args))
        raise InvalidInputError(f"the pandas.DataFrame cannot be converted to Arrow data: {reason}") from error
    # The description of the index that was left out.
    return table.replace_schema_metadata(None).to_reader()
