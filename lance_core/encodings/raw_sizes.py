"""Upper bounds for the uncompressed size of the first buffer of a chunk, derived from the chunk's values.

=========================  ==============================================================
Encoding                   First buffer
=========================  ==============================================================
flat, packed_struct        the values
byte_stream_split          same as its child
rle                        one value per run and, in blocks, one length; no more runs than values
inline_bitpacking          one word, and at most 1024 packed words
out_of_line_bitpacking     blocks of 1024 words
fixed_size_list            the bitmap of the items or, without one, their first buffer
variable, fsst             offsets and bytes; the last offset determines their end
constant                   nothing
=========================  ==============================================================

Compressed data can record any raw size. The recorded size is compared with these bounds before memory is allocated.

Source: the module of each encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.proto import pb21

__all__ = ["StringSizes", "fixed_bytes", "most_value_bits", "string_sizes"]

_BLOCK_VALUES: Final = 1024
_SLACK_BYTES: Final = 1024
"""Allowance for padding and headers, in bytes."""

_MOST: Final = (1 << 31) - 1


class StringSizes:
    """Sizes of a buffer of strings, derived from its offsets.

    Args:
        width: size of an offset in bytes.
        is_block: whether a header precedes the offsets, which are then relative to the first string.
    """

    __slots__ = ("_is_block", "_width")

    def __init__(self, width: int, *, is_block: bool) -> None:
        """See the class docstring."""
        self._width = width
        self._is_block = is_block

    def head_bytes(self, num_values: int) -> int:
        """Return the size in bytes of the part of the buffer up to the last offset, inclusive."""
        header = 2 * self._width if self._is_block else 0
        return min(_MOST, header + (num_values + 1) * self._width)

    def most_bytes(self, head: bytes, num_values: int) -> int:
        """Return the maximum size of the whole buffer in bytes, given its first :meth:`head_bytes` bytes."""
        stop = self.head_bytes(num_values)
        last = int.from_bytes(head[stop - self._width : stop], "little")
        return min(_MOST, last + _SLACK_BYTES + (stop if self._is_block else 0))


def string_sizes(encoding: pb21.CompressiveEncoding, *, is_block: bool) -> StringSizes | None:
    """Return the sizes of the first buffer of an encoding if the buffer contains strings; otherwise None."""
    while encoding.WhichOneof("compression") == "fsst":
        encoding = encoding.fsst.values
    if encoding.WhichOneof("compression") != "variable":
        return None
    return StringSizes(8 if encoding.variable.offsets.flat.bits_per_value == 64 else 4, is_block=is_block)


def fixed_bytes(encoding: pb21.CompressiveEncoding, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the maximum size in bytes of the first buffer of each chunk; the buffer must not contain strings.

    Args:
        encoding: the encoding inside ``general``.
        num_values: (num_chunks,) number of values in each chunk.

    Returns:
        The sizes, (num_chunks,).
    """
    bits = 0
    items = 1
    while True:
        arm = encoding.WhichOneof("compression")
        if arm == "fixed_size_list":
            items = min(_MOST, items * encoding.fixed_size_list.items_per_value)
            if encoding.fixed_size_list.has_validity:
                bits = 1
                break
            encoding = encoding.fixed_size_list.values
        elif arm == "rle":
            # One more byte per value, for the run lengths in a block.
            items, encoding = 2 * items, encoding.rle.values
        elif arm == "byte_stream_split":
            encoding = encoding.byte_stream_split.values
        elif arm == "packed_struct":
            bits = sum(encoding.packed_struct.bits_per_value)
            break
        else:
            bits = _bits_per_value(encoding)
            break
    # Computed in floating point, which cannot overflow; an error of a few bytes is acceptable.
    values = num_values.astype(np.float64)
    if arm in ("inline_bitpacking", "out_of_line_bitpacking"):
        values = np.ceil(values / _BLOCK_VALUES) * _BLOCK_VALUES
    return np.minimum(values * (float(bits) * items / 8) + _SLACK_BYTES, _MOST).astype(np.int64)


def most_value_bits(encoding: pb21.CompressiveEncoding) -> int:
    """Return the maximum number of bits of one value in a tree of encodings; 0 for strings."""
    items = 1
    while True:
        arm = encoding.WhichOneof("compression")
        if arm == "fixed_size_list":
            items = min(_MOST, items * encoding.fixed_size_list.items_per_value)
            encoding = encoding.fixed_size_list.values
        elif arm in ("general", "rle", "byte_stream_split"):
            encoding = getattr(encoding, arm).values
        elif arm == "packed_struct":
            return items * sum(encoding.packed_struct.bits_per_value)
        else:
            return items * _bits_per_value(encoding)


def _bits_per_value(encoding: pb21.CompressiveEncoding) -> int:
    arm = encoding.WhichOneof("compression")
    if arm == "flat":
        return int(encoding.flat.bits_per_value)
    if arm == "inline_bitpacking":
        return int(encoding.inline_bitpacking.uncompressed_bits_per_value)
    if arm == "out_of_line_bitpacking":
        return int(encoding.out_of_line_bitpacking.uncompressed_bits_per_value)
    return 0
