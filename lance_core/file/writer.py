"""FileWriter: record batches → columns → one data file of format 2.0, 2.1 or 2.2.

The container is the same for all of them: page buffers, global buffers, column metadata, tables, footer, in the order
of the byte map in :mod:`lance_core.file.layout`. What a column looks like is up to the format: every top-level field
has a :class:`~lance_core.file.field_writer.FieldWriter` of its version. Nothing but what these collect, a few pages
that are being encoded on other threads, and the page descriptions stays in memory.

:func:`open_file_writer` picks the writer for any version, 0.1 included.

**Source:** ``lance.file.v2.ColumnMetadata``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.buffers.alignment import BUFFER_ALIGNMENT, BUFFER_PAD_BYTE, padding_bytes
from lance_core.errors import InvalidInputError
from lance_core.file.batch_alignment import BatchAlignment
from lance_core.file.container_tail import container_tail
from lance_core.file.global_buffers import FileDescriptor
from lance_core.file.page_queue import PageQueue
from lance_core.file.structural.field_writer import StructuralFieldWriter
from lance_core.file.writer_state import WriterState
from lance_core.file.written_file import WrittenFile
from lance_core.io.byte_range import ByteRange
from lance_core.schema.blob_fields import complete_schema, file_schema
from lance_core.schema.storable import check_storable
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from lance_core.file.blob_options import BlobOptions
    from lance_core.file.field_writer import FieldWriter, FinishedColumn
    from lance_core.file.v0_1.writer import LegacyFileWriter
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema

__all__ = [
    "DEFAULT_DATA_CACHE_BYTES",
    "DEFAULT_MAX_PAGE_BYTES",
    "DEFAULT_MAX_ROWS_PER_GROUP",
    "FileWriter",
    "open_file_writer",
]

DEFAULT_DATA_CACHE_BYTES: Final = 8 * 1024 * 1024
"""Collected per leaf column before a page is written; less in files of more than 24 leaf columns."""

_MAX_COLLECTED_BYTES: Final = 192 * 1024 * 1024
"""Collected by all columns together, if nothing else is requested: files of many columns get smaller pages."""

DEFAULT_MAX_PAGE_BYTES: Final = 32 * 1024 * 1024
"""A larger array is cut into several pages."""

DEFAULT_MAX_ROWS_PER_GROUP: Final = 1024
"""Rows of a batch in a file of format 0.1."""

_PADDING: Final = bytes([BUFFER_PAD_BYTE]) * BUFFER_ALIGNMENT


class FileWriter(WriterState):
    """Writes one data file. Not safe for use by several threads at once.

    Leaving the ``with`` block without :meth:`finish` aborts, and so does a constructor or :meth:`finish` that fails.

    Args:
        stream: where the bytes go; committed by :meth:`finish`, aborted by :meth:`abort`.
        schema: the fields of the file, with their table-wide ids.
        version: format version.
        max_page_bytes: upper bound of a page's values in memory, unless a single row is larger.
        data_cache_bytes: what a column collects before it writes a page.
        blobs: where values of ``lance.blob.v2`` columns go; None = such columns are refused.
        is_of_table: the file is one of a table: its schema marks dictionary fields, as the reference does there.

    Raises:
        UnsupportedVersionError: the version is not written here, or cannot hold a type of the schema.
        InvalidInputError: a size is not positive.
        NotSupportedError: the schema has a type that cannot be stored.
    """

    def __init__(
        self,
        stream: WriteStream,
        schema: Schema,
        *,
        version: LanceFileVersion = DEFAULT_VERSION,
        max_page_bytes: int = DEFAULT_MAX_PAGE_BYTES,
        data_cache_bytes: int = DEFAULT_DATA_CACHE_BYTES,
        blobs: BlobOptions | None = None,
        is_of_table: bool = False,
    ) -> None:
        """See the class."""
        self._stream = stream
        self._is_of_table = is_of_table
        try:
            if max_page_bytes < 1 or data_cache_bytes < 0:
                raise InvalidInputError(f"page sizes must be positive: {max_page_bytes=}, {data_cache_bytes=}")
            self._version = version.require_writable()
            check_storable(schema, version)
            self._schema = schema
            self._alignment = BatchAlignment(complete_schema(schema))
            self._queue = PageQueue()
            if data_cache_bytes == DEFAULT_DATA_CACHE_BYTES:
                data_cache_bytes = min(data_cache_bytes, _MAX_COLLECTED_BYTES // max(1, len(schema.leaves())))
            self._columns = [
                _field_writer(top, self._version, data_cache_bytes, max_page_bytes, self._queue, blobs)
                for top in schema.fields
            ]
        except BaseException:
            stream.abort()
            raise
        self._global_buffers: list[ByteRange] = []
        self._num_rows = 0
        self._is_open = True

    @property
    def num_rows(self) -> int:
        """Rows taken so far."""
        return self._num_rows

    @property
    def num_bytes(self) -> int:
        """Bytes written so far and bytes (in memory) still collected: an estimate of the file's size."""
        collected = sum(column.num_bytes for column in self._columns)
        return self._stream.position + self._queue.num_bytes + collected

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows. The batch's memory is referenced until its pages are written.

        Raises:
            SchemaMismatchError: the batch does not fit the schema; nothing of it was taken.
            StorageError: the stream failed; the file can no longer be finished.
        """
        self._require_open()
        arrays = self._alignment.align(batch)
        if batch.num_rows == 0:
            return
        self._is_open = False
        for column, array in zip(self._columns, arrays, strict=True):
            column.write_blobs(array, self)
        for column, array in zip(self._columns, arrays, strict=True):
            column.write(array, self)
        self._num_rows += batch.num_rows
        self._is_open = True

    def add_global_buffer(self, data: bytes | pa.Buffer) -> int:
        """Store bytes beside the columns.

        Returns:
            The buffer's index; the first is 1, as index 0 is the file's own descriptor.
        """
        self._require_open()
        self._global_buffers.append(self.write_aligned(pa.py_buffer(data)))
        return len(self._global_buffers)

    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Add or replace an entry of the schema metadata in the file's descriptor."""
        self._require_open()
        self._schema = self._schema.with_metadata({**self._schema.metadata, key: value})

    def finish(self) -> WrittenFile:
        """Write what is collected, the metadata and the footer, and commit the stream.

        Raises:
            InvalidInputError: the writer is finished, aborted, or failed before.
            StorageError: the stream failed.
        """
        self._require_open()
        self._is_open = False
        try:
            return self._finished()
        except BaseException:
            self.abort()
            raise

    def _finished(self) -> WrittenFile:
        for column in self._columns:
            column.flush(self)
        self._queue.drain()
        self._queue.close()
        finished = [done for column in self._columns for done in column.finish(self)]
        self._write_tail(finished)
        num_bytes = self._stream.position
        self._stream.commit()
        return WrittenFile(
            num_rows=self._num_rows,
            num_bytes=num_bytes,
            field_ids=tuple(column.field_id for column in finished),
            column_indices=tuple(range(len(finished))),
        )

    def write_aligned(self, buffer: pa.Buffer) -> ByteRange:
        """Write a buffer and the padding behind it: for the field writers, see ``BufferSink``."""
        start = self._stream.position
        if buffer.size:
            self._stream.write(buffer)
            if padding := padding_bytes(buffer.size, BUFFER_ALIGNMENT):
                self._stream.write(_PADDING[:padding])
        return ByteRange(start, start + buffer.size)

    def abort(self) -> None:
        """Abort: remove what was written. Safe after any failure and when repeated."""
        self._is_open = False
        self._columns = []
        self._queue.close()
        self._stream.abort()

    def _write_tail(self, finished: list[FinishedColumn]) -> None:
        descriptor = FileDescriptor(schema=file_schema(self._schema), num_rows=self._num_rows)
        parts = (
            descriptor.serialize(marks_dictionaries=self._is_of_table),
            [column.metadata for column in finished],
            self._global_buffers,
            self._version,
        )
        self._stream.write(container_tail(self._stream.position, *parts))


