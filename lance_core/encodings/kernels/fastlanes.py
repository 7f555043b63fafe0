"""FastLanes bit packing: blocks of 1024 unsigned values, each stored in the same number of bits.

A block of T-bit values packed to W bits is ``1024 * W / T`` words of T bits. The words belong to ``1024 / T`` lanes
in turn (word j to lane ``j % lanes``), and each lane is a little-endian stream of T values of W bits::

    words     0         1        ...  lanes-1    lanes      lanes+1   ...
    lane      0         1        ...  lanes-1    0          1         ...

    row r of lane l  =  bits [r * W, (r + 1) * W) of the lane
                     =  value  ORDER[r // 8] * 16 + (r % 8) * 128 + l  of the block

A row is thus a *contiguous* slice of values, so one numpy operation per row handles all lanes of many blocks.

Source: Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB 2023; checked against pages of pylance 14.0.2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.loading import compiled_kernels
from lance_core.encodings.kernels.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BLOCK_VALUES", "RAW", "block_bytes", "pack_blocks", "pick_words", "unpack_blocks", "unpack_pieces"]

BLOCK_VALUES: Final = 1024
"""Number of values in a block."""

RAW: Final = -1
"""Bit width that marks a block as not packed: its values are stored unchanged."""

_ORDER: Final = (0, 4, 2, 6, 1, 5, 3, 7)
_ROW_GROUPS: Final = {
    bits: np.argsort([position * bits // 64 for position in _ORDER[: bits // 8]]) for bits in (8, 16, 32, 64)
}
"""For words of ``bits`` bits, value i of a block is in row ``_ROW_GROUPS[bits][i % 128 // lanes] * 8 + i // 128``."""

_BATCH_BYTES: Final = 1 << 21
"""Number of unpacked bytes processed at a time: small enough for CPU caches, large enough to hide call overhead."""

_FEW_BLOCKS: Final = 16
"""Up to this many blocks, handling all rows at once is 2 to 10 times as fast as handling one row at a time."""


def block_bytes(packed_bits: int) -> int:
    """Return the size in bytes of one block packed to ``packed_bits`` bits; it is the same for all types of values."""
    return BLOCK_VALUES // 8 * packed_bits


def unpack_pieces(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    widths: NDArray[np.int64],
    num_values: NDArray[np.int64],
    value_bits: int,
) -> NDArray[Any]:
    """Unpack the first values of many blocks, which may have different widths, into one array.

    A block takes ``128 * width`` bytes or, if the width is :data:`RAW`, the bytes of its values. The caller has checked
    that every block is within the data.

    Args:
        data: bytes that contain the blocks.
        starts: (num_pieces,) start of each block in bytes, ascending.
        widths: (num_pieces,) bit width of each block: 0 to ``value_bits``, or :data:`RAW` for unpacked values.
        num_values: (num_pieces,) number of values to unpack from each block, 0 to 1024.
        value_bits: 8, 16, 32 or 64.

    Returns:
        A new array of (sum of num_values,) words.
    """
    dtype = UNSIGNED_DTYPES[value_bits]
    out = uninitialized(int(num_values.sum()), dtype)
    compiled = compiled_kernels("fastlanes", out.nbytes)
    if compiled is not None and bool((starts % 8 == starts[:1] % 8).all()):
        compiled.unpack(data, starts, widths, num_values, value_bits, out.view(np.uint8))
        return out
    blocks = np.empty((len(starts), BLOCK_VALUES), dtype)
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        if width == RAW:
            lengths = num_values[chosen]
            raw = Segments(data, starts[chosen], lengths * dtype.itemsize).gather()
            columns = np.arange(len(raw) // dtype.itemsize) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            blocks[np.repeat(chosen, lengths), columns] = raw.view(dtype)
            continue
        size = block_bytes(width)
        segments = Segments(data, starts[chosen], np.full(len(chosen), size, np.int64))
        packed = segments.rows(size).view(dtype) if width else blocks[chosen, :0]
        if len(chosen) == len(blocks):
            unpack_blocks(packed, value_bits, width, blocks)
        else:
            unpacked = np.empty((len(chosen), BLOCK_VALUES), dtype)
            unpack_blocks(packed, value_bits, width, unpacked)
            blocks[chosen] = unpacked
    row_starts = np.arange(len(blocks)) * blocks.strides[0]
    return Segments(blocks.reshape(-1).view(np.uint8), row_starts, num_values * dtype.itemsize).gather().view(dtype)


def unpack_blocks(words: NDArray[Any], value_bits: int, packed_bits: int, out: NDArray[Any]) -> None:
    """Unpack many blocks.

    Args:
        words: (num_blocks, 1024 * packed_bits / value_bits) ``value_bits``-bit words; any stride between blocks.
        value_bits: 8, 16, 32 or 64.
        packed_bits: 0 to ``value_bits``; with 0, every value is 0 and there are no words.
        out: (num_blocks, 1024) output for the ``value_bits``-bit words.
    """
    if packed_bits == 0:
        out[:] = 0
        return
    word = UNSIGNED_DTYPES[value_bits].type
    lanes = BLOCK_VALUES // value_bits
    mask = word((1 << packed_bits) - 1)
    if len(out) <= _FEW_BLOCKS:
        at_words, shifts, spilling, spilled_bits = _gathering(value_bits, packed_bits)
        lane_words = words.reshape(len(out), packed_bits, lanes)
        rows = lane_words[:, at_words] >> shifts
        rows[:, spilling] |= lane_words[:, at_words[spilling] + 1] << spilled_bits
        np.bitwise_and(rows.reshape(len(out), BLOCK_VALUES), mask, out=out)
        return
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
        values: (num_blocks, 1024) ``value_bits``-bit unsigned words that fit in ``packed_bits`` bits; any strides.
        value_bits: 8, 16, 32 or 64.
        packed_bits: 0 to ``value_bits``.

    Returns:
        A new array of (num_blocks, 1024 * packed_bits / value_bits) words.
    """
    dtype = UNSIGNED_DTYPES[value_bits]
    word = dtype.type
    lanes = BLOCK_VALUES // value_bits
    out = np.empty((len(values), lanes * packed_bits), dtype)
    compiled = compiled_kernels("fastlanes", values.nbytes) if packed_bits and values.flags.c_contiguous else None
    if compiled is not None:
        compiled.pack(values.reshape(-1).view(np.uint64), value_bits, packed_bits, out.reshape(-1).view(np.uint64))
        return out
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


def pick_words(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    slots: NDArray[np.int64],
    value_bits: int,
    packed_bits: NDArray[np.int64],
) -> NDArray[Any]:
    """Unpack individual values of many blocks.

    Args:
        data: bytes that contain the blocks.
        starts: (num_picks,) start of each value's block in bytes; the caller has checked that the blocks are in range.
        slots: (num_picks,) position of each value in its block, 0 to 1023.
        value_bits: 8, 16, 32 or 64.
        packed_bits: (num_picks,) bit width of each value's block, 0 to ``value_bits``.

    Returns:
        The values as (num_picks,) words.
    """
    dtype = UNSIGNED_DTYPES[value_bits]
    lanes = BLOCK_VALUES // value_bits
    group, lane = np.divmod(slots % 128, lanes)
    rows = _ROW_GROUPS[value_bits][group] * 8 + slots // 128
    at, shift = np.divmod(rows * packed_bits, value_bits)
    has_words = packed_bits > 0
    if not bool(has_words.any()):
        return np.zeros(len(slots), dtype)
    # A block of width 0 has no words: the start of the data is read instead and masked out.
    places = np.where(has_words, starts + (at * lanes + lane) * dtype.itemsize, 0)
    shifts = shift.astype(dtype)
    found = _words_at(data, places, dtype) >> shifts
    spills = shift + packed_bits > value_bits
    if bool(spills.any()):
        above = _words_at(data, places[spills] + lanes * dtype.itemsize, dtype)
        found[spills] |= above << (dtype.type(value_bits) - shifts[spills])
    masks = (np.iinfo(dtype).max >> (value_bits - np.maximum(packed_bits, 1)).astype(dtype)).astype(dtype)
    picked: NDArray[Any] = np.where(has_words, found & masks, dtype.type(0))
    return picked


def _words_at(data: NDArray[np.uint8], places: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the words that start at arbitrary byte positions."""
    words: NDArray[Any] = data[places[:, None] + np.arange(dtype.itemsize)].view(dtype).reshape(-1)
    return words


@lru_cache(maxsize=128)
def _gathering(value_bits: int, packed_bits: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the locations of the rows of a block, in the order of their values.

    Returns:
        The word of each row in its lane, and its first bit there, shape (value_bits, 1); the rows that continue in the
        next word, and the number of their bits in the first, shape (num_spilling, 1).
    """
    dtype = UNSIGNED_DTYPES[value_bits]
    places = [_place(row) for row in range(value_bits)]
    at, shift = np.divmod(np.argsort(places) * packed_bits, value_bits)
    spilling = np.flatnonzero(shift + packed_bits > value_bits)
    return at, shift.astype(dtype)[:, None], spilling, (value_bits - shift[spilling]).astype(dtype)[:, None]


def _word(packed: NDArray[Any], at: int, lanes: int) -> NDArray[Any]:
    """Return word ``at`` of every lane, (num_blocks, lanes)."""
    return packed[:, at * lanes : (at + 1) * lanes]


def _row(values: NDArray[Any], row: int, lanes: int) -> NDArray[Any]:
    at = _place(row)
    return values[:, at : at + lanes]


def _place(row: int) -> int:
    """Return the position of the first value of a row in its block."""
    return _ORDER[row // 8] * 16 + row % 8 * 128


def _batches(num_blocks: int, value_bits: int) -> Iterator[slice]:
    step = max(64, _BATCH_BYTES // block_bytes(value_bits))
    for start in range(0, num_blocks, step):
        yield slice(start, start + step)
