"""Single data files under the names, arguments and results of pylance's ``lance.file``.

A thin layer over :class:`~lance_core.file.reader.FileReader` and :class:`~lance_core.file.writer.FileWriter`, for code
that was written for the reference library. Datasets are made of such files, but are read and written through
``lance_core.dataset`` and ``lance_core.write_dataset``.

**Source:** behaviour of pylance 14.0.2.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError
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
from lance_core.file.prepared_input import PreparedInput
from lance_core.file.reader import FileReader
from lance_core.file.row_numbers import row_number, row_positions
from lance_core.file.writer import DEFAULT_DATA_CACHE_BYTES, DEFAULT_MAX_PAGE_BYTES, open_file_writer
from lance_core.io.uri import resolve
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.schema.projection import project
from lance_core.schema.storable import check_storable
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from lance_core.file.v0_1.writer import LegacyFileWriter
    from lance_core.file.writer import FileWriter
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
    """Rows that are about to be read, as a stream or at once. Usable for one of both, once."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Made by the methods of :class:`LanceFileReader`."""
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """The stream of batches."""
        return self.reader

    def to_table(self) -> pa.Table:
        """All rows."""
        return self.reader.read_all()


class LanceFileReader:
    """Reads one data file.

    Args:
        path: local path or URI.
        storage_options: settings of remote stores.
        columns: names or dotted paths; all columns by default.
        namespace_client: not supported.
        table_id: not supported.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: an unknown column.
        CorruptDataError: the file is damaged.
        NotSupportedError: a version or a type that is not read here.
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
        """See the class; a session passes ``_place`` instead of a path."""
        refuse_namespace(namespace_client, table_id)
        store, location = _place or resolve(path, storage_options)
        self._reader = FileReader.open(store, location)
        whole = self._reader.schema
        self._schema = whole if columns is None else project(whole, columns)
        # pylance leaves the schema metadata out of what it reads.
        self._arrow = schema_to_arrow(Schema(fields=self._schema.fields))

    def read_all(self, *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Every row.

        Args:
            batch_size: rows per batch.
            batch_readahead: accepted for compatibility; reading ahead is bounded by bytes instead.
        """
        return self._read((0, self.num_rows()), batch_size)

    def read_range(
        self, start: int, num_rows: int, *, batch_size: int = 1024, batch_readahead: int = 16
    ) -> ReaderResults:
        """The rows ``[start, start + num_rows)``; see :meth:`read_all`."""
        first = row_number("start", start)
        return self._read((first, first + row_number("num_rows", num_rows)), batch_size)

    def take_rows(self, indices: Sequence[int], *, batch_size: int = 1024, batch_readahead: int = 16) -> ReaderResults:
        """Single rows, whose numbers must be strictly ascending; see :meth:`read_all`."""
        rows = row_positions(indices)
        row_number("batch_size", batch_size)
        if bool((rows[1:] <= rows[:-1]).any()):
            raise InvalidInputError("row indices must be strictly ascending")
        table = self._reader.take(self._schema.fields, rows)
        return ReaderResults(pa.RecordBatchReader.from_batches(self._arrow, table.to_batches(batch_size)))

    def metadata(self) -> LanceFileMetadata:
        """What the file says about itself."""
        return file_metadata(self._reader)

    def file_statistics(self) -> LanceFileStatistics:
        """Sizes of the columns."""
        return file_statistics(self._reader)

    def read_global_buffer(self, index: int) -> bytes:
        """Content of a global buffer; index 0 is the file descriptor."""
        return bytes(self._reader.metadata.global_buffer(index))

    def num_rows(self) -> int:
        """Rows of the file."""
        return self._reader.num_rows

    def _read(self, row_range: tuple[int, int], batch_size: int) -> ReaderResults:
        batches = self._reader.read_batches(self._schema.fields, row_range=row_range, batch_rows=batch_size)
        return ReaderResults(pa.RecordBatchReader.from_batches(self._arrow, batches))


