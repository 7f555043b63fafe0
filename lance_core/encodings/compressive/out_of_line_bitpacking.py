"""out_of_line_bitpacking: FastLanes blocks that share one bit width, which the encoding's description records.

::

    num_values // 1024 packed blocks | the remaining r values

The remainder is either r raw words or one more packed block, padded with zeros. The number of remaining bytes
distinguishes the two cases: if it equals the size of r words, the words are raw. Blocks of width 0 take no bytes; they
are described by an empty flat message.

Repetition and definition levels are stored this way: 16-bit words, one sequence of blocks per chunk.

Source: ``lance.encodings21.OutOfLineBitpacking``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import BlockForm, Chunks, Decoder, Encoding, FixedWidthBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.fastlanes import (
    BLOCK_VALUES,
    RAW,
    block_bytes,
    pack_blocks,
    pick_words,
    unpack_pieces,
)
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING", "encode_blocks"]


def _describe(message: pb21.OutOfLineBitpacking, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"out_of_line_bitpacking[{message.uncompressed_bits_per_value}]({child(message.values)})"


def encode_blocks(
    values: NDArray[Any], num_values: NDArray[np.int64], packed_bits: int
) -> tuple[pb21.CompressiveEncoding, Segments]:
    """Pack many sequences of unsigned words.

    Args:
        values: (sum of num_values,) words of 8, 16, 32, or 64 bits.
        num_values: (num_chunks,) number of values in each sequence.
        packed_bits: bit width of the packed values; wide enough for the largest value.

    Returns:
        The encoding, and one segment of encoded bytes for each sequence.
    """
    value_bits = values.itemsize * 8
    tails = num_values % BLOCK_VALUES
    # A packed tail takes the size of 1024 packed values; if the raw words are not larger, they are stored instead.
    packs_tail = tails * value_bits > BLOCK_VALUES * packed_bits
    num_blocks = num_values // BLOCK_VALUES + packs_tail
    raw_tails = np.where(packs_tail, 0, tails)
    word_bytes = value_bits // 8
    value_bytes = values.view(np.uint8)
    if bool(raw_tails.any()):
        stops = np.cumsum(num_values)
        raw = Segments(value_bytes, (stops - raw_tails) * word_bytes, raw_tails * word_bytes)
        whole = Segments(value_bytes, (stops - num_values) * word_bytes, (num_values - raw_tails) * word_bytes)
        packed = _pack(whole.gather().view(values.dtype), num_values - raw_tails, packed_bits)
        data, bounds = interleave([Segments.back_to_back(packed, num_blocks * block_bytes(packed_bits)), raw])
        segments = Segments(data, bounds[:-1], np.diff(bounds))
    else:
        packed = _pack(values, num_values, packed_bits)
        segments = Segments.back_to_back(packed, num_blocks * block_bytes(packed_bits))
    flat = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=packed_bits))
    message = pb21.OutOfLineBitpacking(uncompressed_bits_per_value=value_bits, values=flat)
    return pb21.CompressiveEncoding(out_of_line_bitpacking=message), segments


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value not in UNSIGNED_DTYPES:
        raise InternalError("out_of_line_bitpacking: only words of 8, 16, 32, or 64 bits can be packed")
    words: NDArray[Any] = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
    packed_bits = int(words.max(initial=0)).bit_length()
    encoding, segments = encode_blocks(words, np.array([len(words)], np.int64), packed_bits)
    return encoding, segments.segment(0)


def _pack(values: NDArray[Any], num_values: NDArray[np.int64], packed_bits: int) -> NDArray[np.uint8]:
    """Pack many sequences into blocks; the last block of each sequence is padded with zeros."""
    lengths = _block_lengths(num_values, -(-num_values // BLOCK_VALUES))
    if bool((lengths[:-1] == BLOCK_VALUES).all()) and len(values) % BLOCK_VALUES == 0:
        blocks = values.reshape(-1, BLOCK_VALUES)
    else:
        word_bytes = values.itemsize
        filler = np.zeros(len(lengths) * BLOCK_VALUES - len(values), values.dtype).view(np.uint8)
        columns = [
            Segments.back_to_back(values.view(np.uint8), lengths * word_bytes),
            Segments.back_to_back(filler, (BLOCK_VALUES - lengths) * word_bytes),
        ]
        blocks = interleave(columns)[0].view(values.dtype).reshape(-1, BLOCK_VALUES)
    return pack_blocks(blocks, values.itemsize * 8, packed_bits).reshape(-1).view(np.uint8)


def _block_lengths(num_values: NDArray[np.int64], num_blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of values in each block, given the numbers of values and blocks in each sequence."""
    lengths = np.full(int(num_blocks.sum()), BLOCK_VALUES, np.int64)
    last = (np.cumsum(num_blocks) - 1)[num_blocks > 0]
    lengths[last] = (num_values - (num_blocks - 1) * BLOCK_VALUES)[num_blocks > 0]
    return lengths


