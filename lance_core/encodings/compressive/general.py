"""general: zstd or LZ4 compression around another encoding.

::

    mini-block   the first buffer of each chunk is compressed; the others are not
    block        the whole block is compressed
    full zip     each value is compressed separately; an empty value stays empty

Compressed bytes are preceded by their raw size; see ``kernels/codecs.py``. Chunks and blocks whose raw size is
larger than their values require are rejected before they are decompressed. Values of a full-zip page may have any raw
size.

Source: ``lance.encodings21.General``; checked against pylance 14.0.2.
"""

from __future__ import annotations

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
from lance_core.encodings.kernels.codecs import (
    compress_lz4,
    compress_zstd_many,
    decompress_lz4,
    decompress_zstd,
    lz4_head,
    zstd_head,
)
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.raw_sizes import fixed_bytes, string_sizes
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb21

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from lance_core.encodings.api import Picks

__all__ = ["ENCODING", "compress_block", "compress_chunks", "compress_values"]

_CODECS: Final = {
    pb21.COMPRESSION_ALGORITHM_LZ4: (decompress_lz4, lz4_head),
    pb21.COMPRESSION_ALGORITHM_ZSTD: (decompress_zstd, zstd_head),
}
_SMALL_BYTES: Final = 1 << 20
"""A buffer of strings is decompressed in one step if its raw size is at most this number of bytes. For a larger buffer,
the offsets are decompressed and checked first."""

_NAMES: Final = {pb21.COMPRESSION_ALGORITHM_LZ4: "lz4", pb21.COMPRESSION_ALGORITHM_ZSTD: "zstd"}


def _describe(message: pb21.General, child: Callable[[pb21.CompressiveEncoding], str]) -> str:
    scheme = _NAMES.get(message.compression.scheme, str(message.compression.scheme))
    return f"general[{scheme}]({child(message.values)})"


def compress_chunks(
    chunks: EncodedChunks, scheme: pb21.CompressionScheme, level: int | None = None
) -> EncodedChunks | None:
    """Compress the first buffer of each chunk; return None if that does not reduce the size.

    Args:
        chunks: chunks in any encoding.
        scheme: LZ4 or ZSTD.
        level: ZSTD level; None = the fastest.
    """
    pieces, *others = chunks.buffers
    data, bounds = interleave(pieces) if len(pieces) > 1 else (pieces[0].data, None)
    raw = pieces[0] if bounds is None else Segments(data, bounds[:-1], np.diff(bounds))
    padding = -raw.sizes % chunks.alignment
    if bool(padding.any()):
        data, bounds = interleave([raw, Segments.back_to_back(np.zeros(int(padding.sum()), np.uint8), padding)])
        raw = Segments(data, bounds[:-1], np.diff(bounds))
    first = _compressed(raw, scheme, level)
    if first.num_bytes >= raw.num_bytes:
        return None
    compression = pb21.BufferCompression(scheme=scheme, level=level)
    message = pb21.General(compression=compression, values=chunks.encoding)
    return EncodedChunks(pb21.CompressiveEncoding(general=message), chunks.num_values, ((first,), *others))


def compress_block(
    encoding: pb21.CompressiveEncoding,
    data: NDArray[np.uint8],
    scheme: pb21.CompressionScheme,
    level: int | None = None,
) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]] | None:
    """Compress an opaque block, such as a dictionary; return None if that does not reduce the size."""
    whole = Segments.back_to_back(data, np.array([len(data)], np.int64))
    compressed = _compressed(whole, scheme, level)
    if compressed.num_bytes >= len(data):
        return None
    compression = pb21.BufferCompression(scheme=scheme, level=level)
    message = pb21.General(compression=compression, values=encoding)
    return pb21.CompressiveEncoding(general=message), compressed.segment(0)


def compress_values(
    encoding: pb21.CompressiveEncoding, values: VariableWidthBlock, level: int
) -> tuple[pb21.CompressiveEncoding, VariableWidthBlock] | None:
    """Compress every value separately with ZSTD; return None if that does not reduce the size.

    Args:
        encoding: encoding of the uncompressed values.
        values: rows of a full-zip page.
        level: ZSTD level.
    """
    starts = values.offsets[:-1].astype(np.int64)
    raw = Segments(values.data, starts, values.offsets[1:] - starts)
    packed = _compressed(raw, pb21.COMPRESSION_ALGORITHM_ZSTD, level)
    if packed.num_bytes >= raw.num_bytes:
        return None
    offsets = np.zeros(len(values.offsets), values.offsets.dtype)
    np.cumsum(packed.sizes, out=offsets[1:])
    compression = pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_ZSTD, level=level)
    message = pb21.General(compression=compression, values=encoding)
    return pb21.CompressiveEncoding(general=message), VariableWidthBlock(offsets, packed.gather())


