"""FileWriter: writes record batches to a data file in format 2.0, 2.1, or 2.2.

The container is the same for all of these formats: page buffers, global buffers, column metadata, tables, and footer,
in the order of the byte map in :mod:`lance_core.file.layout`. The format determines the columns: every top-level field
has a :class:`~lance_core.file.field_writer.FieldWriter` for the format. Only the data collected by the field writers, a
few pages that are being encoded on other threads, and the page descriptions are kept in memory.

:func:`lance_core.file.families.open_writer` creates the writer for any version, including 0.1.

**Source:** ``lance.file.v2.ColumnMetadata``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.buffers.alignment import BUFFER_ALIGNMENT, BUFFER_PAD_BYTE, padding_bytes
from lance_core.file.batch_alignment import BatchAlignment
from lance_core.file.data_file_writer import DataFileWriter, WrittenFile
from lance_core.file.field_writer import FileInProgress
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, serialize_table
from lance_core.file.page_queue import PageQueue
from lance_core.io.byte_range import ByteRange
from lance_core.schema.blob_fields import complete_schema, file_schema
from lance_core.schema.storable import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.file.field_writer import FieldWriters, FinishedColumn
    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileWriter"]

_PADDING: Final = bytes([BUFFER_PAD_BYTE]) * BUFFER_ALIGNMENT


class FileWriter(DataFileWriter):
    """Writes one data file.

    Leaving the ``with`` block without calling :meth:`finish` aborts the write. A failed :meth:`finish` also aborts it.

    Args:
        stream: output stream; committed by :meth:`finish`, aborted by :meth:`abort`.
        schema: the fields of the file, with their table-wide ids.
        config: write settings.
        field_writers: creates the field writer for each top-level field.
        table: the table that the file is written for; None for a standalone file. For a table, the file's schema marks
            dictionary fields, as in pylance, and values of ``lance.blob.v2`` columns can be stored.

    Raises:
        UnsupportedVersionError: the format version does not support a type in the schema.
        NotSupportedError: a type in the schema cannot be stored.
    """

    def __init__(
        self,
        stream: WriteStream,
        schema: Schema,
        config: WriteConfig,
        field_writers: FieldWriters,
        table: TableContext | None = None,
    ) -> None:
        """See the class docstring."""
        self._stream = stream
        self._is_of_table = table is not None
        self._version = config.version
        check_storable(schema, config.version)
        self._schema = schema
        self._alignment = BatchAlignment(complete_schema(schema))
        self._queue = PageQueue()
        cache_bytes = config.column_cache_bytes(schema)
        file = FileInProgress(config=config, cache_bytes=cache_bytes, queue=self._queue, table=table)
        self._columns = [field_writers(top, file) for top in schema.fields]
        self._global_buffers: list[ByteRange] = []
        self._num_rows = 0
        self._is_open = True

    @property
    def num_rows(self) -> int:
        """Number of rows accepted so far."""
        return self._num_rows

    @property
    def num_bytes(self) -> int:
        """Estimated file size in bytes: the bytes written so far plus the in-memory size of the collected rows."""
        collected = sum(column.num_bytes for column in self._columns)
        return self._stream.position + self._queue.num_bytes + collected

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows. The batch is kept in memory until its pages are written.

        Raises:
            SchemaMismatchError: the batch does not match the schema; none of its rows was added.
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
        """Store bytes in a new global buffer.

        Returns:
            The index of the buffer, at least 1, because index 0 is the file descriptor.
        """
        self._require_open()
        self._global_buffers.append(self.write_aligned(pa.py_buffer(data)))
        return len(self._global_buffers)

    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Add or replace an entry in the schema metadata of the file."""
        self._require_open()
        self._schema = self._schema.with_metadata({**self._schema.metadata, key: value})

    def finish(self, *, durable: bool = True) -> WrittenFile:
        """Write the collected data, the metadata, and the footer, and commit the stream.

        Raises:
            InvalidInputError: the writer was finished or aborted, or an earlier write failed.
            StorageError: the stream failed.
        """
        self._require_open()
        self._is_open = False
        try:
            return self._finished(durable=durable)
        except BaseException:
            self.abort()
            raise

    def _finished(self, *, durable: bool) -> WrittenFile:
        for column in self._columns:
            column.flush(self)
        self._queue.drain()
        self._queue.close()
        finished = [done for column in self._columns for done in column.finish(self)]
        self._write_tail(finished)
        num_bytes = self._stream.position
        self._stream.commit(durable=durable)
        return WrittenFile(
            num_rows=self._num_rows,
            num_bytes=num_bytes,
            field_ids=tuple(column.field_id for column in finished),
            column_indices=tuple(range(len(finished))),
        )

    def write_aligned(self, buffer: pa.Buffer) -> ByteRange:
        """Write a buffer followed by padding, for the field writers; see ``BufferSink``."""
        start = self._stream.position
        if buffer.size:
            self._stream.write(buffer)
            if padding := padding_bytes(buffer.size, BUFFER_ALIGNMENT):
                self._stream.write(_PADDING[:padding])
        return ByteRange(start, start + buffer.size)

    def abort(self) -> None:
        """Abort the write and discard the unfinished file. Safe to call after any failure, and more than once."""
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
        self._stream.write(_container_tail(self._stream.position, *parts))


def _container_tail(
    start: int,
    descriptor: bytes,
    metadata: Sequence[bytes],
    global_buffers: Sequence[ByteRange],
    version: LanceFileVersion,
) -> bytes:
    """Serialize the file descriptor, the column metadata, both tables, and the footer.

    Args:
        start: position in the file at which the result will be written.
        descriptor: the file descriptor, which becomes global buffer 0.
        metadata: the serialized metadata of every column.
        global_buffers: locations of the other global buffers.
        version: format version of the file.
    """
    metadata_start = start + len(descriptor)
    columns = list(_back_to_back(metadata_start, metadata))
    column_table_start = columns[-1].stop if columns else metadata_start
    column_table = serialize_table(columns)
    buffer_table = serialize_table([ByteRange(start, metadata_start), *global_buffers])
    footer = Footer(
        column_metadata_offset=metadata_start,
        column_table_offset=column_table_start,
        global_buffer_table_offset=column_table_start + len(column_table),
        num_global_buffers=1 + len(global_buffers),
        num_columns=len(columns),
        version=version,
    )
    return b"".join([descriptor, *metadata, column_table, buffer_table, footer.serialize()])


def _back_to_back(start: int, parts: Sequence[bytes]) -> Iterator[ByteRange]:
    for part in parts:
        yield ByteRange(start, start + len(part))
        start += len(part)
