"""flat: fixed-width values, stored unchanged.

::

    mini-block, block    value 0 | value 1 | ...        1-bit values: a bitmap, least significant bit first
    full zip             the value's bytes in the row

Source: ``lance.encodings21.Flat``; checked against pylance 14.0.2.
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
    FixedRows,
    FixedWidthBlock,
    MiniBlockForm,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import bitmap_bytes, pack_mask
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING"]

_MAX_BITS_PER_VALUE: Final = 1 << 34


def _describe(message: pb21.Flat, _child: object) -> str:
    return f"flat[{message.bits_per_value}]"


def _decode_chunks(message: pb21.Flat, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    bits = _checked_bits(message)
    buffer = chunks.exact_buffer("flat", bits)
    if bits == 1 and bool((chunks.num_values[:-1] % 8 != 0).any()):
        data = _join_ragged_bitmaps(buffer, chunks.num_values)
    else:
        data = buffer.gather()
    return FixedWidthBlock(chunks.total_values, bits, data)


def _pick(message: pb21.Flat, chunks: Chunks, picks: Picks, _decoder: Decoder) -> FixedWidthBlock:
    bits = _checked_bits(message)
    buffer = chunks.exact_buffer("flat", bits)
    starts, num_picks = buffer.starts[picks.chunks], len(picks.slots)
    if bits == 1:
        found = buffer.data[starts + picks.slots // 8] >> (picks.slots % 8).astype(np.uint8) & 1
        return FixedWidthBlock(num_picks, 1, pack_mask(found.view(np.bool_)))
    width = bits // 8
    values = Segments(buffer.data, starts + picks.slots * width, np.full(num_picks, width, np.int64))
    return FixedWidthBlock(num_picks, bits, np.ascontiguousarray(values.rows(width)).reshape(-1))


def _decode_rows(message: pb21.Flat, rows: FixedRows | VariableWidthBlock, _decoder: Decoder) -> FixedWidthBlock:
    bits = _checked_bits(message)
    if not isinstance(rows, FixedRows):
        raise CorruptDataError("flat: expected values of fixed width, found variable width")
    width = bitmap_bytes(bits * rows.values_per_row)
    if rows.rows.shape[1] != width:
        raise CorruptDataError(
            f"flat: a row has {counted(rows.rows.shape[1], 'byte')}, expected {width} for its {bits}-bit values"
        )
    if bits == 1 and rows.values_per_row % 8:
        mask = np.unpackbits(rows.rows, axis=1, count=rows.values_per_row, bitorder="little")
        data = pack_mask(mask.reshape(-1).view(np.bool_))
    else:
        data = np.ascontiguousarray(rows.rows).reshape(-1)
    return FixedWidthBlock(rows.num_values, bits, data)


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, FixedWidthBlock) or values_per_chunk * block.bits_per_value % 8:
        raise InternalError(
            "flat: expected a FixedWidthBlock and whole bytes per chunk, found "
            f"{type(block).__name__} and {counted(values_per_chunk, 'value')} per chunk"
        )
    num_chunks = -(-block.num_values // values_per_chunk)
    segments = Segments.evenly(block.data, num_chunks, values_per_chunk * block.bits_per_value // 8)
    num_values = np.full(num_chunks, values_per_chunk, np.int64)
    num_values[-1:] = block.num_values - (num_chunks - 1) * values_per_chunk
    return EncodedChunks(_message(block.bits_per_value), num_values, ((segments,),))


def _encode_rows(block: Any, values_per_row: int, _encoder: Encoder) -> tuple[pb21.CompressiveEncoding, FixedRows]:
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value % 8:
        raise InternalError("flat: only values whose width is a whole number of bytes can be stored in rows")
    num_rows = block.num_values // values_per_row
    rows = block.data.reshape(num_rows, values_per_row * (block.bits_per_value // 8))
    return _message(block.bits_per_value), FixedRows(rows, values_per_row)


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    if not isinstance(block, FixedWidthBlock):
        raise InternalError(f"flat: expected a FixedWidthBlock, found {type(block).__name__}")
    return _message(block.bits_per_value), block.data


def _message(bits_per_value: int) -> pb21.CompressiveEncoding:
    return pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=bits_per_value))


def _checked_bits(message: pb21.Flat) -> int:
    bits = message.bits_per_value
    if message.HasField("data"):
        raise UnsupportedEncodingError("flat: buffer compression inside flat is not supported", arm="flat")
    if bits > _MAX_BITS_PER_VALUE or (bits != 1 and bits % 8):
        raise CorruptDataError(
            f"flat: bits per value must be 1, or a multiple of 8 of at most {_MAX_BITS_PER_VALUE}, found {bits}"
        )
    return bits


def _join_ragged_bitmaps(buffer: Segments, num_values: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Join bitmaps whose last byte is only partly used."""
    bits = np.unpackbits(buffer.gather(), bitorder="little")
    first_bit = (np.cumsum(buffer.sizes) - buffer.sizes) * 8
    return pack_mask(Segments(bits, first_bit, num_values).gather().view(np.bool_))


ENCODING: Final = Encoding(
    arm="flat",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks, _pick),
    per_value=PerValueForm(_decode_rows, _encode_rows),
    block=BlockForm(_decode_chunks, _encode_block, _pick),
)
