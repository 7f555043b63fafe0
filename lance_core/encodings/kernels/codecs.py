"""Compresses and decompresses buffers with general-purpose codecs.

::

    zstd   u64 raw size | frame            the raw size may be absent
    lz4    u32 raw size | raw block

The raw size is untrusted input, so it is checked before memory is allocated. It must not exceed the maximum that the
caller specifies, nor the maximum to which a compressed buffer of this length can expand (an LZ4 block: 255 times its
length; a zstd frame: 128 KiB for every 4 bytes). The content size in the header of a zstd frame must equal the raw size
before the frame.

Source: RFC 8878 (zstd), the LZ4 block format; checked against pylance 14.0.2.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import zstandard

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "compress_lz4",
    "compress_zstd",
    "compress_zstd_many",
    "decompress_lz4",
    "decompress_zstd",
    "lz4_head",
    "zstd_head",
]

_OF_THREAD: Final = threading.local()
_MAX_RAW_BYTES: Final = (1 << 31) - 1
_MAX_WINDOW_BYTES: Final = 1 << 31
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_UNUSED_BIT: Final = 0x10
_ZSTD_PREFIX_BYTES: Final = 8
_ZSTD_MAX_BLOCK_BYTES: Final = 128 << 10
_ZSTD_MIN_BLOCK_BYTES: Final = 4
_LZ4_PREFIX_BYTES: Final = 4
_LZ4_MAX_GROWTH: Final = 255


def compress_zstd(raw: bytes | memoryview, level: int) -> bytes:
    """Compress one buffer; an empty buffer stays empty. Levels range from 1 (fastest) to 22 (smallest)."""
    if not len(raw):
        return b""
    return len(raw).to_bytes(_ZSTD_PREFIX_BYTES, "little") + zstandard.ZstdCompressor(level=level).compress(raw)


def compress_zstd_many(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], level: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Compress each piece ``data[starts[i] : starts[i] + sizes[i]]`` separately; empty pieces stay empty.

    Returns:
        The compressed pieces back to back, and the size of each.
    """
    filled = np.flatnonzero(sizes)
    packed_sizes = np.zeros(len(sizes), np.int64)
    if len(filled) == 0:
        return data[:0], packed_sizes
    segments = np.stack([starts[filled], sizes[filled]], axis=1).astype("<u8")
    source = zstandard.BufferWithSegments(np.ascontiguousarray(data).data, segments.tobytes())
    frames = zstandard.ZstdCompressor(level=level).multi_compress_to_buffer(source)
    raw_sizes = sizes[filled].astype("<u8").tobytes()
    parts: list[Any] = []
    for index in range(len(frames)):
        parts += [raw_sizes[index * _ZSTD_PREFIX_BYTES : (index + 1) * _ZSTD_PREFIX_BYTES], frames[index]]
    packed_sizes[filled] = np.fromiter((len(part) for part in parts[1::2]), np.int64, len(filled)) + _ZSTD_PREFIX_BYTES
    return np.frombuffer(b"".join(parts), np.uint8), packed_sizes


def compress_lz4(raw: bytes | NDArray[np.uint8]) -> bytes:
    """Compress one buffer; an empty buffer stays empty."""
    if not len(raw):
        return b""
    block: bytes = pa.Codec("lz4_raw").compress(raw, asbytes=True)
    return len(raw).to_bytes(_LZ4_PREFIX_BYTES, "little") + block


def decompress_zstd(compressed: bytes, most: int = _MAX_RAW_BYTES) -> bytes | None:
    """Decompress one zstd buffer; empty buffers stay empty.

    Return None if the buffer is malformed or its content is larger than ``most`` bytes.
    """
    if not compressed:
        return b""
    frame, stated = _zstd_frame(compressed)
    if stated is not None and stated > most:
        return None
    # Decompress one more byte, to detect that there are too many.
    raw = _unpack_frame(frame, min(most, _MAX_RAW_BYTES) + 1 if stated is None else stated + 1)
    if raw is None or len(raw) > most:
        return None
    return raw if stated is None or len(raw) == stated else None


def zstd_head(compressed: bytes, num_bytes: int) -> bytes | None:
    """Decompress only the first ``num_bytes`` bytes of a zstd buffer, or all of them if there are fewer.

    Return None if these bytes are malformed.
    """
    if not compressed or num_bytes <= 0:
        return b""
    frame, stated = _zstd_frame(compressed)
    if stated is not None:
        promised = _content_size(frame)
        if stated > _MAX_RAW_BYTES or (promised is not None and promised >= 0 and promised != stated):
            return None
        num_bytes = min(num_bytes, stated)
    return _unpack_frame(frame, num_bytes)


def decompress_lz4(compressed: bytes, most: int = _MAX_RAW_BYTES) -> bytes | None:
    """Decompress one LZ4 buffer; empty buffers stay empty.

    Return None if the buffer is malformed or its content is larger than ``most`` bytes.
    """
    if not compressed:
        return b""
    raw_bytes = int.from_bytes(compressed[:_LZ4_PREFIX_BYTES], "little")
    block = compressed[_LZ4_PREFIX_BYTES:]
    if raw_bytes > min(most, _MAX_RAW_BYTES, _LZ4_MAX_GROWTH * len(block)):
        return None
    try:
        return bytes(pa.Codec("lz4_raw").decompress(block, raw_bytes, asbytes=True))
    except (OSError, ValueError, pa.ArrowException):
        return None


def lz4_head(compressed: bytes, num_bytes: int) -> bytes | None:
    """Like :func:`zstd_head`, for an LZ4 buffer; slower, because an LZ4 block can only be decompressed as a whole."""
    raw = decompress_lz4(compressed)
    return None if raw is None else raw[:num_bytes]


def _zstd_frame(compressed: bytes) -> tuple[bytes, int | None]:
    """Return the frame, and the raw size before it, if any."""
    # If a raw size begins like the magic number, the byte after that has a bit set that is never set in a frame header.
    is_bare = compressed[:4] == _ZSTD_MAGIC and len(compressed) > 4 and not compressed[4] & _ZSTD_UNUSED_BIT
    if is_bare or len(compressed) < _ZSTD_PREFIX_BYTES:
        return compressed, None
    return compressed[_ZSTD_PREFIX_BYTES:], int.from_bytes(compressed[:_ZSTD_PREFIX_BYTES], "little")


def _decompressor() -> zstandard.ZstdDecompressor:
    """Return the decompressor of this thread. It is reused, because creating one takes longer than using it."""
    found: zstandard.ZstdDecompressor | None = getattr(_OF_THREAD, "decompressor", None)
    if found is None:
        found = _OF_THREAD.decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    return found


def _content_size(frame: bytes) -> int | None:
    """Return the content size in the header of a frame: -1 if absent, None if the header is malformed."""
    try:
        return int(zstandard.frame_content_size(frame))
    except zstandard.ZstdError:
        return None


def _unpack_frame(frame: bytes, num_bytes: int) -> bytes | None:
    """Return at most ``num_bytes`` bytes of the content of a frame."""
    promised = _content_size(frame)
    if promised is None:
        return None
    num_bytes = min(num_bytes, (len(frame) // _ZSTD_MIN_BLOCK_BYTES + 1) * _ZSTD_MAX_BLOCK_BYTES)
    try:
        if 0 <= promised <= num_bytes:
            return _decompressor().decompress(frame)
        with _decompressor().stream_reader(frame) as reader:
            return bytes(reader.read(num_bytes))
    except zstandard.ZstdError:
        return None
