"""V20FieldWriter: the columns of one top-level field in a file of format 2.0.

::

    values                 one column                          pages when enough is collected
    list                   offsets column, item columns        the items are flushed with the offsets
    struct                 header column, member columns       the header gets its one page at the end
    blob                   one column of (position, size)      every value is a buffer of its own, in front of the pages

Source: ``lance.file.v2.ColumnMetadata``; behaviour of pylance 14.0.2, byte for byte for a single batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.v2_0.api import PageBuilder, is_variable_width
from lance_core.encodings.v2_0.list import encode_lists, list_offsets
from lance_core.encodings.v2_0.packed_struct import has_nulls, is_packable
from lance_core.encodings.v2_0.page_encoder import ValueOptions, encode_values
from lance_core.encodings.v2_0.strings import strings_from_array
from lance_core.encodings.v2_0.struct import encode_header
from lance_core.errors import NotSupportedError, UnsupportedVersionError
from lance_core.file.column_metadata import ColumnMetadata, Page
from lance_core.file.field_writer import FinishedColumn
from lance_core.file.v2_0.array_queue import ArrayQueue
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_core.file.field_writer import BufferSink
    from lance_core.proto import pb20
    from lance_core.schema.field import Field

__all__ = ["V20FieldWriter"]

_NULL_BLOB_POSITION: Final = 1


class V20FieldWriter:
    """See ``FieldWriter``.

    Args:
        field: the top-level field.
        cache_bytes: bytes beyond which a column writes a page.
        max_page_bytes: about the upper bound of a page that is made of one array.

    Raises:
        UnsupportedVersionError: a type that format 2.0 cannot hold; the message names the version that can.
        InvalidInputError: encoding metadata that makes no sense.
    """

    def __init__(self, field: Field, *, cache_bytes: int, max_page_bytes: int) -> None:
        """See the class."""
        self._column = _column_writer(field, cache_bytes, max_page_bytes, field.name)

    @property
    def num_bytes(self) -> int:
        """Bytes (in memory) that are collected and not yet written."""
        return self._column.num_bytes

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Check the rows of a batch, then write the values that lie outside the pages.

        Raises:
            UnsupportedVersionError: nulls that format 2.0 cannot hold; nothing was written.
        """
        self._column.check(array)
        self._column.write_blobs(array, sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Take the rows of a batch; writes the pages that are now due."""
        self._column.write(array, sink)

    def flush(self, sink: BufferSink) -> None:
        """Write what is collected."""
        self._column.flush(sink)

    def finish(self, sink: BufferSink) -> list[FinishedColumn]:
        """One column per value field, list and struct, depth first."""
        return list(self._column.finish())


class _ColumnWriter(Protocol):
    """The columns of one field at any depth."""

    @property
    def num_bytes(self) -> int:
        """Bytes that are collected."""

    def check(self, array: pa.Array) -> None:
        """Raise for values that the format cannot hold."""

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Write blobs."""

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Take rows."""

    def flush(self, sink: BufferSink) -> None:
        """Write what is collected."""

    def finish(self) -> Iterator[FinishedColumn]:
        """The columns."""


class _ValueWriter:
    """A field with one column."""

    def __init__(self, field: Field, cache_bytes: int, max_page_bytes: int, path: str) -> None:
        self._field = field
        self._path = path
        self._options = ValueOptions.of(field.metadata)
        self._queue = ArrayQueue(cache_bytes, max_page_bytes)
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        return self._queue.num_bytes

    def check(self, array: pa.Array) -> None:
        if self._field.is_packed and has_nulls(array):
            raise _needs_later(self._path, "a null packed struct")
        if self._field.is_packed:
            for index in range(array.type.num_fields):
                if has_nulls(array.field(index)):
                    raise _needs_later(self._path, "a null in a packed struct")

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        return

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        for part in self._queue.add(array):
            self._write_page(part, sink)

    def flush(self, sink: BufferSink) -> None:
        for part in self._queue.drain():
            self._write_page(part, sink)

    def finish(self) -> Iterator[FinishedColumn]:
        yield _finished(self._field, self._pages)

    def _write_page(self, array: pa.Array, sink: BufferSink) -> None:
        page = PageBuilder()
        encoding = encode_values(array, page, self._options)
        self._pages.append(_written(page, encoding, len(array), sink))


class _BlobWriter:
    """A field whose values are written one by one, outside the pages."""

    def __init__(self, field: Field, cache_bytes: int, max_page_bytes: int) -> None:
        self._field = field
        self._queue = ArrayQueue(cache_bytes, max_page_bytes)
        self._described: list[pa.Array] = []
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        return self._queue.num_bytes + sum(array.nbytes for array in self._described)

    def check(self, array: pa.Array) -> None:
        return

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
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
        for part in self._queue.add(self._described.pop(0)):
            self._write_page(part, sink)

    def flush(self, sink: BufferSink) -> None:
        for part in self._queue.drain():
            self._write_page(part, sink)

    def finish(self) -> Iterator[FinishedColumn]:
        yield _finished(self._field, self._pages, is_blob=True)

    def _write_page(self, array: pa.Array, sink: BufferSink) -> None:
        page = PageBuilder()
        encoding = encode_values(array, page, ValueOptions())
        self._pages.append(_written(page, encoding, len(array), sink))


class _StructWriter:
    """A struct: its members, and a header that counts rows."""

    def __init__(self, field: Field, members: list[_ColumnWriter], path: str) -> None:
        self._field = field
        self._members = members
        self._path = path
        self._num_rows = 0

    @property
    def num_bytes(self) -> int:
        return sum(member.num_bytes for member in self._members)

    def check(self, array: pa.Array) -> None:
        if array.null_count:
            raise _needs_later(self._path, "a null struct")
        for index, member in enumerate(self._members):
            member.check(array.field(index))

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        for index, member in enumerate(self._members):
            member.write_blobs(array.field(index), sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        self._num_rows += len(array)
        for index, member in enumerate(self._members):
            member.write(array.field(index), sink)

    def flush(self, sink: BufferSink) -> None:
        for member in self._members:
            member.flush(sink)

    def finish(self) -> Iterator[FinishedColumn]:
        yield _finished(
            self._field, [Page(buffers=(), length=self._num_rows, first_row=0, encoding=encode_header())]
        )
        for member in self._members:
            yield from member.finish()


class _ListWriter:
    """A list: its offsets, and the columns of its items."""

    def __init__(self, field: Field, item: _ColumnWriter, cache_bytes: int) -> None:
        self._field = field
        self._item = item
        self._limit = cache_bytes
        self._lengths: list[np.ndarray] = []
        self._masks: list[np.ndarray | None] = []
        self._own_bytes = 0
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        return self._own_bytes + self._item.num_bytes

    def check(self, array: pa.Array) -> None:
        self._item.check(_items(array))

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        self._item.write_blobs(_items(array), sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        self._lengths.append(list_offsets(array))
        self._masks.append(np.asarray(array.is_valid()) if array.null_count else None)
        self._own_bytes += self._lengths[-1].nbytes + (-(-len(array) // 8) if array.null_count else 0)
        is_due = self._own_bytes > self._limit
        if is_due:
            self._write_page(sink)
        self._item.write(_items(array), sink)
        if is_due:
            self._item.flush(sink)

    def flush(self, sink: BufferSink) -> None:
        if self._lengths:
            self._write_page(sink)
        self._item.flush(sink)

    def finish(self) -> Iterator[FinishedColumn]:
        yield _finished(self._field, self._pages)
        yield from self._item.finish()

    def _write_page(self, sink: BufferSink) -> None:
        offsets, validity = _concatenated(self._lengths, self._masks)
        self._lengths, self._masks, self._own_bytes = [], [], 0
        page = PageBuilder()
        encoding = encode_lists(offsets, validity, page)
        self._pages.append(_written(page, encoding, len(offsets) - 1, sink))


def _column_writer(field: Field, cache_bytes: int, max_page_bytes: int, path: str) -> _ColumnWriter:
    dtype = arrow_type(field)
    if field.is_blob:
        if not pa.types.is_large_binary(dtype):
            raise NotSupportedError(f"column {path!r} of type {dtype} cannot hold blobs in format 2.0: use large_binary")
        return _BlobWriter(field, cache_bytes, max_page_bytes)
    if field.is_packed:
        for member in field.children:
            if not is_packable(arrow_type(member)):
                raise _needs_later(f"{path}.{member.name}", f"a packed member of type {arrow_type(member)}")
        return _ValueWriter(field, cache_bytes, max_page_bytes, path)
    if field.is_struct:
        members = [_column_writer(child, cache_bytes, max_page_bytes, f"{path}.{child.name}") for child in field.children]
        return _StructWriter(field, members, path)
    if field.is_list:
        [item] = field.children
        return _ListWriter(field, _column_writer(item, cache_bytes, max_page_bytes, f"{path}.{item.name}"), cache_bytes)
    if field.is_map:
        raise UnsupportedVersionError(f"column {path!r}: maps need data storage version 2.2, this is 2.0", column=path)
    if field.is_structural_fixed_size_list:
        raise UnsupportedVersionError(
            f"column {path!r}: fixed-size lists of structs need data storage version 2.2, this is 2.0", column=path
        )
    return _ValueWriter(field, cache_bytes, max_page_bytes, path)


def _items(array: pa.Array) -> pa.Array:
    """The items of a list array from the first list to the last, those under null lists included."""
    offsets = list_offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    items = array.values.slice(first, last - first)
    return items.storage if isinstance(items, pa.ExtensionArray) else items


def _concatenated(
    offsets: list[np.ndarray], masks: list[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray | None]:
    """Offsets and masks of arrays that follow each other."""
    if len(offsets) == 1:
        return offsets[0], masks[0]
    parts = [np.zeros(1, np.int64)]
    total = 0
    for each in offsets:
        parts.append(each[1:].astype(np.int64) - int(each[0]) + total)
        total += int(each[-1]) - int(each[0])
    validity = None
    if any(mask is not None for mask in masks):
        validity = np.concatenate(
            [
                np.ones(len(each) - 1, np.bool_) if mask is None else mask
                for each, mask in zip(offsets, masks, strict=True)
            ]
        )
    return np.concatenate(parts), validity


def _written(page: PageBuilder, encoding: pb20.ArrayEncoding, num_rows: int, sink: BufferSink) -> Page:
    return Page(
        buffers=tuple(sink.write_aligned(buffer) for buffer in page.buffers),
        length=num_rows,
        first_row=0,
        encoding=encoding,
    )


def _finished(field: Field, pages: list[Page], *, is_blob: bool = False) -> FinishedColumn:
    return FinishedColumn(
        field_id=field.id, metadata=ColumnMetadata(pages=tuple(pages), is_blob=is_blob).serialize()
    )


def _needs_later(path: str, what: str) -> UnsupportedVersionError:
    return UnsupportedVersionError(
        f"column {path!r}: {what} needs data storage version 2.1 or 2.2, this is 2.0", column=path, version="2.0"
    )
