"""inline_bitpacking: up to 1024 values per chunk, packed to a bit width that is stored before the values.

::

    one word: the packed bit width W | 1024 * W / T words of T bits: one FastLanes block

T is the bit width of the unpacked values. A chunk with fewer than 1024 values is padded with zeros before packing. W
may differ between chunks; if W is 0, no block is stored.

Source: ``lance.encodings21.InlineBitpacking``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import (
    BlockForm,
    Chunks,
    Decoder,
    EncodedChunks,
    Encoder,
    Encoding,
    FixedWidthBlock,
    MiniBlockForm,
)
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES, bit_lengths
from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES, block_bytes, pack_blocks, pick_words, unpack_pieces
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING"]


def _describe(message: pb21.InlineBitpacking, _child: object) -> str:
    return f"inline_bitpacking[{message.uncompressed_bits_per_value}]"


def _packed_chunks(message: pb21.InlineBitpacking, chunks: Chunks) -> tuple[NDArray[Any], Segments]:
    """Return the bit width of each chunk, as words of the value type, and the packed block of each chunk."""
    value_bits = message.uncompressed_bits_per_value
    if message.HasField("values"):
        raise UnsupportedEncodingError(
            "inline_bitpacking: buffer compression is not supported", arm="inline_bitpacking"
        )
    if value_bits not in UNSIGNED_DTYPES:
        raise CorruptDataError(
            f"inline_bitpacking: found values of {counted(value_bits, 'bit')}, expected 8, 16, 32, or 64"
        )
    buffer = chunks.only_buffer("inline_bitpacking")
    dtype = UNSIGNED_DTYPES[value_bits]
    if bool((chunks.num_values > BLOCK_VALUES).any() or (buffer.sizes < dtype.itemsize).any()):
        raise CorruptDataError(
            "inline_bitpacking: a chunk has more than 1024 values, or is too short to contain a bit width"
        )
    widths = buffer.rows(dtype.itemsize).view(dtype).reshape(-1)
    blocks = buffer.skip(dtype.itemsize)
    if bool((widths > value_bits).any() or (blocks.sizes < block_bytes(1) * widths.astype(np.int64)).any()):
        raise CorruptDataError(
            "inline_bitpacking: a chunk has an invalid bit width or is too short for its packed values"
        )
    return widths, blocks


def _pick(message: pb21.InlineBitpacking, chunks: Chunks, picks: Picks, _decoder: Decoder) -> FixedWidthBlock:
    value_bits = message.uncompressed_bits_per_value
    widths, blocks = _packed_chunks(message, chunks)
    widths_of_picks = widths[picks.chunks].astype(np.int64)
    words = pick_words(blocks.data, blocks.starts[picks.chunks], picks.slots, value_bits, widths_of_picks)
    return FixedWidthBlock(len(words), value_bits, words.view(np.uint8))


def _decode_chunks(message: pb21.InlineBitpacking, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    value_bits = message.uncompressed_bits_per_value
    widths, blocks = _packed_chunks(message, chunks)
    words = unpack_pieces(blocks.data, blocks.starts, widths.astype(np.int64), chunks.num_values, value_bits)
    return FixedWidthBlock(len(words), value_bits, words.view(np.uint8))


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, FixedWidthBlock) or values_per_chunk != BLOCK_VALUES:
        raise InternalError("inline_bitpacking: a chunk must have 1024 values of fixed width")
    value_bits = block.bits_per_value
    values = block.data.view(UNSIGNED_DTYPES[value_bits])
    num_full, num_rest = divmod(len(values), BLOCK_VALUES)
    full = values[: num_full * BLOCK_VALUES].reshape(num_full, BLOCK_VALUES)
    rest = np.zeros((1 if num_rest else 0, BLOCK_VALUES), values.dtype)
    rest[:, :num_rest] = values[num_full * BLOCK_VALUES :]
    widths = bit_lengths(np.append(full.max(axis=1, initial=0), rest.max(axis=1, initial=0)))
    widths[:num_full] = _evened_out(widths[:num_full])
    packed = np.concatenate([_pack(full, widths[:num_full], value_bits), _pack(rest, widths[num_full:], value_bits)])
    pieces = (
        Segments.evenly(widths.astype(values.dtype).view(np.uint8), len(widths), values.itemsize),
        Segments.back_to_back(packed, widths * block_bytes(1)),
    )
    num_values = np.full(len(widths), BLOCK_VALUES, np.int64)
    num_values[num_full:] = num_rest
    message = pb21.InlineBitpacking(uncompressed_bits_per_value=value_bits)
    return EncodedChunks(pb21.CompressiveEncoding(inline_bitpacking=message), num_values, (pieces,))


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    """Encode one block of up to 1024 values."""
    if not isinstance(block, FixedWidthBlock) or not 1 <= block.num_values <= BLOCK_VALUES:
        raise InternalError("inline_bitpacking: a block must have 1 to 1024 values of fixed width")
    values = np.zeros((1, BLOCK_VALUES), UNSIGNED_DTYPES[block.bits_per_value])
    values[0, : block.num_values] = block.data.view(values.dtype)
    width = int(values.max()).bit_length()
    packed = pack_blocks(values, block.bits_per_value, width).reshape(-1).view(np.uint8)
    message = pb21.InlineBitpacking(uncompressed_bits_per_value=block.bits_per_value)
    header = np.array([width], values.dtype).view(np.uint8)
    return pb21.CompressiveEncoding(inline_bitpacking=message), np.concatenate([header, packed])


def _evened_out(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one width for all chunks if that adds less than 4% to the size: one pass can then pack or unpack them."""
    widest = int(widths.max(initial=0))
    return np.full_like(widths, widest) if widest * len(widths) <= 1.04 * int(widths.sum()) else widths


def _pack(blocks: NDArray[Any], widths: NDArray[np.int64], value_bits: int) -> NDArray[np.uint8]:
    """Pack each block to its own width; return the packed words of all blocks, back to back."""
    distinct = np.unique(widths).tolist()
    if len(distinct) <= 1:
        return pack_blocks(blocks, value_bits, distinct[0] if distinct else 0).reshape(-1).view(np.uint8)
    # A packed block has one row of 128 bytes for each bit of its width.
    rows = np.empty((int(widths.sum()), block_bytes(1)), np.uint8)
    first_row = np.cumsum(widths) - widths
    for width in filter(None, distinct):
        chosen = widths == width
        packed = pack_blocks(blocks[chosen], value_bits, width).view(np.uint8)
        targets = first_row[chosen][:, None] + np.arange(width)
        rows[targets] = packed.reshape(-1, width, block_bytes(1))
    return rows.reshape(-1)


ENCODING: Final = Encoding(
    arm="inline_bitpacking",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks, _pick),
    block=BlockForm(_decode_chunks, _encode_block, _pick),
)
