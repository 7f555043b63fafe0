"""SQL queries on one dataset; the names follow pylance.

**Source:** ``LanceDataset.sql`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from lance_core.absent import PylanceClass
from lance_core.public.arguments import checked_number, checked_text
from lance_core.scan.shown_columns import BlobHandling

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.scan.scan_source import ScanSource

__all__ = ["SqlQuery", "SqlQueryBuilder"]

_DEFAULT_NAME: Final = "dataset"
_DEFAULT_BATCH_ROWS: Final = 8192


class SqlQueryBuilder(PylanceClass):
    """Collects the settings of a query. Each method sets one of the settings and returns the builder.

    Created by :meth:`LanceDataset.sql`.

    Args:
        source: the fragments of the version to query.
        sql: the query.
    """

    def __init__(self, source: ScanSource, sql: str) -> None:
        """Start with the default of every setting."""
        self._source = source
        self._sql = checked_text("sql", sql)
        self._name = _DEFAULT_NAME
        self._batch_rows = _DEFAULT_BATCH_ROWS
        self._arguments: dict[str, Any] = {}

    def table_name(self, table_name: str) -> Self:
        """Set the name of the table, which is ``dataset`` by default. It is converted to lower case."""
        self._name = checked_text("table_name", table_name)
        return self

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Set whether the table has the column ``_rowid``."""
        self._arguments["with_row_id"] = with_row_id
        return self

    def with_row_addr(self, with_row_addr: bool = True) -> Self:
        """Set whether the table has the column ``_rowaddr``."""
        self._arguments["with_row_address"] = with_row_addr
        return self

    def blob_handling(self, blob_handling: str) -> Self:
        """Set what blob columns contain: "all_binary" means the values; by default, they contain descriptors."""
        BlobHandling.parse(blob_handling)
        self._arguments["blob_handling"] = blob_handling
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows in a batch, which is 8192 by default."""
        self._batch_rows = checked_number("batch_size", batch_size, 1, 1 << 32)
        self._arguments["batch_size"] = self._batch_rows
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Set the maximum size in bytes of the batches that the query reads from the dataset."""
        self._arguments["batch_size_bytes"] = checked_number("batch_size_bytes", batch_size_bytes, 1, 1 << 64)
        return self

    def build(self) -> SqlQuery:
        """Return the query, which is not checked until it is executed."""
        return SqlQuery(self._source, self._sql, self._name, self._batch_rows, dict(self._arguments))


class SqlQuery(PylanceClass):
    """A query. Each call to a method executes it again. Created by :meth:`SqlQueryBuilder.build`."""

    def __init__(self, source: ScanSource, sql: str, name: str, batch_rows: int, arguments: dict[str, Any]) -> None:
        """Initialize without reading anything."""
        self._source = source
        self._sql = sql
        self._name = name
        self._batch_rows = batch_rows
        self._arguments = arguments

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Execute the query, and return its result.

        Raises:
            InvalidInputError: the query is invalid or not read-only, cannot be evaluated for a row, or needs too
                much memory.
            NotSupportedError: the process was forked from one that used DataFusion.
        """
        return list(self.to_stream_reader())

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Execute the query, and return its result as a stream; rows are read when they are requested.

        Raises:
            InvalidInputError: the query is invalid or not read-only. While rows are read: the query cannot be evaluated
                for a row, or needs too much memory.
            NotSupportedError: the process was forked from one that used DataFusion.
        """
        # DataFusion is a large package, so it is loaded only when it is needed.
        from lance_core.scan.sql_table import SqlTable

        return SqlTable(self._source, self._arguments).query(self._sql, self._name, self._batch_rows)
