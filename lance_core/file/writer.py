"""FileWriter: record batches → pages → one data file.

Arrays of a column are collected until they hold ``data_cache_bytes``, then become one page per leaf. A single array
that is larger than that is not copied together with others: it is cut on row boundaries into pages of at most
``max_page_bytes``. Page buffers go to the stream as the encoder hands them out. Nothing but the current collections
and the page descriptions stays in memory; sizes are those of the referenced slices, whatever lies behind them.

The parts are written in the order of the byte map in :mod:`lance_core.file.layout`.

**Source:** ``lance.file.v2.ColumnMetadata``; page sizes as pylance 14.0.2 cuts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from lance_core.buffers.alignment import BUFFER_ALIGNMENT, BUFFER_PAD_BYTE, padding_bytes
from lance_core.encodings.page_encoder import encode_pages
from lance_core.errors import InvalidInputError
from lance_core.file.batch_alignment import BatchAlignment
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, serialize_table
from lance_core.io.byte_range import ByteRange
from lance_core.versions import DEFAULT_VERSION, LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from lance_core.encodings.page_encoder import EncodedPage
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema

__all__ = ["DEFAULT_DATA_CACHE_BYTES", "DEFAULT_MAX_PAGE_BYTES", "FileWriter", "WrittenFile"]

DEFAULT_DATA_CACHE_BYTES: Final = 8 * 1024 * 1024
"""Collected per leaf column before a page is written."""

DEFAULT_MAX_PAGE_BYTES: Final = 32 * 1024 * 1024
"""A larger array is cut into several pages."""

_MAX_PAGE_ROWS: Final = 4 * 1024 * 1024
"""Bounds the levels of columns whose values need few or no bytes."""

_MAX_SMALL_ARRAYS: Final = 1024
"""Batches of a few rows are joined early, as an array object costs more memory than they do."""

_PADDING: Final = bytes([BUFFER_PAD_BYTE]) * BUFFER_ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """What a finished file holds, as a manifest records it.

    Attributes:
        num_rows: rows of the file.
        num_bytes: size of the file.
        field_ids: ids of the fields that own a column.
        column_indices: the column of each of them.
    """

    num_rows: int
    num_bytes: int
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]


class FileWriter:
    """Writes one data file. Not safe for use by several threads at once.

    Leaving the ``with`` block without :meth:`finish` aborts.

    Args:
        stream: where the bytes go; committed by :meth:`finish`, aborted by :meth:`abort`.
        schema: the fields of the file, with their table-wide ids.
        version: format version.
        max_page_bytes: upper bound of a page's values in memory, unless a single row is larger.
        data_cache_bytes: what a leaf column collects before it writes a page.

    Raises:
        UnsupportedVersionError: the version is not written here.
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
    ) -> None:
        """See the class."""
        if max_page_bytes < 1 or data_cache_bytes < 0:
            raise InvalidInputError(f"page sizes must be positive: {max_page_bytes=}, {data_cache_bytes=}")
        self._version = version.require_writable()
        self._stream = stream
        self._schema = schema
        self._alignment = BatchAlignment(schema)
        self._max_page_bytes = max_page_bytes
        self._columns = [
            _TopLevelColumn(top, min(data_cache_bytes * len(top.leaves()), max_page_bytes)) for top in schema.fields
        ]
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
        return self._stream.position + sum(column.num_bytes for column in self._columns)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows. The batch's memory is referenced until its pages are written.

        Raises:
            SchemaMismatchError: the batch does not fit the schema; nothing of it was taken.
            StorageError: the stream failed; the file cannot be finished any more.
        """
        self._require_open()
        arrays = self._alignment.align(batch)
        if batch.num_rows == 0:
            return
        self._is_open = False
        for column, array in zip(self._columns, arrays, strict=True):
            for start, part in column.add(array, self._max_page_bytes):
                self._write_pages(column, start, part)
        self._num_rows += batch.num_rows
        self._is_open = True

    def add_global_buffer(self, data: bytes | pa.Buffer) -> int:
        """Store bytes beside the columns.

        Returns:
            The buffer's index; the first is 1, as index 0 is the file's own descriptor.
        """
        self._require_open()
        self._global_buffers.append(self._write_aligned(pa.py_buffer(data)))
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
        for column in self._columns:
            for start, part in column.drain(self._max_page_bytes):
                self._write_pages(column, start, part)
        self._write_tail()
        num_bytes = self._stream.position
        self._stream.commit()
        leaves = self._schema.leaves()
        return WrittenFile(
            num_rows=self._num_rows,
            num_bytes=num_bytes,
            field_ids=tuple(leaf.id for leaf in leaves),
            column_indices=tuple(range(len(leaves))),
        )

    def abort(self) -> None:
        """Give up: remove what was written. Safe after any failure, and twice."""
        self._is_open = False
        self._columns = []
        self._stream.abort()

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort, which does nothing after :meth:`finish`."""
        self.abort()

    def _require_open(self) -> None:
        if not self._is_open:
            raise InvalidInputError("the file writer is finished, aborted, or failed before")

    def _write_pages(self, column: _TopLevelColumn, first_row: int, array: pa.Array) -> None:
        """Encode rows of one top-level field and write one page of every leaf."""
        encoded = encode_pages(column.field, array, version=self._version, multi_page=True)
        for pages, page in zip(column.pages, encoded, strict=True):
            pages.append(self._write_page(page, first_row))

    def _write_page(self, page: EncodedPage, first_row: int) -> Page:
        return Page(
            buffers=tuple(self._write_aligned(buffer) for buffer in page.buffers),
            length=page.num_rows,
            first_row=first_row,
            layout=page.layout,
        )

    def _write_aligned(self, buffer: pa.Buffer) -> ByteRange:
        start = self._stream.position
        if buffer.size:
            self._stream.write(buffer)
            padding = padding_bytes(buffer.size, BUFFER_ALIGNMENT)
            if padding:
                self._stream.write(_PADDING[:padding])
        return ByteRange(start, start + buffer.size)

    def _write_tail(self) -> None:
        descriptor = FileDescriptor(schema=self._schema, num_rows=self._num_rows).serialize()
        metadata = [
            ColumnMetadata(pages=tuple(pages)).serialize() for column in self._columns for pages in column.pages
        ]
        descriptor_start = self._stream.position
        metadata_start = descriptor_start + len(descriptor)
        columns = list(_back_to_back(metadata_start, metadata))
        column_table_start = columns[-1].stop if columns else metadata_start
        column_table = serialize_table(columns)
        buffer_table = serialize_table([ByteRange(descriptor_start, metadata_start), *self._global_buffers])
        footer = Footer(
            column_metadata_offset=metadata_start,
            column_table_offset=column_table_start,
            global_buffer_table_offset=column_table_start + len(column_table),
            num_global_buffers=1 + len(self._global_buffers),
            num_columns=len(columns),
            version=self._version,
        )
        self._stream.write(b"".join([descriptor, *metadata, column_table, buffer_table, footer.serialize()]))


