"""Frames of pyarrow: tables, and readers, which are never held in memory as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_pipelines.frames.table_slice import TableSlice

__all__ = ["load_reader", "load_table", "reader_of_reader", "reader_of_table", "table_of_table"]


def load_table(rows: TableSlice) -> pa.Table:
    """Read all rows."""
    return rows.scanner().to_table()


def load_reader(rows: TableSlice) -> pa.RecordBatchReader:
    """Return a reader that reads the rows as they are requested."""
    return rows.scanner().to_reader()


def reader_of_table(table: pa.Table) -> pa.RecordBatchReader:
    """Return a reader of the table's batches."""
    return table.to_reader()


def reader_of_reader(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the reader itself."""
    return reader


def table_of_table(table: pa.Table) -> pa.Table:
    """Return the table itself."""
    return table
