"""How many bytes the first buffer of a chunk has at most before ``general`` compresses it: what its values need.

=========================  ==============================================================
Encoding                   First buffer
=========================  ==============================================================
flat, packed_struct        the values
byte_stream_split          as its child
rle                        one value per run, and in blocks one length; at most n runs
inline_bitpacking          a word, and 1024 of them at most
out_of_line_bitpacking     blocks of 1024 words
fixed_size_list            the bitmap of the items, or their first buffer
variable, fsst             offsets and bytes; the last offset tells where they end
constant                   nothing
=========================  ==============================================================

Compressed bytes can claim any size; the claim is compared with this before memory is allocated.

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
"""Padding and headers."""

_MOST: Final = (1 << 31) - 1


class StringSizes:
    """Of a buffer of strings, whose offsets tell its size.

    Args:
        width: of an offset, bytes.
        is_block: whether a header stands in front of the offsets, which then count from the first string.
    """

    __slots__ = ("_is_block", "_width")

    def __init__(self, width: int, *, is_block: bool) -> None:
        """See the class."""
        self._width = width
        self._is_block = is_block

    def head_bytes(self, num_values: int) -> int:
        """Return bytes up to the last offset of some values."""
        header = 2 * self._width if self._is_block else 0
        return min(_MOST, header + (num_values + 1) * self._width)

    def most_bytes(self, head: bytes, num_values: int) -> int:
        """Return what the whole buffer has at most, by its first :meth:`head_bytes`."""
        stop = self.head_bytes(num_values)
        last = int.from_bytes(head[stop - self._width : stop], "little")
        return min(_MOST, last + _SLACK_BYTES + (stop if self._is_block else 0))


def string_sizes(encoding: pb21.CompressiveEncoding, *, is_block: bool) -> StringSizes | None:
    """Return where the first buffer of an encoding holds strings: how to find its size."""
    while encoding.WhichOneof("compression") == "fsst":
        encoding = encoding.fsst.values
    if encoding.WhichOneof("compression") != "variable":
        return None
    return StringSizes(8 if encoding.variable.offsets.flat.bits_per_value == 64 else 4, is_block=is_block)


def fixed_bytes(encoding: pb21.CompressiveEncoding, num_values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the first buffer of each chunk has at most, where it holds no strings.

    Args:
        encoding: below ``general``.
        num_values: (num_chunks,) values of each chunk.

    Returns:
        (num_chunks,) bytes.
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
            # One byte more a value: the lengths of the runs in a block.
            items, encoding = 2 * items, encoding.rle.values
        elif arm == "byte_stream_split":
            encoding = encoding.byte_stream_split.values
        elif arm == "packed_struct":
            bits = sum(encoding.packed_struct.bits_per_value)
            break
        else:
            bits = _bits_per_value(encoding)
            break
    # In floating point: nothing overflows, and an error of a few bytes does not matter.
    values = num_values.astype(np.float64)
    if arm in ("inline_bitpacking", "out_of_line_bitpacking"):
        values = np.ceil(values / _BLOCK_VALUES) * _BLOCK_VALUES
    return np.minimum(values * (float(bits) * items / 8) + _SLACK_BYTES, _MOST).astype(np.int64)


def most_value_bits(encoding: pb21.CompressiveEncoding) -> int:
    """Return bits of one value as an encoding describes it, strings left aside: a column has no wider ones."""
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
