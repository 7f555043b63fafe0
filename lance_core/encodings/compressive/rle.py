"""rle: runs of equal values.

::

    mini-block   buffer 0: one value per run | buffer 1: u8 length of each run
    block        u64 bytes of the values | one value per run | u8 length of each run

Source: ``lance.encodings21.Rle``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import BlockForm, Chunks, Decoder, Encoding, FixedWidthBlock, MiniBlockForm
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.runs import expand_runs
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import CorruptDataError, UnsupportedEncodingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.proto import pb21

__all__ = ["ENCODING"]

_BLOCK_HEADER_BYTES: Final = 8


def _describe(message: pb21.Rle, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"rle(values={child(message.values)}, run_lengths={child(message.run_lengths)})"


def _decode_chunks(message: pb21.Rle, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    dtype = UNSIGNED_DTYPES[_checked_bits(message)]
    if len(chunks.buffers) != 2:
        raise CorruptDataError(f"rle: a chunk has {len(chunks.buffers)} buffers, expected 2")
    values, run_lengths = chunks.buffers
    if bool((values.sizes != run_lengths.sizes * dtype.itemsize).any()):
        raise CorruptDataError("rle: a chunk has not as many values as run lengths")
    expanded = expand_runs(values.gather().view(dtype), run_lengths.gather(), run_lengths.sizes, chunks.num_values)
    if expanded is None:
        raise CorruptDataError("rle: the runs of a chunk do not reach its number of values")
    return FixedWidthBlock(chunks.total_values, dtype.itemsize * 8, expanded.view(np.uint8))


def _decode_blocks(message: pb21.Rle, blocks: Chunks, decoder: Decoder) -> FixedWidthBlock:
    buffer = blocks.only_buffer("rle")
    if bool((buffer.sizes < _BLOCK_HEADER_BYTES).any()):
        raise CorruptDataError("rle: a block is too short for its header")
    values_bytes = buffer.rows(_BLOCK_HEADER_BYTES).view("<u8").reshape(-1)
    body = buffer.skip(_BLOCK_HEADER_BYTES)
    if bool((values_bytes > body.sizes.astype(np.uint64)).any()):
        raise CorruptDataError("rle: the values of a block are longer than the block")
    sizes = values_bytes.astype(np.int64)
    values = Segments(body.data, body.starts, sizes)
    run_lengths = Segments(body.data, body.starts + sizes, body.sizes - sizes)
    return _decode_chunks(message, Chunks(blocks.num_values, (values, run_lengths)), decoder)


def _checked_bits(message: pb21.Rle) -> int:
    values, run_lengths = message.values, message.run_lengths
    if values.WhichOneof("compression") != "flat" or run_lengths.WhichOneof("compression") != "flat":
        raise UnsupportedEncodingError("rle: only plain values and run lengths are supported", arm="rle")
    if run_lengths.flat.bits_per_value != 8:
        raise UnsupportedEncodingError(
            f"rle: run lengths of {run_lengths.flat.bits_per_value} bits are not supported, only of 8", arm="rle"
        )
    if values.flat.bits_per_value not in UNSIGNED_DTYPES:
        raise UnsupportedEncodingError(f"rle: values of {values.flat.bits_per_value} bits are not supported", arm="rle")
    return int(values.flat.bits_per_value)


ENCODING: Final = Encoding(
    arm="rle",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks),
    block=BlockForm(_decode_blocks),
)
