"""PageWriter: encodes the pages of many batches, depth first, using one numpy or Arrow call for all batches.

A page cannot represent nulls. The value of a null is omitted or replaced with zero, so it is read back as a zero or
empty value, or as null for types in which an empty value means null.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import pack_mask, unpack_bitmap
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.leaf_arrays import is_variable_width, validity_of
from lance_core.encodings.v0_1.binary import OFFSET_BYTES, encode_binary
from lance_core.encodings.v0_1.grouped_statistics import grouped_statistics
from lance_core.encodings.v0_1.list_offsets import encode_lists
from lance_core.encodings.v0_1.plain import encode_plain, plain_layout
from lance_core.encodings.v0_1.statistics import PageStatistics, has_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lance_core.schema.field import Field

__all__ = ["PageWriter", "fields_with_statistics"]


_Offset = TypeVar("_Offset", np.int32, np.int64)

_NO_BYTES: Final = np.empty(0, np.uint8)
_MOST_BYTES: Final = 16
"""Maximum size in bytes of one fixed-width value, or of two offsets."""


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages of one field, one page per group, before their positions in the file are known.

    Attributes:
        field: the field that owns the pages.
        lengths: (num_groups,) length of each page as recorded in the page table.
        data: bytes of each page; for binary columns, the bytes of the values.
        bounds: (num_groups + 1,) row boundaries of the pages.
        offsets: for binary columns, (num_rows + 1,) int64 positions in the data; None for others.
    """

    field: Field
    lengths: NDArray[np.int64]
    data: Segments
    bounds: NDArray[np.int64]
    offsets: NDArray[np.int64] | None = None

    def sizes(self) -> NDArray[np.int64]:
        """Return the size of each page in bytes."""
        if self.offsets is None:
            return self.data.sizes
        sizes: NDArray[np.int64] = self.data.sizes + OFFSET_BYTES * (np.diff(self.bounds) + 1)
        return sizes

    def segments(self, positions: NDArray[np.int64]) -> list[Segments]:
        """Return the bytes of the pages, given their start positions in the file."""
        if self.offsets is None:
            return [self.data]
        words = _each_with_its_end(self.offsets, self.bounds, positions)
        return [self.data, Segments.back_to_back(words.view(np.uint8), OFFSET_BYTES * (np.diff(self.bounds) + 1))]