class LanceFileWriter:
    """Writes one data file.

    Leaving the ``with`` block closes the file, or removes it when the block failed. A writer that is dropped without
    being closed removes what it has written.

    Args:
        path: local path or URI.
        schema: taken from the first batch when absent.
        data_cache_bytes: collected for all columns before pages are written; by default 8 MiB per column.
        version: format version; the stable one by default.
        storage_options: settings of remote stores.
        namespace_client: not supported.
        table_id: not supported.
        max_page_bytes: a larger array is cut into several pages; 32 MiB by default.

    Attributes:
        closed: whether :meth:`close` has been called.
        size_bytes: size of the file; None until it is closed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: dict[str, str] | None = None,
        namespace_client: object | None = None,
        table_id: list[str] | None = None,
        max_page_bytes: int | None = None,
        _place: tuple[ObjectStore, str] | None = None,
    ) -> None:
        """See the class; a session passes ``_place`` instead of a path."""
        refuse_namespace(namespace_client, table_id)
        self._store, self._location = _place or resolve(path, storage_options)
        self._version = DEFAULT_VERSION if version is None else LanceFileVersion.parse(version)
        self._data_cache_bytes = data_cache_bytes
        self._max_page_bytes = DEFAULT_MAX_PAGE_BYTES if max_page_bytes is None else max_page_bytes
        self._writer = None if schema is None else self._open(schema)
        self._input: tuple[pa.Schema, PreparedInput] | None = None
        self.closed = False
        self.size_bytes: int | None = None

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows.

        Raises:
            SchemaMismatchError: the batch does not fit the schema; nothing of it was taken.
        """
        if self._writer is None:
            self._writer = self._open(batch.schema)
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            self._writer.write_batch(self._prepared(part.schema).batch(part))

    def _prepared(self, schema: pa.Schema) -> PreparedInput:
        if self._input is None or (self._input[0] is not schema and not self._input[0].equals(schema)):
            self._input = (schema, PreparedInput(schema))
        return self._input[1]

    def close(self) -> int | None:
        """Finish the file.

        Returns:
            Rows written; None when the file was closed already.

        Raises:
            InvalidInputError: there was neither a schema nor a batch.
        """
        if self.closed:
            return None
        self.closed = True
        written = self._opened().finish()
        self.size_bytes = written.num_bytes
        return written.num_rows

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the schema metadata of the file."""
        self._opened().add_schema_metadata(key, value.encode())

    def add_global_buffer(self, data: bytes) -> int:
        """Store bytes beside the columns and return their index, which counts from 1."""
        return self._opened().add_global_buffer(data)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, or abort after an exception."""
        if error is None:
            self.close()
        elif self._writer is not None:
            self.closed = True
            self._writer.abort()

    def _open(self, arrow: pa.Schema) -> FileWriter | LegacyFileWriter:
        schema = schema_from_arrow(PreparedInput(arrow).schema)
        check_storable(schema, self._version)
        cache_bytes = DEFAULT_DATA_CACHE_BYTES
        if self._data_cache_bytes is not None:
            cache_bytes = self._data_cache_bytes // max(1, len(schema.fields))
        writer = open_file_writer(
            self._store.create(self._location),
            schema,
            version=self._version,
            max_page_bytes=self._max_page_bytes,
            data_cache_bytes=cache_bytes,
        )
        weakref.finalize(self, _give_up, writer, os.getpid())
        return writer

    def _opened(self) -> FileWriter | LegacyFileWriter:
        if self._writer is None:
            raise InvalidInputError("the file has no schema: none was given and no batch was written")
        return self._writer


def _give_up(writer: FileWriter | LegacyFileWriter, process: int) -> None:
    """Remove what a dropped writer leaves; a forked process leaves its parent's file alone."""
    if process == os.getpid():
        writer.abort()


def stable_version() -> str:
    """The format version that is written by default."""
    return DEFAULT_VERSION.value


def refuse_namespace(namespace_client: object | None, table_id: list[str] | None) -> None:
    """Raise ``NotSupportedError`` if any of the two is given."""
    if namespace_client is not None or table_id is not None:
        raise NotSupportedError("namespaces are not supported: namespace_client and table_id must be None")
