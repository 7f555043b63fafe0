"""ListWriter: writes a list as a column of offsets and the columns of its items.

Offsets are collected together with the validity of the lists. They are written at the same time as the items, so that
a page of offsets and the pages of its items end at the same row.

Source: ``lance.encodings.List``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import PageBuilder
from lance_core.encodings.v2_0.list import encode_lists, list_offsets
from lance_core.file.v2_0.column_writers import finished_column, written_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lance_core.file.column_metadata import Page
    from lance_core.file.field_writer import BufferSink, FinishedColumn
    from lance_core.file.v2_0.column_writers import ColumnWriter
    from lance_core.schema.field import Field

__all__ = ["ListWriter"]

_Mask: TypeAlias = "NDArray[np.bool_] | None"


class ListWriter:
    """Writes a list: its offsets, and the columns of its items."""

    def __init__(self, field: Field, item: ColumnWriter, cache_bytes: int) -> None:
        self._field = field
        self._item = item
        self._limit = cache_bytes
        self._lengths: list[NDArray[Any]] = []
        self._masks: list[_Mask] = []
        self._own_bytes = 0
        self._pages: list[Page] = []

    @property
    def num_bytes(self) -> int:
        """See ``ColumnWriter``."""
        return self._own_bytes + self._item.num_bytes

    def check(self, array: pa.Array) -> None:
        """See ``ColumnWriter``."""
        self._item.check(_items(array))

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
        self._item.write_blobs(_items(array), sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """See ``ColumnWriter``."""
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
        """See ``ColumnWriter``."""
        if self._lengths:
            self._write_page(sink)
        self._item.flush(sink)

    def finish(self) -> Iterator[FinishedColumn]:
        """See ``ColumnWriter``."""
        yield finished_column(self._field, self._pages)
        yield from self._item.finish()

    def _write_page(self, sink: BufferSink) -> None:
        offsets, validity = _concatenated(self._lengths, self._masks)
        self._lengths, self._masks, self._own_bytes = [], [], 0
        page = PageBuilder()
        encoding = encode_lists(offsets, validity, page)
        self._pages.append(written_page(page, encoding, len(offsets) - 1, sink))


def _items(array: pa.Array) -> pa.Array:
    """Return the items of a list array from the first list to the last, including those under null lists."""
    offsets = list_offsets(array)
    first, last = int(offsets[0]), int(offsets[-1])
    items = array.values.slice(first, last - first)
    return items.storage if isinstance(items, pa.ExtensionArray) else items


def _concatenated(offsets: list[NDArray[Any]], masks: list[_Mask]) -> tuple[NDArray[Any], _Mask]:
    """Concatenate the offsets and masks of consecutive arrays."""
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