class PageWriter:
    """Encodes pages and collects their bytes and positions; the caller writes the bytes to the file.

    Args:
        position: position of the next byte in the file.

    Attributes:
        position: position of the next byte in the file.
        parts: bytes that have not been written yet.
        entries: maps field ids to arrays of (position, length), each with shape (num_pages, 2), in batch order.
        statistics: maps field ids to the statistics of their pages, in batch order.
    """

    def __init__(self, position: int) -> None:
        """Create a writer without pages."""
        self.position = position
        self.parts: list[NDArray[np.uint8]] = []
        self.entries: dict[int, list[NDArray[np.int64]]] = {}
        self.statistics: dict[int, list[PageStatistics]] = {}

    def write(
        self,
        fields: Sequence[Field],
        arrays: Sequence[pa.Array],
        bounds: NDArray[np.int64],
        *,
        with_statistics: bool = False,
    ) -> None:
        """Add the pages of top-level fields and their descendants, one row group after another.

        Args:
            fields: the top-level fields.
            arrays: the rows of the fields, with dictionaries replaced by keys.
            bounds: row boundaries of the groups, shape (num_groups + 1,), ascending from 0 to the number of rows; no
                group is empty.
            with_statistics: whether to collect statistics for the pages of the fields and of their struct members.
        """
        found = [
            pages
            for field, array in zip(fields, arrays, strict=True)
            for pages in self._pages(field, array, None, bounds, with_statistics)
        ]
        if not found:
            return
        sizes = np.stack([pages.sizes() for pages in found], axis=1)
        stops = self.position + np.cumsum(sizes).reshape(sizes.shape)
        columns: list[Segments] = []
        for pages, positions in zip(found, (stops - sizes).T, strict=True):
            # The position of a binary page is the position of its offsets, after the values.
            starts = positions if pages.offsets is None else positions + pages.data.sizes
            self.entries.setdefault(pages.field.id, []).append(np.stack([starts, pages.lengths], axis=1))
            columns += pages.segments(positions)
        columns = [column for column in columns if column.num_bytes]
        if len(columns) == 1:
            self.append(columns[0].gather())
        elif columns:
            self.append(interleave(columns)[0])

    def write_values(self, values: pa.Array) -> int:
        """Add a page that does not belong to any field, such as the values of a dictionary, and return its position."""
        validity = validity_of(values)
        if is_variable_width(values.type):
            data, offsets = encode_binary(values, validity, self.position)
            self.append(data)
            return self.append(offsets)
        return self.append(encode_plain(values, validity))

    def append(self, data: NDArray[np.generic]) -> int:
        """Add bytes without copying them, and return their position."""
        position = self.position
        if data.size:
            self.parts.append(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
            self.position += data.nbytes
        return position

    def _pages(
        self,
        field: Field,
        array: pa.Array,
        visible: NDArray[np.bool_] | None,
        bounds: NDArray[np.int64],
        with_statistics: bool,
    ) -> Iterator[_Pages]:
        validity = validity_of(array)
        if visible is not None:
            validity = visible if validity is None else validity & visible
        num_rows = np.diff(bounds)
        if field.is_struct:
            for index, child in enumerate(field.children):
                yield from self._pages(child, array.field(index), validity, bounds, with_statistics)
            return
        if field.is_list:
            offsets, items = encode_lists(array, validity)
            item_bounds = offsets[bounds].astype(np.int64)
            words = _each_with_its_end(offsets, bounds, np.zeros(len(num_rows), offsets.dtype))
            sizes = words.itemsize * (num_rows + 1)
            yield _Pages(field, num_rows + 1, Segments.back_to_back(words.view(np.uint8), sizes), bounds)
            yield from self._pages(field.children[0], items, None, item_bounds, False)
            return
        if pa.types.is_null(array.type):
            yield _Pages(field, num_rows, Segments.back_to_back(_NO_BYTES, np.zeros_like(num_rows)), bounds)
            return
        if with_statistics and not field.is_dictionary and has_statistics(array.type):
            # Bounds describe the values as read back: below a null struct these are zeros, not nulls.
            shown = array if visible is None else _zeroed(array, visible)
            found = grouped_statistics(shown, validity_of(shown), bounds)
            self.statistics.setdefault(field.id, []).extend(found)
        if is_variable_width(array.type):
            data, offsets = encode_binary(array, validity, 0)
            starts = offsets[bounds]
            yield _Pages(field, num_rows, Segments(data, starts[:-1], np.diff(starts)), bounds, offsets)
        else:
            yield _Pages(field, num_rows, _plain_segments(array, validity, bounds), bounds)


def _each_with_its_end(
    offsets: NDArray[_Offset], bounds: NDArray[np.int64], starts: NDArray[_Offset]
) -> NDArray[_Offset]:
    """Return the offsets of each group, including its end, shifted so that group i begins at ``starts[i]``."""
    sizes = np.diff(bounds) + 1
    groups = np.arange(len(sizes))
    # The end of a group is also the start of the next one.
    rows = np.arange(int(sizes.sum())) - np.repeat(groups, sizes)
    moved: NDArray[_Offset] = offsets[rows] + np.repeat(starts - offsets[bounds[:-1]], sizes)
    return moved


def _plain_segments(array: pa.Array, validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64]) -> Segments:
    data = encode_plain(array, validity)
    bits = bounds * plain_layout(array.type).bits_per_row
    if bool((bits[:-1] % 8).any()):
        # Each page starts at a byte boundary.
        num_bits = np.diff(bits)
        page_bits = -(-num_bits // 8) * 8
        spread = np.zeros(int(page_bits.sum()), np.bool_)
        gaps = np.cumsum(page_bits) - page_bits - bits[:-1]
        spread[np.arange(int(bits[-1])) + np.repeat(gaps, num_bits)] = unpack_bitmap(data, 0, int(bits[-1]))
        return Segments.back_to_back(pack_mask(spread), page_bits // 8)
    starts = bits[:-1] // 8
    return Segments(data, starts, -(-bits[1:] // 8) - starts)


def _zeroed(array: pa.Array, visible: NDArray[np.bool_]) -> pa.Array:
    """Replace values that are not visible with zeros or empty values; nulls stay null."""
    if visible.all():
        return array
    zeros = pa.py_buffer(bytes(_MOST_BYTES))
    buffers = [None, zeros, zeros] if is_variable_width(array.type) else [None, zeros]
    zero = pa.Array.from_buffers(array.type, 1, buffers)[0]
    return pc.if_else(pc.or_(pa.array(visible), array.is_null()), array, zero)


def fields_with_statistics(field: Field) -> Iterator[Field]:
    """Yield the fields whose pages have statistics: leaves that are not inside lists."""
    if field.is_struct:
        for child in field.children:
            yield from fields_with_statistics(child)
    elif not (field.is_list or field.is_dictionary):
        yield field
