"""rle: runs of equal values.

::

    mini-block   buffer 0: one value per run | buffer 1: u8 length of each run
    block        u64 byte size of the values | one value per run | u8 length of each run

Source: ``lance.encodings21.Rle``; checked against pylance 14.0.2.
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
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.runs import expand_runs, find_runs
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["ENCODING", "encode_runs"]

_BLOCK_HEADER_BYTES: Final = 8


def _describe(message: pb21.Rle, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"rle(values={child(message.values)}, run_lengths={child(message.run_lengths)})"


def _decode_chunks(message: pb21.Rle, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    dtype = UNSIGNED_DTYPES[_checked_bits(message)]
    if len(chunks.buffers) != 2:
        raise CorruptDataError(f"rle: a chunk has {counted(len(chunks.buffers), 'buffer')}, expected 2")
    values, run_lengths = chunks.buffers
    if bool((values.sizes != run_lengths.sizes * dtype.itemsize).any()):
        raise CorruptDataError("rle: a chunk has different numbers of values and run lengths")
    expanded = expand_runs(values.gather().view(dtype), run_lengths.gather(), run_lengths.sizes, chunks.num_values)
    if expanded is None:
        raise CorruptDataError("rle: the total length of the runs of a chunk is less than its number of values")
    return FixedWidthBlock(chunks.total_values, dtype.itemsize * 8, expanded.view(np.uint8))


def _decode_blocks(message: pb21.Rle, blocks: Chunks, decoder: Decoder) -> FixedWidthBlock:
    buffer = blocks.only_buffer("rle")
    if bool((buffer.sizes < _BLOCK_HEADER_BYTES).any()):
        raise CorruptDataError("rle: a block is too short for its header")
    values_bytes = buffer.rows(_BLOCK_HEADER_BYTES).view("<u8").reshape(-1)
    body = buffer.skip(_BLOCK_HEADER_BYTES)
    if bool((values_bytes > body.sizes.astype(np.uint64)).any()):
        raise CorruptDataError("rle: the values of a block extend past the end of the block")
    sizes = values_bytes.astype(np.int64)
    values = Segments(body.data, body.starts, sizes)
    run_lengths = Segments(body.data, body.starts + sizes, body.sizes - sizes)
    return _decode_chunks(message, Chunks(blocks.num_values, (values, run_lengths)), decoder)


def encode_runs(values: NDArray[Any], num_values: NDArray[np.int64]) -> tuple[pb21.CompressiveEncoding, Segments]:
    """Encode many sequences of unsigned words as blocks.

    Args:
        values: (sum of num_values,) words of 8, 16, 32, or 64 bits.
        num_values: (num_chunks,) number of values in each sequence.

    Returns:
        The encoding, and one segment of encoded bytes for each sequence.
    """
    run_values, run_lengths, num_runs = find_runs(values, np.append(0, np.cumsum(num_values)))
    values_bytes = num_runs * values.itemsize
    pieces = [
        Segments.evenly(values_bytes.astype("<u8").view(np.uint8), len(num_runs), _BLOCK_HEADER_BYTES),
        Segments.back_to_back(run_values.view(np.uint8), values_bytes),
        Segments.back_to_back(run_lengths, num_runs),
    ]
    data, bounds = interleave(pieces)
    return _message(values.itemsize * 8), Segments(data, bounds[:-1], np.diff(bounds))


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    words = _words_of(block)
    bounds = np.minimum(np.arange(0, len(words) + values_per_chunk, values_per_chunk), len(words))
    run_values, run_lengths, num_runs = find_runs(words, bounds)
    values = Segments.back_to_back(run_values.view(np.uint8), num_runs * words.itemsize)
    lengths = Segments.back_to_back(run_lengths, num_runs)
    return EncodedChunks(_message(words.itemsize * 8), np.diff(bounds), ((values,), (lengths,)))


def _encode_block(block: Any) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    words = _words_of(block)
    encoding, segments = encode_runs(words, np.array([len(words)], np.int64))
    return encoding, segments.segment(0)


def _words_of(block: Any) -> NDArray[Any]:
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value not in UNSIGNED_DTYPES:
        raise InternalError("rle: only words of 8, 16, 32, or 64 bits can be stored as runs")
    words: NDArray[Any] = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
    return words


def _message(value_bits: int) -> pb21.CompressiveEncoding:
    values = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=value_bits))
    run_lengths = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=8))
    return pb21.CompressiveEncoding(rle=pb21.Rle(values=values, run_lengths=run_lengths))


def _checked_bits(message: pb21.Rle) -> int:
    values, run_lengths = message.values, message.run_lengths
    if values.WhichOneof("compression") != "flat" or run_lengths.WhichOneof("compression") != "flat":
        raise UnsupportedEncodingError(
            "rle: compression of values or run lengths is not supported; expected flat values and run lengths",
            arm="rle",
        )
    if run_lengths.flat.bits_per_value != 8:
        raise UnsupportedEncodingError(
            f"rle: only run lengths of 8 bits are supported, found {run_lengths.flat.bits_per_value}", arm="rle"
        )
    if values.flat.bits_per_value not in UNSIGNED_DTYPES:
        raise UnsupportedEncodingError(
            f"rle: only values of 8, 16, 32, or 64 bits are supported, found {values.flat.bits_per_value}", arm="rle"
        )
    return int(values.flat.bits_per_value)


ENCODING: Final = Encoding(
    arm="rle",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks),
    block=BlockForm(_decode_blocks, _encode_block),
)
