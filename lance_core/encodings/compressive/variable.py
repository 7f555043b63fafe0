"""variable: byte strings as offsets and bytes.

::

    mini-block   u32|u64 offsets[n + 1] | bytes | padding to the width of an offset
                 offsets are relative to the start of the buffer, so the first offset is (n + 1) * width
    block        bits | start of the bytes | offsets[n + 1], starting at 0 | bytes
                 bits = 32 or 64 is the width of all these numbers
    full zip     the length of the value, then its bytes

Source: ``lance.encodings21.Variable``; checked against pylance 14.0.2.
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
    MiniBlockForm,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.chunked_strings import join_chunks
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING"]

_BLOCK_HEADER_BYTES: Final = {32: 8, 64: 16}


def _describe(message: pb21.Variable, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"variable(offsets={child(message.offsets)})"


def _decode_chunks(message: pb21.Variable, chunks: Chunks, _decoder: Decoder) -> VariableWidthBlock:
    dtype = UNSIGNED_DTYPES[_checked_offset_bits(message)]
    buffer = chunks.only_buffer("variable")
    offsets_bytes = (chunks.num_values + 1) * dtype.itemsize
    if bool((offsets_bytes > buffer.sizes).any()):
        raise CorruptDataError("variable: a chunk is too short for the offsets of its values")
    joined = join_chunks(buffer, chunks.num_values, dtype.itemsize)
    if joined is None:
        raise CorruptDataError("variable: the offsets of a chunk decrease or extend past its end")
    return VariableWidthBlock(*joined)


def _pick(message: pb21.Variable, chunks: Chunks, picks: Picks, _decoder: Decoder) -> VariableWidthBlock:
    dtype = UNSIGNED_DTYPES[_checked_offset_bits(message)]
    buffer = chunks.only_buffer("variable")
    offsets_bytes = (chunks.num_values + 1) * dtype.itemsize
    if bool((offsets_bytes > buffer.sizes).any()):
        raise CorruptDataError("variable: a chunk is too short for the offsets of its values")
    chunk_starts = buffer.starts[picks.chunks]
    places = chunk_starts + picks.slots * dtype.itemsize
    pairs = buffer.data[places[:, None] + np.arange(2 * dtype.itemsize)].view(dtype)
    first, last = pairs[:, 0], pairs[:, 1]
    if bool(
        (last < first).any() or (first < offsets_bytes[picks.chunks]).any() or (last > buffer.sizes[picks.chunks]).any()
    ):
        raise CorruptDataError("variable: the offsets of a chunk decrease or extend past its end")
    starts, sizes = chunk_starts + first.astype(np.int64), (last - first).astype(np.int64)
    if bool((starts[1:] < (starts + sizes)[:-1]).any()):
        raise CorruptDataError("variable: the offsets of a chunk decrease or extend past its end")
    out = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=out[1:])
    return VariableWidthBlock(out, Segments(buffer.data, starts, sizes).gather())


def _decode_block(message: pb21.Variable, blocks: Chunks, _decoder: Decoder) -> VariableWidthBlock:
    _checked_offset_bits(message)
    buffer = blocks.only_buffer("variable")
    if buffer.num_segments != 1:
        raise UnsupportedEncodingError("variable: decoding several blocks together is not supported", arm="variable")
    data, num_values = buffer.segment(0), blocks.total_values
    bits = int.from_bytes(data[:4].tobytes(), "little")
    header_bytes = _BLOCK_HEADER_BYTES.get(bits)
    if header_bytes is None:
        raise UnsupportedEncodingError(
            f"variable: a block header starts with {bits}, expected 32 or 64", arm="variable"
        )
    dtype = UNSIGNED_DTYPES[bits]
    bytes_start = int.from_bytes(data[bits // 8 : header_bytes].tobytes(), "little")
    offsets_stop = header_bytes + (num_values + 1) * dtype.itemsize
    if not offsets_stop <= bytes_start <= len(data):
        raise CorruptDataError(
            f"variable: a block of {counted(len(data), 'byte')} with {counted(num_values, 'value')} records "
            "that the values start at byte "
            f"{bytes_start}; expected {offsets_stop} to {len(data)}"
        )
    offsets = data[header_bytes:offsets_stop].view(dtype)
    if bool((offsets[1:] < offsets[:-1]).any()) or int(offsets[-1]) > len(data) - bytes_start:
        raise CorruptDataError("variable: the offsets of a block decrease or extend past its end")
    return VariableWidthBlock(offsets.astype(np.int64), data[bytes_start:])


def _decode_rows(message: pb21.Variable, rows: FixedRows | VariableWidthBlock, _decoder: Decoder) -> VariableWidthBlock:
    _checked_offset_bits(message)
    if not isinstance(rows, VariableWidthBlock):
        raise CorruptDataError("variable: expected values of variable width, found fixed width")
    return rows


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, VariableWidthBlock):
        raise InternalError(f"variable: expected a VariableWidthBlock, found {type(block).__name__}")
    bits = block.offsets.itemsize * 8
    num_chunks = -(-block.num_values // values_per_chunk)
    num_values = np.full(num_chunks, values_per_chunk, np.int64)
    num_values[-1:] = block.num_values - (num_chunks - 1) * values_per_chunk
    bounds = np.append(block.offsets[:-1:values_per_chunk], block.offsets[-1]).astype(np.int64)
    offsets = _chunk_offsets(block.offsets, values_per_chunk, num_chunks, UNSIGNED_DTYPES[bits])
    pieces = (
        Segments.back_to_back(offsets.view(np.uint8), (num_values + 1) * (bits // 8)),
        Segments(block.data, bounds[:-1], np.diff(bounds)),
    )
    return EncodedChunks(_message(bits), num_values, (pieces,), alignment=bits // 8)


def _chunk_offsets(offsets: NDArray[Any], values_per_chunk: int, num_chunks: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the offsets of all chunks, concatenated, each relative to the start of its own buffer."""
    num_full = num_chunks - 1
    full_values = num_full * values_per_chunk
    out = np.empty(num_full * (values_per_chunk + 1) + len(offsets) - full_values, dtype)
    full = out[: num_full * (values_per_chunk + 1)].reshape(num_full, values_per_chunk + 1)
    shifts = (values_per_chunk + 1) * dtype.itemsize - offsets[:full_values:values_per_chunk]
    starts = offsets[:full_values].reshape(num_full, values_per_chunk)
    np.add(starts, shifts[:, None], out=full[:, :-1], casting="unsafe")
    np.add(offsets[values_per_chunk : full_values + 1 : values_per_chunk], shifts, out=full[:, -1], casting="unsafe")
    rest = offsets[full_values:]
    np.add(rest, len(rest) * dtype.itemsize - rest[0], out=out[full.size :], casting="unsafe")
    return out


