"""Plain pages: raw values of a fixed width, starting with row 0.

::

    bool               1 bit per value, least significant first; a page starts at a byte boundary
    fixed-size list    the items of all rows, flattened at every depth; booleans are packed bit by bit across rows
    anything else      ``width`` bytes per value

Nulls are not marked. Values under nulls are written as zeros.

**Source:** behavior of pylance 14.0.2; files of releases since 0.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import FixedSizeListBlock, FixedWidthBlock
from lance_core.encodings.kernels.bits import pack_mask, unpack_bitmap
from lance_core.encodings.leaf_arrays import array_from_block, block_from_array, bytes_of, validity_of
from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock

__all__ = ["PlainLayout", "decode_plain", "encode_plain", "plain_layout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLayout:
    """Layout of the rows of a plain page.

    Attributes:
        dtype: type of the column.
        item_type: type of the innermost items; ``dtype`` itself unless it is a fixed-size list.
        items_per_row: number of innermost items per row.
        bits_per_item: width of an item in bits.
    """

    dtype: pa.DataType
    item_type: pa.DataType
    items_per_row: int
    bits_per_item: int

    @property
    def bits_per_row(self) -> int:
        """Width of one row in bits; not always a multiple of 8."""
        return self.items_per_row * self.bits_per_item

    @property
    def alignment(self) -> int:
        """Required memory alignment of the values in bytes."""
        num_bytes = self.bits_per_item // 8
        return num_bytes if num_bytes in (2, 4, 8, 16) else 8 if num_bytes == 32 else 1

    def spans(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the byte ranges that contain rows ``[starts[i], stops[i])``, relative to the start of their page.

        The caller must first check the row counts against the size of the file, so that the positions cannot overflow.
        """
        width, rest = divmod(self.bits_per_row, 8)
        if not rest:
            return starts * width, stops * width
        return starts * self.bits_per_row // 8, -(-stops * self.bits_per_row // 8)


@lru_cache(maxsize=1024)
def plain_layout(dtype: pa.DataType) -> PlainLayout:
    """Return the layout of a type.

    Raises:
        NotSupportedError: the type does not have a fixed width.
    """
    item_type, items_per_row = dtype, 1
    while pa.types.is_fixed_size_list(item_type):
        items_per_row *= item_type.list_size
        item_type = item_type.value_type
    try:
        bits = 8 * item_type.byte_width if pa.types.is_fixed_size_binary(item_type) else item_type.bit_width
    except ValueError as error:
        raise NotSupportedError(
            f"values of type {dtype} cannot be stored as a plain page", arrow_type=str(dtype)
        ) from error
    return PlainLayout(dtype=dtype, item_type=item_type, items_per_row=items_per_row, bits_per_item=bits)


def decode_plain(
    layout: PlainLayout, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> pa.Array:
    """Decode rows of several pages to one array without nulls; a view of ``data`` if it is aligned.

    Args:
        layout: layout of the rows.
        data: the bytes of :meth:`PlainLayout.spans`, back to back.
        starts: first row of each run, shape (num_runs,).
        stops: row after the last row of each run, shape (num_runs,).

    Raises:
        CorruptDataError: the bytes are not valid for the type.
    """
    num_rows = int((stops - starts).sum())
    if layout.bits_per_item == 1:
        data = _joined_bits(layout, data, starts, stops)
    elif data.ctypes.data % layout.alignment:
        data = data.copy()
    return array_from_block(layout.dtype, _block(layout.dtype, num_rows, data, layout.bits_per_item), None)


def encode_plain(array: pa.Array, validity: NDArray[np.bool_] | None) -> NDArray[np.uint8]:
    """Return the bytes of a page; a view of the array's memory if no values have to be replaced by zeros.

    Args:
        array: an array of a type supported by :func:`plain_layout`; the array may have any offset.
        validity: (len(array),) mask of the rows to keep; it must be False for at least the array's own nulls.
    """
    while pa.types.is_fixed_size_list(array.type):
        dimension = array.type.list_size
        items = array.values.slice(array.offset * dimension, len(array) * dimension)
        items = items.storage if isinstance(items, pa.ExtensionArray) else items
        hidden = None if validity is None else np.repeat(validity, dimension)
        array, validity = items, _both(validity_of(items), hidden)
    if pa.types.is_boolean(array.type):
        bits = unpack_bitmap(bytes_of(array.buffers()[1]), array.offset, len(array))
        return pack_mask(bits if validity is None else bits & validity)
    block = block_from_array(array, validity)
    if not isinstance(block, FixedWidthBlock):
        raise NotSupportedError(
            f"values of type {array.type} cannot be stored as a plain page", arrow_type=str(array.type)
        )
    return block.data


def _block(dtype: pa.DataType, num_rows: int, data: NDArray[np.uint8], bits: int) -> DataBlock:
    if not pa.types.is_fixed_size_list(dtype):
        return FixedWidthBlock(num_rows, bits, data)
    items = _block(dtype.value_type, num_rows * dtype.list_size, data, bits)
    return FixedSizeListBlock(num_rows, dtype.list_size, items, None)


def _joined_bits(
    layout: PlainLayout, data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Join the bits of all runs into one bitmap."""
    first_bits, last_bits = starts * layout.items_per_row, stops * layout.items_per_row
    if not (first_bits % 8).any() and not (last_bits[:-1] % 8).any():
        return data
    run_bytes = -(-last_bits // 8) - first_bits // 8
    # Position of the first bit of each run among the bits of ``data``, and among those that are kept.
    given = 8 * (np.cumsum(run_bytes) - run_bytes) + first_bits % 8
    num_bits = last_bits - first_bits
    kept = np.cumsum(num_bits) - num_bits
    bits = np.unpackbits(data, bitorder="little")
    return pack_mask(bits[np.repeat(given - kept, num_bits) + np.arange(int(num_bits.sum()))].view(np.bool_))


def _both(first: NDArray[np.bool_] | None, second: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if first is None or second is None:
        return second if first is None else first
    both: NDArray[np.bool_] = first & second
    return both
