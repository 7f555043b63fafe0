"""Compiled FastLanes kernels: pack and unpack blocks of any width in one pass. See ``kernels/fastlanes.py``.

A row of a block has 128 bytes, whatever the type of the values. All types are therefore processed as 64-bit words that
contain several values each. Shifting a word moves bits into neighboring values; a mask then clears these bits.

Source: Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.kernels.compiled.jit import kernel, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RAW", "pack", "unpack"]

RAW: Final = -1
"""Bit width that marks a block as not packed: its values are stored unchanged."""

_WORD_BYTES: Final = 8
_BLOCK_VALUES: Final = 1024
_ROW_WORDS: Final = 16
_ALL: Final = 0xFFFFFFFFFFFFFFFF


def unpack(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    widths: NDArray[np.int64],
    num_values: NDArray[np.int64],
    value_bits: int,
    out: NDArray[np.uint8],
) -> None:
    """Unpack many consecutive blocks.

    A block takes ``128 * width`` bytes or, if the width is :data:`RAW`, the bytes of its values. The caller has checked
    that every block is within the data.

    Args:
        data: bytes that contain the blocks.
        starts: (num_blocks,) start of each block in bytes; all have the same remainder modulo eight.
        widths: (num_blocks,) bit width of each block: 0 to ``value_bits``, or :data:`RAW`.
        num_values: (num_blocks,) number of values to unpack from each block, 1 to 1024.
        value_bits: 8, 16, 32 or 64.
        out: output for the bytes of all values; its address is a multiple of eight.
    """
    residue = int(starts[0]) % _WORD_BYTES if len(starts) else 0
    words = np.ndarray(((len(data) - residue) // _WORD_BYTES,), np.dtype("<u8"), data, residue)
    out_words = out[: len(out) // _WORD_BYTES * _WORD_BYTES].view("<u8")
    block = np.empty(_BLOCK_VALUES * value_bits // 64, "<u8")
    numbers = (starts - residue, widths, num_values)
    _unpack(read_only(words), read_only(data), *numbers, residue, value_bits, out_words, out, block, block.view("u1"))


def pack(values: NDArray[np.uint64], value_bits: int, packed_bits: int, out: NDArray[np.uint64]) -> None:
    """Pack many blocks to one width.

    Args:
        values: the 64-bit words of all values, (num_blocks * 16 * value_bits,); each value fits in ``packed_bits``
            bits.
        value_bits: 8, 16, 32 or 64.
        packed_bits: 1 to ``value_bits``.
        out: (num_blocks * 16 * packed_bits,) output for the packed 64-bit words.
    """
    _pack(read_only(values), value_bits, packed_bits, out)


@kernel
def _low_bits(num_bits: Any) -> Any:
    return np.uint64(0) if num_bits == 0 else np.uint64(_ALL) >> np.uint64(64 - num_bits)


@kernel
def _first_word(row: Any, value_bits: Any) -> Any:
    """Return the start of a row of values in its block, in words."""
    group = row >> 3
    # 0 4 2 6 1 5 3 7: the bits of the group number in reverse order.
    order = ((group & 1) << 2) | (group & 2) | (group >> 2)
    return (order * 16 + (row & 7) * 128) * value_bits // 64


@kernel
def _unpack(
    words: Any,
    data: Any,
    starts: Any,
    widths: Any,
    num_values: Any,
    residue: Any,
    value_bits: Any,
    out_words: Any,
    out: Any,
    block: Any,
    block_bytes: Any,
) -> None:
    value_bytes = value_bits // 8
    to = 0
    for index in range(len(starts)):
        wanted = num_values[index] * value_bytes
        if widths[index] < 0:
            at = starts[index] + residue
            out[to : to + wanted] = data[at : at + wanted]
        elif num_values[index] == _BLOCK_VALUES and to % _WORD_BYTES == 0:
            _unpack_block(words, starts[index] // _WORD_BYTES, widths[index], value_bits, out_words, to // _WORD_BYTES)
        else:
            _unpack_block(words, starts[index] // _WORD_BYTES, widths[index], value_bits, block, 0)
            out[to : to + wanted] = block_bytes[:wanted]
        to += wanted


@kernel
def _unpack_block(words: Any, first: Any, width: Any, value_bits: Any, out: Any, to: Any) -> None:
    if width == 0:
        for word in range(_ROW_WORDS * value_bits):
            out[to + word] = np.uint64(0)
        return
    repeated = np.uint64(_ALL) // _low_bits(value_bits)
    mask = repeated * _low_bits(width)
    for row in range(value_bits):
        column, shift = row * width // value_bits, row * width % value_bits
        # Unsigned positions need no check for negative indices, which would take as long as the work itself.
        source = np.uint64(first + column * _ROW_WORDS)
        target = np.uint64(to + _first_word(row, value_bits))
        right = np.uint64(shift)
        if shift + width <= value_bits:
            for lane in range(_ROW_WORDS):
                at = np.uint64(lane)
                out[target + at] = (words[source + at] >> right) & mask
        else:
            from_first = value_bits - shift
            left = np.uint64(from_first)
            low = repeated * _low_bits(from_first)
            high = mask ^ low
            following = source + np.uint64(_ROW_WORDS)
            for lane in range(_ROW_WORDS):
                at = np.uint64(lane)
                out[target + at] = ((words[source + at] >> right) & low) | ((words[following + at] << left) & high)


@kernel
def _pack(values: Any, value_bits: Any, width: Any, out: Any) -> None:
    block_words, packed_words = _ROW_WORDS * value_bits, _ROW_WORDS * width
    repeated = np.uint64(_ALL) // _low_bits(value_bits)
    for block in range(len(values) // block_words):
        first, to = block * block_words, block * packed_words
        for row in range(value_bits):
            column, shift = row * width // value_bits, row * width % value_bits
            source = np.uint64(first + _first_word(row, value_bits))
            target = np.uint64(to + column * _ROW_WORDS)
            left = np.uint64(shift)
            from_first = value_bits - shift
            low = repeated * _low_bits(min(from_first, width))
            if shift == 0:
                for lane in range(_ROW_WORDS):
                    at = np.uint64(lane)
                    out[target + at] = values[source + at] & low
            else:
                for lane in range(_ROW_WORDS):
                    at = np.uint64(lane)
                    out[target + at] |= (values[source + at] & low) << left
            if from_first < width:
                right = np.uint64(from_first)
                high = repeated * _low_bits(width - from_first)
                following = target + np.uint64(_ROW_WORDS)
                for lane in range(_ROW_WORDS):
                    at = np.uint64(lane)
                    out[following + at] = (values[source + at] >> right) & high