def _compressed(raw: Segments, scheme: pb21.CompressionScheme, level: int | None) -> Segments:
    if scheme == pb21.COMPRESSION_ALGORITHM_ZSTD:
        data, sizes = compress_zstd_many(raw.data, raw.starts, raw.sizes, level or 1)
        return Segments.back_to_back(data, sizes)
    parts = [compress_lz4(raw.segment(index)) for index in range(raw.num_segments)]
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    return Segments.back_to_back(np.frombuffer(b"".join(parts), np.uint8), sizes)


def _decode_chunks(message: pb21.General, chunks: Chunks, decoder: Decoder) -> DataBlock:
    return decoder.mini_block(message.values, _raw_chunks(message, chunks))


def _pick(message: pb21.General, chunks: Chunks, picks: Picks, decoder: Decoder) -> DataBlock:
    return decoder.pick(message.values, _raw_chunks(message, chunks), picks)


def _raw_chunks(message: pb21.General, chunks: Chunks) -> Chunks:
    if not chunks.buffers:
        raise CorruptDataError("general: a chunk has no buffer to decompress")
    first = _bounded(message, chunks.buffers[0], chunks.num_values, is_block=False)
    return Chunks(chunks.num_values, (first, *chunks.buffers[1:]))


def _decode_blocks(message: pb21.General, blocks: Chunks, decoder: Decoder) -> DataBlock:
    raw = _bounded(message, blocks.only_buffer("general"), blocks.num_values, is_block=True)
    return decoder.block(message.values, Chunks(blocks.num_values, (raw,)))


def _decode_rows(message: pb21.General, rows: FixedRows | VariableWidthBlock, decoder: Decoder) -> DataBlock:
    if not isinstance(rows, VariableWidthBlock):
        raise UnsupportedEncodingError(
            "general: individually compressed values of fixed width are not supported", arm="general"
        )
    starts = rows.offsets[:-1].astype(np.int64)
    compressed = Segments(rows.data, starts, rows.offsets[1:] - starts)
    decompress, _ = _codec(message)
    raw = _joined(decompress(compressed.segment(index).tobytes()) for index in range(compressed.num_segments))
    offsets = np.zeros(rows.num_values + 1, np.int64)
    np.cumsum(raw.sizes, out=offsets[1:])
    return decoder.per_value(message.values, VariableWidthBlock(offsets, raw.data))


def _codec(message: pb21.General) -> tuple[Callable[..., bytes | None], Callable[[bytes, int], bytes | None]]:
    found = _CODECS.get(message.compression.scheme)
    if found is None:
        raise UnsupportedEncodingError(
            f"general: unknown compression scheme {message.compression.scheme}", arm="general"
        )
    return found


def _bounded(message: pb21.General, compressed: Segments, num_values: NDArray[np.int64], *, is_block: bool) -> Segments:
    """Return the decompressed bytes of chunks or blocks, after checking that none is larger than its values need."""
    decompress, head_of = _codec(message)
    strings = string_sizes(message.values, is_block=is_block)
    pieces = (compressed.segment(index).tobytes() for index in range(compressed.num_segments))
    if strings is None:
        most = fixed_bytes(message.values, num_values).tolist()
        return _joined(decompress(piece, bound) for piece, bound in zip(pieces, most, strict=True))
    raws: list[bytes | None] = []
    for piece, count in zip(pieces, num_values.tolist(), strict=True):
        raw = decompress(piece, _SMALL_BYTES)
        head = raw if raw is not None else head_of(piece, strings.head_bytes(count))
        bound = 0 if head is None else strings.most_bytes(head, count)
        raws.append(decompress(piece, bound) if raw is None else raw if len(raw) <= bound else None)
        if raws[-1] is None:
            break
    return _joined(raws)


def _joined(raws: Iterable[bytes | None]) -> Segments:
    parts = []
    for index, raw in enumerate(raws):
        if raw is None:
            raise CorruptDataError(
                f"general: compressed buffer {index} cannot be decompressed, or its content is larger than its values "
                "require"
            )
        parts.append(raw)
    sizes = np.fromiter((len(part) for part in parts), np.int64, len(parts))
    return Segments.back_to_back(np.frombuffer(b"".join(parts), np.uint8), sizes)


ENCODING: Final = Encoding(
    arm="general",
    describe=_describe,
    mini_block=MiniBlockForm(_decode_chunks, pick=_pick),
    per_value=PerValueForm(_decode_rows),
    block=BlockForm(_decode_blocks),
)
