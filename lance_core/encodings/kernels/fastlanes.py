"""FastLanes bit packing: blocks of 1024 unsigned values, each stored in the same number of bits.

A block of T-bit values packed to W bits is ``1024 * W / T`` words of T bits. The words belong to ``1024 / T`` lanes in
turn (word j to lane ``j % lanes``), and each lane is a little-endian stream of T values of W bits::

    words     0         1        ...  lanes-1    lanes      lanes+1   ...
    lane      0         1        ...  lanes-1    0          1         ...

    row r of lane l  =  bits [r * W, (r + 1) * W) of the lane
                     =  value  ORDER[r // 8] * 16 + (r % 8) * 128 + l  of the block

A row is thus a *contiguous* slice of values, so that one numpy operation per row serves all lanes of many blocks.

Source: Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023; checked against pages of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BLOCK_VALUES", "block_bytes", "pack_blocks", "unpack_blocks"]

BLOCK_VALUES: Final = 1024
"""Values of one block."""

_ORDER: Final = (0, 4, 2, 6, 1, 5, 3, 7)
_BATCH_BYTES: Final = 1 << 21
"""Unpacked bytes worked on at a time: few enough for the caches, enough to hide what a call to numpy costs."""


def block_bytes(packed_bits: int) -> int:
    """Bytes of one block packed to ``packed_bits`` bits, whatever the type's width."""
    return BLOCK_VALUES // 8 * packed_bits


def unpack_blocks(words: NDArray[Any], value_bits: int, packed_bits: int, out: NDArray[Any]) -> None:
    """Unpack many blocks.

    Args:
        words: (num_blocks, 1024 * packed_bits / value_bits) of ``value_bits``-bit words; any strides along the blocks.
        value_bits: 8, 16, 32 or 64.
        packed_bits: 0 to ``value_bits``; 0 means that every value is 0 and there are no words.
        out: (num_blocks, 1024) of ``value_bits``-bit words, overwritten.
    """
    if packed_bits == 0:
        out[:] = 0
        return
    word = UNSIGNED_DTYPES[value_bits].type
    lanes = BLOCK_VALUES // value_bits
    mask = word((1 << packed_bits) - 1)
    for batch in _batches(len(out), value_bits):
        packed, values = words[batch], out[batch]
        spilled = np.empty((len(values), lanes), values.dtype)
        for row in range(value_bits):
            at, shift = divmod(row * packed_bits, value_bits)
            target = _row(values, row, lanes)
            np.right_shift(_word(packed, at, lanes), word(shift), out=target)
            if shift + packed_bits > value_bits:
                np.left_shift(_word(packed, at + 1, lanes), word(value_bits - shift), out=spilled)
                np.bitwise_or(target, spilled, out=target)
            if shift + packed_bits != value_bits:
                np.bitwise_and(target, mask, out=target)


def pack_blocks(values: NDArray[Any], value_bits: int, packed_bits: int) -> NDArray[Any]:
    """Pack many blocks.

    Args:
        values: (num_blocks, 1024) of ``value_bits``-bit unsigned words that fit ``packed_bits`` bits; any strides.
        value_bits: 8, 16, 32 or 64.
        packed_bits: 0 to ``value_bits``.

    Returns:
        Fresh (num_blocks, 1024 * packed_bits / value_bits) words.
    """
    dtype = UNSIGNED_DTYPES[value_bits]
    word = dtype.type
    lanes = BLOCK_VALUES // value_bits
    out = np.empty((len(values), lanes * packed_bits), dtype)
    for batch in _batches(len(values) if packed_bits else 0, value_bits):
        source, packed = values[batch], out[batch]
        shifted = np.empty((len(source), lanes), dtype)
        for row in range(value_bits):
            at, shift = divmod(row * packed_bits, value_bits)
            bits, target = _row(source, row, lanes), _word(packed, at, lanes)
            if shift == 0:
                target[:] = bits
            else:
                np.left_shift(bits, word(shift), out=shifted)
                np.bitwise_or(target, shifted, out=target)
            if shift + packed_bits > value_bits:
                np.right_shift(bits, word(value_bits - shift), out=_word(packed, at + 1, lanes))
    return out


def _word(packed: NDArray[Any], at: int, lanes: int) -> NDArray[Any]:
    """Word ``at`` of every lane, (num_blocks, lanes)."""
    return packed[:, at * lanes : (at + 1) * lanes]


def _row(values: NDArray[Any], row: int, lanes: int) -> NDArray[Any]:
    at = _ORDER[row // 8] * 16 + row % 8 * 128
    return values[:, at : at + lanes]


def _batches(num_blocks: int, value_bits: int) -> Iterator[slice]:
    step = max(64, _BATCH_BYTES // block_bytes(value_bits))
    for start in range(0, num_blocks, step):
        yield slice(start, start + step)
