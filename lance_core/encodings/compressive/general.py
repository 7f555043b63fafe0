"""general: zstd or LZ4 around another encoding.

::

    mini-block   the first buffer of each chunk is compressed, the others are not
    block        the whole block is compressed
    full zip     each value is compressed alone; an empty value stays empty

Compressed bytes stand behind their raw size, see ``kernels/codecs.py``.

Source: ``lance.encodings21.General``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import (
    BlockForm,
    Chunks,
    DataBlock,
    Decoder,
    EncodedChunks,
    Encoding,
    FixedRows,
    MiniBlockForm,
    PerValueForm,
    VariableWidthBlock,
)
from lance_core.encodings.kernels.codecs import compress_lz4, compress_zstd, decompress_lz4, decompress_zstd
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENCODING", "compress_chunks", "compress_values"]

_DECOMPRESS: Final = {
    pb21.COMPRESSION_ALGORITHM_LZ4: decompress_lz4,
    pb21.COMPRESSION_ALGORITHM_ZSTD: decompress_zstd,
}
_NAMES: Final = {pb21.COMPRESSION_ALGORITHM_LZ4: "lz4", pb21.COMPRESSION_ALGORITHM_ZSTD: "zstd"}


def _describe(message: pb21.General, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    scheme = _NAMES.get(message.compression.scheme, str(message.compression.scheme))
    return f"general[{scheme}]({child(message.values)})"


def compress_chunks(
    chunks: EncodedChunks, scheme: pb21.CompressionScheme, level: int | None = None
) -> EncodedChunks | None:
    """Compress the first buffer of each chunk, or None if that does not make it smaller.

    Args:
        chunks: any encoded chunks.
        scheme: LZ4 or ZSTD.
        level: of ZSTD; None = the fastest.
    """
    pieces, *others = chunks.buffers
    data, bounds = interleave(pieces) if len(pieces) > 1 else (pieces[0].data, None)
    raw = pieces[0] if bounds is None else Segments(data, bounds[:-1], np.diff(bounds))
    padding = -raw.sizes % chunks.alignment
    parts = []
    for index, num_padding in enumerate(padding.tolist()):
        plain = raw.segment(index).tobytes() + bytes(num_padding)
        parts.append(
            compress_lz4(plain) if scheme == pb21.COMPRESSION_ALGORITHM_LZ4 else compress_zstd(plain, level or 1)
        )
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    if int(sizes.sum()) >= raw.num_bytes:
        return None
    first = Segments.back_to_back(np.frombuffer(b"".join(parts), np.uint8), sizes)
    compression = pb21.BufferCompression(scheme=scheme, level=level)
    message = pb21.General(compression=compression, values=chunks.encoding)
    return EncodedChunks(pb21.CompressiveEncoding(general=message), chunks.num_values, ((first,), *others))


def compress_values(
    encoding: pb21.CompressiveEncoding, values: VariableWidthBlock, level: int
) -> tuple[pb21.CompressiveEncoding, VariableWidthBlock] | None:
    """Compress every value alone with ZSTD, or None if that does not make them smaller.

    Args:
        encoding: of the values as they are.
        values: rows of a full-zip page.
        level: of ZSTD.
    """
    bounds = values.offsets.tolist()
    view = values.data.data
    parts = [compress_zstd(view[start:stop], level) for start, stop in pairwise(bounds)]
    offsets = np.zeros(len(bounds), values.offsets.dtype)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    if int(offsets[-1]) >= bounds[-1] - bounds[0]:
        return None
    compression = pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_ZSTD, level=level)
    message = pb21.General(compression=compression, values=encoding)
    data = np.frombuffer(b"".join(parts), np.uint8)
    return pb21.CompressiveEncoding(general=message), VariableWidthBlock(offsets, data)


def _decode_chunks(message: pb21.General, chunks: Chunks, decoder: Decoder) -> DataBlock:
    if not chunks.buffers:
        raise CorruptDataError("general: a chunk has no buffer to decompress")
    first = _decompress(message, chunks.buffers[0])
    return decoder.mini_block(message.values, Chunks(chunks.num_values, (first, *chunks.buffers[1:])))


def _decode_blocks(message: pb21.General, blocks: Chunks, decoder: Decoder) -> DataBlock:
    raw = _decompress(message, blocks.only_buffer("general"))
    return decoder.block(message.values, Chunks(blocks.num_values, (raw,)))


def _decode_rows(message: pb21.General, rows: FixedRows | VariableWidthBlock, decoder: Decoder) -> DataBlock:
    if not isinstance(rows, VariableWidthBlock):
        raise UnsupportedEncodingError("general: compressed values of fixed width are not supported", arm="general")
    starts = rows.offsets[:-1].astype(np.int64)
    raw = _decompress(message, Segments(rows.data, starts, rows.offsets[1:] - starts))
    offsets = np.zeros(rows.num_values + 1, np.int64)
    np.cumsum(raw.sizes, out=offsets[1:])
    return decoder.per_value(message.values, VariableWidthBlock(offsets, raw.data))


def _decompress(message: pb21.General, compressed: Segments) -> Segments:
    decompress = _DECOMPRESS.get(message.compression.scheme)
    if decompress is None:
        raise UnsupportedEncodingError(
            f"general: compression scheme {message.compression.scheme} is not known", arm="general"
        )
    parts = []
    for index in range(compressed.num_segments):
        raw = decompress(compressed.segment(index).tobytes())
        if raw is None:
            raise CorruptDataError(f"general: chunk {index} does not decompress")
        parts.append(raw)
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    return Segments.back_to_back(np.frombuffer(b"".join(parts), np.uint8), sizes)


ENCODING: Final = Encoding(
    arm="general",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks),
    per_value=PerValueForm(_decode_rows),
    block=BlockForm(_decode_blocks),
)
