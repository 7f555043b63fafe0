"""Writers for the columns of one field in a file in format 2.0: collect arrays, encode pages, record page locations.

::

    ValueWriter     one column                          writes a page when enough data is collected
    BlobWriter      one column of (position, size)      writes every value to its own buffer, before the pages
    StructWriter    header column, member columns       writes the header's single page at the end
    ListWriter      offsets column, item columns        see list_writer.py

Source: ``lance.file.v2.ColumnMetadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import PageBuilder
from lance_core.encodings.v2_0.packed_struct import has_nulls
from lance_core.encodings.v2_0.page_encoder import ValueOptions, encode_values
from lance_core.encodings.v2_0.strings import strings_from_array
from lance_core.encodings.v2_0.struct import encode_header
from lance_core.errors import UnsupportedVersionError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.field_writer import FinishedColumn
from lance_core.file.v2_0.array_queue import ArrayQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_core.file.field_writer import BufferSink
    from lance_core.proto import pb20
    from lance_core.schema.field import Field

__all__ = [
    "BlobWriter",
    "ColumnWriter",
    "StructWriter",
    "ValueWriter",
    "finished_column",
    "written_page",
]

_NULL_BLOB_POSITION: Final = 1


class ColumnWriter(Protocol):
    """Writes the columns of one field at any nesting depth."""

    @property
    def num_bytes(self) -> int:
        """Number of bytes that have been collected but not yet written."""

    def check(self, array: pa.Array) -> None:
        """Check that the format supports all values of an array.

        Raises:
            UnsupportedVersionError: a value needs a later format.
        """

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Write the values that are stored outside the pages."""

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Add rows and write the pages that are ready."""

    def flush(self, sink: BufferSink) -> None:
        """Write the collected data."""

    def finish(self) -> Iterator[FinishedColumn]:
        """Yield the completed columns."""


class ValueWriter:
    """Writes a field with one column."""

    def __init__(self, field: Field, cache_bytes: int, max_page_bytes: int, path: str) -> None:
        self._field = field
        self._path = path
        self._options = ValueOptions.of(field.metadata)
        self._queue = ArrayQueue(cache_bytes, max_page_bytes)
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        """See ``ColumnWriter``."""
        return self._queue.num_bytes

    def check(self, array: pa.Array) -> None:
        """See ``ColumnWriter``."""
        if self._field.is_packed and has_nulls(array):
            raise _needs_later(self._path, "a null packed struct")
        if self._field.is_packed:
            for index in range(array.type.num_fields):
                if has_nulls(array.field(index)):
                    raise UnsupportedVersionError(
                        f"column {self._path!r}: format 2.0 cannot store nulls in the members of a packed struct",
                        column=self._path,
                        version="2.0",
                    )

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        return

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for part in self._queue.add(array):
            self._write_page(part, sink)

    def flush(self, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for part in self._queue.drain():
            self._write_page(part, sink)

    def finish(self) -> Iterator[FinishedColumn]:
        """See ``ColumnWriter``."""
        yield finished_column(self._field, self._pages)

    def _write_page(self, array: pa.Array, sink: BufferSink) -> None:
        page = PageBuilder()
        encoding = encode_values(array, page, self._options)
        self._pages.append(written_page(page, encoding, len(array), sink))


class BlobWriter:
    """Writes a field whose values are stored individually, outside the pages."""

    def __init__(self, field: Field, cache_bytes: int, max_page_bytes: int) -> None:
        self._field = field
        self._queue = ArrayQueue(cache_bytes, max_page_bytes)
        self._described: list[pa.Array] = []
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        """See ``ColumnWriter``."""
        return self._queue.num_bytes + sum(int(array.nbytes) for array in self._described)

    def check(self, array: pa.Array) -> None:
        """See ``ColumnWriter``."""
        return

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        strings = strings_from_array(array)
        starts = strings.offsets[:-1].astype(np.int64)
        sizes = np.diff(strings.offsets).astype(np.uint64)
        positions = np.zeros(len(array), np.uint64)
        if strings.validity is not None:
            sizes[~strings.validity] = 0
            positions[~strings.validity] = _NULL_BLOB_POSITION
        stored = np.flatnonzero(sizes)
        placed = [
            sink.write_aligned(strings.data.slice(start, size)).start
            for start, size in zip(starts[stored].tolist(), sizes[stored].tolist(), strict=True)
        ]
        positions[stored] = placed
        members = [pa.array(positions), pa.array(sizes)]
        self._described.append(pa.StructArray.from_arrays(members, names=["position", "size"]))

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for part in self._queue.add(self._described.pop(0)):
            self._write_page(part, sink)

    def flush(self, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for part in self._queue.drain():
            self._write_page(part, sink)

    def finish(self) -> Iterator[FinishedColumn]:
        """See ``ColumnWriter``."""
        yield finished_column(self._field, self._pages, is_blob=True)

    def _write_page(self, array: pa.Array, sink: BufferSink) -> None:
        page = PageBuilder()
        encoding = encode_values(array, page, ValueOptions())
        self._pages.append(written_page(page, encoding, len(array), sink))


class StructWriter:
    """Writes a struct: its members, and a header that records the number of rows."""

    def __init__(self, field: Field, members: list[ColumnWriter], path: str) -> None:
        self._field = field
        self._members = members
        self._path = path
        self._num_rows = 0

    @property
    def num_bytes(self) -> int:
        """See ``ColumnWriter``."""
        return sum(member.num_bytes for member in self._members)

    def check(self, array: pa.Array) -> None:
        """See ``ColumnWriter``."""
        if array.null_count:
            raise _needs_later(self._path, "a null struct")
        for index, member in enumerate(self._members):
            member.check(array.field(index))

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for index, member in enumerate(self._members):
            member.write_blobs(array.field(index), sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        self._num_rows += len(array)
        for index, member in enumerate(self._members):
            member.write(array.field(index), sink)

    def flush(self, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        for member in self._members:
            member.flush(sink)

    def finish(self) -> Iterator[FinishedColumn]:
        """See ``ColumnWriter``."""
        yield finished_column(
            self._field, [Page(buffers=(), length=self._num_rows, first_row=0, encoding=encode_header())]
        )
        for member in self._members:
            yield from member.finish()


def written_page(page: PageBuilder, encoding: pb20.ArrayEncoding, num_rows: int, sink: BufferSink) -> Page:
    """Write the buffers of a page and return the ``Page`` that describes it."""
    return Page(
        buffers=tuple(sink.write_aligned(buffer) for buffer in page.buffers),
        length=num_rows,
        first_row=0,
        encoding=encoding,
    )


def finished_column(field: Field, pages: list[Page], *, is_blob: bool = False) -> FinishedColumn:
    """Serialize a completed column."""
    return FinishedColumn(field_id=field.id, metadata=ColumnMetadata(pages=tuple(pages), is_blob=is_blob).serialize())


def _needs_later(path: str, what: str) -> UnsupportedVersionError:
    """Return an error for values that only later formats support."""
    return UnsupportedVersionError(
        f"column {path!r}: {what} needs data storage version 2.1 or 2.2, found 2.0", column=path, version="2.0"
    )
