"""Relations of DuckDB, which read the dataset as a stream each time they are executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    import duckdb

    from lance_pipelines.frames.table_slice import TableSlice

__all__ = ["duckdb_of_table", "load_duckdb", "reader_of_duckdb"]


def load_duckdb(rows: TableSlice) -> duckdb.DuckDBPyRelation:
    """Return a relation of a new in-memory database."""
    import duckdb

    return duckdb.connect().from_arrow(_Streams(rows))


def duckdb_of_table(table: pa.Table) -> duckdb.DuckDBPyRelation:
    """Return a relation of a new in-memory database.

    Raises:
        NotSupportedError: the table has no columns.
    """
    import duckdb

    if not table.num_columns:
        raise NotSupportedError("a DuckDB relation needs at least one column")
    return duckdb.connect().from_arrow(table)


def reader_of_duckdb(relation: duckdb.DuckDBPyRelation) -> pa.RecordBatchReader:
    """Return a reader that executes the relation as its rows are requested."""
    return pa.RecordBatchReader.from_stream(relation)


class _Streams:
    """A source of streams: DuckDB opens one to find the columns, and one for each execution."""

    def __init__(self, rows: TableSlice) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.scanner().to_reader().__arrow_c_stream__(requested_schema)
