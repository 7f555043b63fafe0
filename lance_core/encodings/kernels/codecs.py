"""Buffers behind general-purpose compression.

::

    zstd   u64 raw size | frame            a bare frame occurs too
    lz4    u32 raw size | raw block

The raw size comes from outside, so it is checked before anything of that size is allocated: an LZ4 block cannot grow
more than 255-fold, and a zstd frame must agree with the promised size.

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

__all__ = ["compress_lz4", "compress_zstd", "compress_zstd_many", "decompress_lz4", "decompress_zstd"]

_OF_THREAD: Final = threading.local()
_MAX_RAW_BYTES: Final = (1 << 31) - 1
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_UNUSED_BIT: Final = 0x10
_ZSTD_PREFIX_BYTES: Final = 8
_LZ4_PREFIX_BYTES: Final = 4
_LZ4_MAX_GROWTH: Final = 255


def compress_zstd(raw: bytes | memoryview, level: int) -> bytes:
    """Pack one buffer; empty stays empty. Levels run from 1 (fast) to 22 (small)."""
    if not len(raw):
        return b""
    return len(raw).to_bytes(_ZSTD_PREFIX_BYTES, "little") + zstandard.ZstdCompressor(level=level).compress(raw)


def compress_zstd_many(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], level: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pack the pieces ``data[starts[i] : starts[i] + sizes[i]]``, each alone; empty ones stay empty.

    Returns:
        The packed pieces back to back, and the size of each.
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
    """Pack one buffer; empty stays empty."""
    if not len(raw):
        return b""
    block: bytes = pa.Codec("lz4_raw").compress(raw, asbytes=True)
    return len(raw).to_bytes(_LZ4_PREFIX_BYTES, "little") + block


def decompress_zstd(compressed: bytes) -> bytes | None:
    """Unpack one zstd buffer; empty stays empty. None if the bytes are malformed."""
    if not compressed:
        return b""
    # A raw size that reads like the magic number would be followed by a byte of the size that a header never has.
    is_bare = compressed[:4] == _ZSTD_MAGIC and len(compressed) > 4 and not compressed[4] & _ZSTD_UNUSED_BIT
    if is_bare or len(compressed) < _ZSTD_PREFIX_BYTES:
        return _unpack_frame(compressed, None)
    raw_bytes = int.from_bytes(compressed[:_ZSTD_PREFIX_BYTES], "little")
    return _unpack_frame(compressed[_ZSTD_PREFIX_BYTES:], raw_bytes)


def decompress_lz4(compressed: bytes) -> bytes | None:
    """Unpack one LZ4 buffer; empty stays empty. None if the bytes are malformed."""
    if not compressed:
        return b""
    raw_bytes = int.from_bytes(compressed[:_LZ4_PREFIX_BYTES], "little")
    block = compressed[_LZ4_PREFIX_BYTES:]
    if raw_bytes > min(_MAX_RAW_BYTES, _LZ4_MAX_GROWTH * len(block)):
        return None
    try:
        return bytes(pa.Codec("lz4_raw").decompress(block, raw_bytes, asbytes=True))
    except (OSError, ValueError, pa.ArrowException):
        return None


def _decompressor() -> zstandard.ZstdDecompressor:
    """The thread's own: making one costs more than unpacking a small frame, and two threads cannot share it."""
    found: zstandard.ZstdDecompressor | None = getattr(_OF_THREAD, "decompressor", None)
    if found is None:
        found = _OF_THREAD.decompressor = zstandard.ZstdDecompressor()
    return found


def _unpack_frame(frame: bytes, raw_bytes: int | None) -> bytes | None:
    limit = _MAX_RAW_BYTES if raw_bytes is None else raw_bytes
    if limit > _MAX_RAW_BYTES:
        return None
    try:
        promised = zstandard.frame_content_size(frame)
        if promised > limit:
            return None
        if promised >= 0:
            raw = _decompressor().decompress(frame)
        else:
            # No size in the frame: never take more than one byte beyond the limit.
            with _decompressor().stream_reader(frame) as reader:
                raw = reader.read(limit + 1)
    except zstandard.ZstdError:
        return None
    return raw if raw_bytes is None or len(raw) == raw_bytes else None
