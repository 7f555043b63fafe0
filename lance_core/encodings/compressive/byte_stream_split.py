"""byte_stream_split: the first bytes of all values, then the second bytes, and so on.

Used under ``general``: planes of similar bytes compress better than whole floats.

Source: ``lance.encodings21.ByteStreamSplit``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import Chunks, Decoder, Encoding, FixedWidthBlock, MiniBlockForm
from lance_core.encodings.kernels.byte_planes import merge_planes
from lance_core.errors import UnsupportedEncodingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.proto import pb21

__all__ = ["ENCODING"]

_SUPPORTED_BITS: Final = (16, 32, 64)


def _describe(message: pb21.ByteStreamSplit, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    return f"byte_stream_split({child(message.values)})"


def _decode_chunks(message: pb21.ByteStreamSplit, chunks: Chunks, _decoder: Decoder) -> FixedWidthBlock:
    bits = message.values.flat.bits_per_value
    if message.values.WhichOneof("compression") != "flat" or bits not in _SUPPORTED_BITS:
        raise UnsupportedEncodingError(
            "byte_stream_split: only plain values of 16, 32 or 64 bits are supported", arm="byte_stream_split"
        )
    planes = chunks.exact_buffer("byte_stream_split", bits)
    # Chunks of one size are merged together; all but the last usually have the same.
    merged = [
        merge_planes(planes.select(slice(start, stop)).rows(size), bits // 8).reshape(-1)
        for start, stop, size in _equal_neighbours(planes.sizes.tolist())
    ]
    data = np.concatenate(merged) if merged else np.empty(0, np.uint8)
    return FixedWidthBlock(chunks.total_values, bits, data)


def _equal_neighbours(sizes: list[int]) -> list[tuple[int, int, int]]:
    """Runs of equal sizes as (start, stop, size)."""
    if not sizes:
        return []
    changes = (np.flatnonzero(np.diff(sizes)) + 1).tolist()
    starts = [0, *changes]
    return [(start, stop, sizes[start]) for start, stop in zip(starts, [*changes, len(sizes)], strict=True)]


ENCODING: Final = Encoding(
    arm="byte_stream_split",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks),
)