def _tail_kinds(
    buffer: Segments, num_values: NDArray[np.int64], value_bits: int, packed_bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return, per chunk, the number of full blocks, the number of further values, and whether these are raw words."""
    word_bytes = value_bits // 8
    whole, tails = np.divmod(num_values, BLOCK_VALUES)
    left = buffer.sizes - whole * block_bytes(packed_bits)
    is_raw = (tails > 0) & (left == tails * word_bytes)
    if bool((left < np.where((tails > 0) & ~is_raw, block_bytes(packed_bits), 0)).any()):
        raise CorruptDataError(f"out_of_line_bitpacking: a chunk is too short for its {packed_bits}-bit packed values")
    return whole, tails, is_raw


def _pick(message: pb21.OutOfLineBitpacking, chunks: Chunks, picks: Picks, _decoder: Decoder) -> FixedWidthBlock:
    value_bits, packed_bits = _checked_widths(message)
    buffer = chunks.only_buffer("out_of_line_bitpacking")
    whole, _, is_raw = _tail_kinds(buffer, chunks.num_values, value_bits, packed_bits)
    block, slots = np.divmod(picks.slots, BLOCK_VALUES)
    starts = buffer.starts[picks.chunks] + block * block_bytes(packed_bits)
    in_tail = is_raw[picks.chunks] & (block == whole[picks.chunks])
    words = np.empty(len(slots), UNSIGNED_DTYPES[value_bits])
    if bool(in_tail.any()):
        places = starts[in_tail] + slots[in_tail] * words.itemsize
        raw = Segments(buffer.data, places, np.full(len(places), words.itemsize, np.int64)).rows(words.itemsize)
        words[in_tail] = np.ascontiguousarray(raw).view(words.dtype).reshape(-1)
    packed = ~in_tail
    widths = np.full(len(slots) - int(in_tail.sum()), packed_bits, np.int64)
    words[packed] = pick_words(buffer.data, starts[packed], slots[packed], value_bits, widths)
    return FixedWidthBlock(len(words), value_bits, words.view(np.uint8))


def _decode_blocks(message: pb21.OutOfLineBitpacking, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    value_bits, packed_bits = _checked_widths(message)
    buffer = chunks.only_buffer("out_of_line_bitpacking")
    whole, tails, is_raw = _tail_kinds(buffer, chunks.num_values, value_bits, packed_bits)
    num_pieces = whole + (tails > 0)
    first_pieces = np.cumsum(num_pieces) - num_pieces
    in_chunk = np.arange(int(num_pieces.sum())) - np.repeat(first_pieces, num_pieces)
    starts = np.repeat(buffer.starts, num_pieces) + in_chunk * block_bytes(packed_bits)
    widths = np.full(len(starts), packed_bits, np.int64)
    widths[(first_pieces + whole)[is_raw]] = RAW
    lengths = _block_lengths(chunks.num_values, num_pieces)
    words = unpack_pieces(buffer.data, starts, widths, lengths, value_bits)
    return FixedWidthBlock(len(words), value_bits, words.view(np.uint8))


def _checked_widths(message: pb21.OutOfLineBitpacking) -> tuple[int, int]:
    if message.values.WhichOneof("compression") != "flat" or message.values.flat.HasField("data"):
        raise UnsupportedEncodingError(
            "out_of_line_bitpacking: compression of the packed words is not supported; expected flat words",
            arm="out_of_line_bitpacking",
        )
    value_bits, packed_bits = message.uncompressed_bits_per_value, message.values.flat.bits_per_value
    if value_bits not in UNSIGNED_DTYPES or packed_bits > value_bits:
        raise CorruptDataError(
            f"out_of_line_bitpacking: values of {counted(value_bits, 'bit')} cannot be packed to "
            f"{counted(packed_bits, 'bit')}"
        )
    return value_bits, packed_bits


ENCODING: Final = Encoding(
    arm="out_of_line_bitpacking",
    describe=_describe,
    block=BlockForm(_decode_blocks, _encode_block, _pick),
)