def _encode_rows(
    block: Any, _values_per_row: int, _encoder: Encoder
) -> tuple[pb21.CompressiveEncoding, VariableWidthBlock]:
    if not isinstance(block, VariableWidthBlock):
        raise InternalError(f"variable: expected a VariableWidthBlock, found {type(block).__name__}")
    return _message(block.offsets.itemsize * 8), block


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    if not isinstance(block, VariableWidthBlock):
        raise InternalError(f"variable: expected a VariableWidthBlock, found {type(block).__name__}")
    width = block.offsets.itemsize
    first, last = int(block.offsets[0]), int(block.offsets[-1])
    offsets = (block.offsets - first).astype(UNSIGNED_DTYPES[width * 8])
    bytes_start = _BLOCK_HEADER_BYTES[width * 8] + offsets.nbytes
    header = (width * 8).to_bytes(width, "little") + bytes_start.to_bytes(width, "little")
    parts = [np.frombuffer(header, np.uint8), offsets.view(np.uint8), block.data[first:last]]
    return _message(width * 8), np.concatenate(parts)


def _message(offset_bits: int) -> pb21.CompressiveEncoding:
    offsets = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=offset_bits))
    return pb21.CompressiveEncoding(variable=pb21.Variable(offsets=offsets))


def _checked_offset_bits(message: pb21.Variable) -> int:
    if message.HasField("values") or message.offsets.WhichOneof("compression") != "flat":
        raise UnsupportedEncodingError(
            "variable: compression of offsets or bytes is not supported; expected flat offsets", arm="variable"
        )
    bits = message.offsets.flat.bits_per_value
    if bits not in _BLOCK_HEADER_BYTES:
        raise CorruptDataError(f"variable: found offsets of {counted(bits, 'bit')}, expected 32 or 64")
    return int(bits)


ENCODING: Final = Encoding(
    arm="variable",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks, _pick),
    per_value=PerValueForm(_decode_rows, _encode_rows),
    block=BlockForm(_decode_block, _encode_block),
)
