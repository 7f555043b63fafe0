"""Bitmaps and bit widths.

A bitmap has one bit per value, least significant bit first: value i is bit ``i % 8`` of byte ``i // 8``. A mask is a
numpy array with the same information, one ``bool`` per value; True means that the bit is set.

Source: Arrow columnar format; page encodings use the same bitmaps.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["UNSIGNED_DTYPES", "bit_lengths", "bitmap_bytes", "pack_mask", "slice_bitmap", "unpack_bitmap"]

UNSIGNED_DTYPES: Final[Mapping[int, np.dtype[Any]]] = MappingProxyType(
    {bits: np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)}
)
"""Maps the width of a word in bits to the numpy dtype of little-endian unsigned words of this width."""

_POWERS_OF_TWO: Final = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))


def bitmap_bytes(num_bits: int) -> int:
    """Return the size in bytes of a bitmap of ``num_bits`` bits."""
    return -(-num_bits // 8)


def unpack_bitmap(bitmap: NDArray[np.uint8], bit_offset: int, num_bits: int) -> NDArray[np.bool_]:
    """Return bits ``[bit_offset, bit_offset + num_bits)`` of a bitmap as a new mask, shape (num_bits,)."""
    first_byte, shift = divmod(bit_offset, 8)
    covering = bitmap[first_byte : bitmap_bytes(bit_offset + num_bits)]
    return np.unpackbits(covering, bitorder="little")[shift : shift + num_bits].view(np.bool_)


def pack_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Convert a mask to a new bitmap; unused bits of the last byte are 0."""
    return np.packbits(mask, bitorder="little")


def slice_bitmap(bitmap: NDArray[np.uint8], bit_offset: int, num_bits: int) -> NDArray[np.uint8]:
    """Return bits ``[bit_offset, bit_offset + num_bits)`` as a bitmap; a view if the offset is a multiple of 8."""
    if bit_offset % 8 == 0:
        return bitmap[bit_offset // 8 : bitmap_bytes(bit_offset + num_bits)]
    return pack_mask(unpack_bitmap(bitmap, bit_offset, num_bits))


def bit_lengths(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of bits that each unsigned value needs, as an array of the same shape; 0 needs 0 bits."""
    return np.searchsorted(_POWERS_OF_TWO, values.astype(np.uint64), side="right").astype(np.int64)