class _TopLevelColumn:
    """Collected arrays of one top-level field and the pages its leaves have so far."""

    __slots__ = ("_arrays", "_limit", "_next_row", "_num_small", "field", "num_bytes", "num_rows", "pages")

    def __init__(self, field: Field, limit: int) -> None:
        self.field = field
        self.pages: list[list[Page]] = [[] for _ in field.leaves()]
        self.num_bytes = 0
        self.num_rows = 0
        self._limit = limit
        self._arrays: list[pa.Array] = []
        self._num_small = 0
        self._next_row = 0

    def add(self, array: pa.Array, max_page_bytes: int) -> Iterator[tuple[int, pa.Array]]:
        """Take an array; yield (first row, array) for every page that is now due."""
        array_bytes = array.nbytes
        if array_bytes >= self._limit:
            yield from self.drain(max_page_bytes)
        self._arrays.append(array)
        self.num_bytes += array_bytes
        self.num_rows += len(array)
        if self.num_bytes >= self._limit or self.num_rows >= _MAX_PAGE_ROWS:
            yield from self.drain(max_page_bytes)
            return
        self._num_small += 1
        if self._num_small == _MAX_SMALL_ARRAYS:
            self._arrays[-_MAX_SMALL_ARRAYS:] = _joined(self._arrays[-_MAX_SMALL_ARRAYS:])
            self._num_small = 0

    def drain(self, max_page_bytes: int) -> Iterator[tuple[int, pa.Array]]:
        """Yield (first row, array) for every page of what is collected, which is then empty."""
        arrays, self._arrays = self._arrays, []
        self.num_bytes = self.num_rows = self._num_small = 0
        for whole in _joined(arrays):
            for part in _cut(whole, max_page_bytes):
                yield self._next_row, part
                self._next_row += len(part)


def _joined(arrays: list[pa.Array]) -> list[pa.Array]:
    """One array of all of them; the arrays themselves where Arrow cannot join them."""
    if len(arrays) < 2:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # Dictionaries whose union has more values than the index type can number.
        return arrays


def _cut(array: pa.Array, max_bytes: int) -> Iterator[pa.Array]:
    """Cut on row boundaries so that every part holds at most ``max_bytes``, single rows excepted."""
    num_bytes = array.nbytes
    num_parts = max(-(-num_bytes // max_bytes), -(-len(array) // _MAX_PAGE_ROWS))
    if num_parts <= 1 or len(array) <= 1:
        yield array
        return
    step = -(-len(array) // num_parts)
    for start in range(0, len(array), step):
        # Rows differ in size: a part may still be too large.
        yield from _cut(array.slice(start, step), max_bytes)


def _back_to_back(start: int, parts: list[bytes]) -> Iterator[ByteRange]:
    for part in parts:
        yield ByteRange(start, start + len(part))
        start += len(part)
