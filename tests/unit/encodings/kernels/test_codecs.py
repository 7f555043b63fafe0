"""Compressed buffers of Zstandard and LZ4, including malformed ones."""

from __future__ import annotations

import pytest
import zstandard

from lance_core.encodings.kernels.codecs import compress_lz4, compress_zstd, decompress_lz4, decompress_zstd

TEXT = b"one value after the other, " * 40


def test_zstd_buffer_starts_with_its_uncompressed_size():
    packed = compress_zstd(TEXT, 3)
    assert int.from_bytes(packed[:8], "little") == len(TEXT)
    assert packed[8:12] == b"\x28\xb5\x2f\xfd"
    assert decompress_zstd(packed) == TEXT


def test_lz4_buffer_starts_with_its_uncompressed_size():
    packed = compress_lz4(TEXT)
    assert int.from_bytes(packed[:4], "little") == len(TEXT)
    assert decompress_lz4(packed) == TEXT


def test_bare_zstd_frames_are_read():
    assert decompress_zstd(zstandard.ZstdCompressor().compress(TEXT)) == TEXT
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    assert decompress_zstd(streamed) == TEXT
    assert decompress_zstd(len(TEXT).to_bytes(8, "little") + streamed) == TEXT


@pytest.mark.parametrize("codec", [compress_lz4, lambda raw: compress_zstd(raw, 1)])
def test_empty_buffers_stay_empty_when_compressed(codec):
    assert codec(b"") == b""
    assert decompress_lz4(b"") == decompress_zstd(b"") == b""


@pytest.mark.parametrize(
    ("decompress", "packed"),
    [
        (decompress_zstd, b"\x05" + bytes(7) + b"no frame"),
        (decompress_zstd, (1 << 62).to_bytes(8, "little") + compress_zstd(TEXT, 1)[8:]),
        (decompress_zstd, (len(TEXT) - 1).to_bytes(8, "little") + compress_zstd(TEXT, 1)[8:]),
        (decompress_zstd, compress_zstd(TEXT, 1)[:-3]),
        (decompress_zstd, b"abc"),
        (decompress_lz4, b"\xff\xff\xff\x7f" + compress_lz4(TEXT)[4:]),
        (decompress_lz4, b"\x05"),
        (decompress_lz4, compress_lz4(TEXT)[:-9]),
    ],
)
def test_decompressing_malformed_buffers_returns_none(decompress, packed):
    assert decompress(packed) is None