def open_file_writer(
    stream: WriteStream,
    schema: Schema,
    *,
    version: LanceFileVersion = DEFAULT_VERSION,
    max_page_bytes: int = DEFAULT_MAX_PAGE_BYTES,
    data_cache_bytes: int = DEFAULT_DATA_CACHE_BYTES,
    max_rows_per_group: int = DEFAULT_MAX_ROWS_PER_GROUP,
    blobs: BlobOptions | None = None,
) -> FileWriter | LegacyFileWriter:
    """The writer of a data file of any version.

    Args:
        stream: as for :class:`FileWriter`.
        schema: as for :class:`FileWriter`.
        version: format version.
        max_page_bytes: as for :class:`FileWriter`; without effect in 0.1.
        data_cache_bytes: as for :class:`FileWriter`; without effect in 0.1.
        max_rows_per_group: rows of a batch in 0.1; without effect in other versions.
        blobs: as for :class:`FileWriter`.

    Raises:
        UnsupportedVersionError: the version is not written here, or cannot hold a type of the schema.
        InvalidInputError: a size is not positive.
        NotSupportedError: the schema has a type that the version cannot hold.
    """
    if version is LanceFileVersion.V0_1:
        from lance_core.file.v0_1.writer import LegacyFileWriter

        check_storable(schema, version)
        return LegacyFileWriter(stream, schema, max_rows_per_group=max_rows_per_group)
    return FileWriter(
        stream,
        schema,
        version=version,
        max_page_bytes=max_page_bytes,
        data_cache_bytes=data_cache_bytes,
        blobs=blobs,
    )


def _field_writer(
    field: Field,
    version: LanceFileVersion,
    cache_bytes: int,
    max_page_bytes: int,
    queue: PageQueue,
    blobs: BlobOptions | None,
) -> FieldWriter:
    if version is LanceFileVersion.V2_0:
        from lance_core.file.v2_0.field_writer import V20FieldWriter

        return V20FieldWriter(field, cache_bytes=cache_bytes, max_page_bytes=max_page_bytes)
    limit = min(cache_bytes * len(field.leaves()), max_page_bytes)
    return StructuralFieldWriter(field, version, limit=limit, max_page_bytes=max_page_bytes, queue=queue, blobs=blobs)
