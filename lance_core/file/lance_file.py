"""Reads single data files with the same names, arguments, and results as pylance's ``lance.file``.

A thin wrapper around :class:`~lance_core.file.reader.FileReader` and :class:`~lance_core.file.writer.FileWriter`, for
code written for pylance. Datasets consist of such files, but are read and written through
``lance_core.dataset`` and ``lance_core.write_dataset``.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.file.file_arguments import (
    checked_path,
    checked_storage_options,
    column_names,
    positive_number,
    refuse_namespace,
)
from lance_core.file.lance_file_metadata import (
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceColumnStatistics,
    LanceFileMetadata,
    LanceFileStatistics,
    LancePageMetadata,
    file_metadata,
    file_statistics,
)
from lance_core.file.lance_file_writer import LanceFileWriter
from lance_core.file.read_config import ReadConfig
from lance_core.file.reader import FileReader
from lance_core.file.row_numbers import row_number, row_positions
from lance_core.io.uri import resolve
from lance_core.schema.convert import schema_to_arrow
from lance_core.versions import DEFAULT_VERSION

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from lance_core.io.object_store import ObjectStore

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "ReaderResults",
    "refuse_namespace",
    "stable_version",
]


class ReaderResults:
    """The rows of a read request, which can be consumed once, either as a stream or as a table."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Instances are created by the methods of :class:`LanceFileReader`."""
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of batches."""
        return self.reader

    def to_table(self) -> pa.Table:
        """Return the rows as a table."""
        return self.reader.read_all()


class LanceFileReader:
    """Reads one data file.

    Args:
        path: local path or URI.
        storage_options: settings for remote stores.
        columns: names or dotted paths of the columns to read; at least one. By default, all columns.
        namespace_client: not supported.
        table_id: not supported.

    Raises:
        NotFoundError: the file does not exist.
        InvalidInputError: a column is unknown, or the list of columns is empty.
        InvalidTypeError: an argument has the wrong type.
        CorruptDataError: the file is damaged.
        NotSupportedError: the file's format version or a type is not supported.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        storage_options: dict[str, str] | None = None,
        columns: list[str] | None = None,
        *,
        namespace_client: object | None = None,
        table_id: list[str] | None = None,
        _place: tuple[ObjectStore, str] | None = None,
    ) -> None:
        """See the class docstring; a session passes the resolved location as ``_place``."""
        refuse_namespace(namespace_client, table_id)
        names = column_names(columns)
        store, location = _place or resolve(checked_path(path), checked_storage_options(storage_options))
        self._reader = FileReader.open(store, location)
        whole = self._reader.schema
        self._schema = whole if names is None else whole.project(names, orders_members=True)
        self._arrow = schema_to_arrow(self._schema)

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Read all rows.

        Args:
            batch_size: number of rows per batch.
            batch_readahead: accepted for compatibility; read-ahead is limited by bytes instead.

        Raises:
            InvalidTypeError: a number is not an integer.
            InvalidInputError: a number is less than 1.
        """
        return self._read((0, self.num_rows()), batch_size, batch_readahead)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """Read rows ``[start, start + num_rows)``; see :meth:`read_all`."""
        first = row_number("start", start)
        return self._read((first, first + row_number("num_rows", num_rows)), batch_size, batch_readahead)

    def take_rows(self, indices: Sequence[int], *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Read the rows with the given numbers, which must be strictly ascending; see :meth:`read_all`."""
        rows = row_positions(indices)
        batch_rows = positive_number("batch_size", batch_size)
        positive_number("batch_readahead", batch_readahead)
        is_out_of_order = rows[1:] <= rows[:-1]
        if bool(is_out_of_order.any()):
            at = int(is_out_of_order.argmax())
            raise InvalidInputError(
                f"row indices must be strictly ascending, found {int(rows[at + 1])} after {int(rows[at])}"
            )
        table = self._reader.take(self._schema.fields, rows)
        batches = table.replace_schema_metadata(self._arrow.metadata).to_batches(batch_rows)
        return ReaderResults(pa.RecordBatchReader.from_batches(self._arrow, batches))

    def metadata(self) -> LanceFileMetadata:
        """Return the metadata of the file."""
        return file_metadata(self._reader)

    def file_statistics(self) -> LanceFileStatistics:
        """Return the sizes of the columns."""
        return file_statistics(self._reader)

    def read_global_buffer(self, index: int) -> bytes:
        """Read the content of a global buffer; index 0 is the file descriptor."""
        return bytes(self._reader.metadata.global_buffer(row_number("index", index)))

    def num_rows(self) -> int:
        """Return the number of rows in the file."""
        return self._reader.num_rows

    def _read(self, row_range: tuple[int, int], batch_size: int, batch_readahead: int) -> ReaderResults:
        batch_rows = positive_number("batch_size", batch_size)
        positive_number("batch_readahead", batch_readahead)
        batches = self._reader.read_batches(self._schema.fields, ReadConfig(batch_rows=batch_rows), row_range=row_range)
        metadata = self._arrow.metadata
        if metadata:
            batches = (batch.replace_schema_metadata(metadata) for batch in batches)
        return ReaderResults(pa.RecordBatchReader.from_batches(self._arrow, batches))


def stable_version() -> str:
    """Return the name of the default format version for writing."""
    return DEFAULT_VERSION.value
