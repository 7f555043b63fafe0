"""byte_stream_split: the first byte of every value, then the second byte of every value, and so on.

This encoding is used inside ``general``, because bytes grouped by their position in the value compress better than
whole floats.

Source: ``lance.encodings21.ByteStreamSplit``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.encodings.api import Chunks, Decoder, EncodedChunks, Encoder, Encoding, FixedWidthBlock, MiniBlockForm
from lance_core.encodings.kernels.byte_planes import merge_planes, split_planes
from lance_core.encodings.kernels.segments import Segments
from lance_core.errors import InternalError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENCODING"]

_SUPPORTED_BITS: Final = (16, 32, 64)


def _describe(message: pb21.ByteStreamSplit, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"byte_stream_split({child(message.values)})"


def _decode_chunks(message: pb21.ByteStreamSplit, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    arm, bits = message.values.WhichOneof("compression"), message.values.flat.bits_per_value
    if arm != "flat" or bits not in _SUPPORTED_BITS:
        found = f"{bits} bits" if arm == "flat" else f"encoding {arm or 'unknown'}"
        raise UnsupportedEncodingError(
            f"byte_stream_split: only flat values of 16, 32, or 64 bits are supported, found {found}",
            arm="byte_stream_split",
        )
    planes = chunks.exact_buffer("byte_stream_split", bits)
    # Neighboring chunks of equal size are processed together; usually all chunks except the last have the same size.
    merged = [
        merge_planes(planes.select(slice(start, stop)).rows(size), bits // 8).reshape(-1)
        for start, stop, size in _equal_neighbors(planes.sizes.tolist())
    ]
    data = np.concatenate(merged) if merged else np.empty(0, np.uint8)
    return FixedWidthBlock(chunks.total_values, bits, data)


def _encode_chunks(block: Any, values_per_chunk: int, _encoder: Encoder) -> EncodedChunks:
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value not in _SUPPORTED_BITS:
        raise InternalError("byte_stream_split: only values of 16, 32, or 64 bits can be split")
    width = block.bits_per_value // 8
    num_full, num_rest = divmod(block.num_values, values_per_chunk)
    full_bytes = num_full * values_per_chunk * width
    full = split_planes(block.data[:full_bytes].reshape(num_full, values_per_chunk * width), width)
    rest = split_planes(block.data[full_bytes:].reshape(1 if num_rest else 0, num_rest * width), width)
    num_values = np.array([values_per_chunk] * num_full + [num_rest] * bool(num_rest), np.int64)
    planes = Segments.back_to_back(np.concatenate([full.reshape(-1), rest.reshape(-1)]), num_values * width)
    flat = pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=block.bits_per_value))
    encoding = pb21.CompressiveEncoding(byte_stream_split=pb21.ByteStreamSplit(values=flat))
    return EncodedChunks(encoding, num_values, ((planes,),))


def _equal_neighbors(sizes: list[int]) -> list[tuple[int, int, int]]:
    """Return runs of equal sizes as (start, stop, size)."""
    if not sizes:
        return []
    changes = (np.flatnonzero(np.diff(sizes)) + 1).tolist()
    starts = [0, *changes]
    return [(start, stop, sizes[start]) for start, stop in zip(starts, [*changes, len(sizes)], strict=True)]


ENCODING: Final = Encoding(
    arm="byte_stream_split",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, _encode_chunks),
)
