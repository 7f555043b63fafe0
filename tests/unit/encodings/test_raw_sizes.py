"""Compressed data larger than its values require is refused before memory is allocated for it."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from lance_core.encodings.api import Chunks, VariableWidthBlock
from lance_core.encodings.kernels.codecs import compress_lz4, decompress_lz4, decompress_zstd, zstd_head
from lance_core.encodings.page_decoder import decode_leaf
from lance_core.encodings.raw_sizes import fixed_bytes, most_value_bits, string_sizes
from lance_core.encodings.registry import DECODER
from lance_core.errors import CorruptDataError
from lance_core.proto import pb21
from lance_core.schema.field import Field
from tests.support.encoded_blocks import flat, variable

Encoding = pb21.CompressiveEncoding
BOMB_BYTES = 64 << 20
ZEROS = b"".join([(BOMB_BYTES).to_bytes(8, "little"), zstandard.compress(bytes(BOMB_BYTES), 1)])
SCHEMES = {
    "zstd": (pb21.COMPRESSION_ALGORITHM_ZSTD, ZEROS),
    "lz4": (pb21.COMPRESSION_ALGORITHM_LZ4, compress_lz4(bytes(BOMB_BYTES))),
}


def lists(items: int, values: Encoding, *, has_validity: bool = False) -> Encoding:
    return Encoding(fixed_size_list=pb21.FixedSizeList(items_per_value=items, values=values, has_validity=has_validity))


CHILDREN = {
    "flat": flat(64),
    "variable": variable(),
    "fsst": Encoding(fsst=pb21.Fsst(values=variable(64))),
    "rle": Encoding(rle=pb21.Rle(values=flat(64), run_lengths=flat(8))),
    "byte_stream_split": Encoding(byte_stream_split=pb21.ByteStreamSplit(values=flat(32))),
    "inline_bitpacking": Encoding(inline_bitpacking=pb21.InlineBitpacking(uncompressed_bits_per_value=64)),
    "fixed_size_list": lists(16, flat(32)),
    "fixed_size_list of nulls": lists(16, flat(32), has_validity=True),
    "packed_struct": Encoding(packed_struct=pb21.PackedStruct(bits_per_value=[8, 64], values=flat(72))),
    "constant": Encoding(constant=pb21.Constant()),
}


@contextmanager
def at_most(num_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= num_bytes
    finally:
        tracemalloc.stop()


def wrapped(child: Encoding, scheme: int = pb21.COMPRESSION_ALGORITHM_ZSTD) -> Encoding:
    return Encoding(general=pb21.General(compression=pb21.BufferCompression(scheme=scheme), values=child))


@pytest.mark.parametrize("child", CHILDREN)
def test_oversized_compressed_chunks_are_not_unpacked(child: str) -> None:
    chunks = Chunks.single(np.frombuffer(ZEROS, np.uint8), 100)
    with (
        at_most(4 << 20),
        pytest.raises(
            CorruptDataError, match="cannot be decompressed, or its content is larger than its values require"
        ),
    ):
        DECODER.mini_block(wrapped(CHILDREN[child]), chunks)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("child", ["flat", "variable"])
def test_oversized_compressed_blocks_are_refused(child: str, scheme: str) -> None:
    number, packed = SCHEMES[scheme]
    # An LZ4 block is unpacked as a whole; it grows 255-fold at most.
    limit = (4 << 20) if scheme == "zstd" or child == "flat" else BOMB_BYTES + (4 << 20)
    with at_most(limit), pytest.raises(CorruptDataError, match="cannot be decompressed"):
        DECODER.block(wrapped(CHILDREN[child], number), Chunks.single(np.frombuffer(packed, np.uint8), 100))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_long_strings_that_compress_well_are_read(scheme: str) -> None:
    number, _ = SCHEMES[scheme]
    raw = struct.pack("<3I", 12, 12, 12 + (8 << 20)) + bytes(8 << 20)
    packed = compress_lz4(raw) if scheme == "lz4" else len(raw).to_bytes(8, "little") + zstandard.compress(raw)
    block = DECODER.mini_block(wrapped(variable(), number), Chunks.single(np.frombuffer(packed, np.uint8), 2))
    assert isinstance(block, VariableWidthBlock)
    assert np.diff(block.offsets).tolist() == [0, 8 << 20]


def test_zstd_head_unpacks_only_the_requested_bytes() -> None:
    with at_most(1 << 20):
        assert zstd_head(ZEROS, 1000) == bytes(1000)
        assert decompress_zstd(ZEROS, 1000) is None
        assert decompress_zstd(ZEROS[8:], 1000) is None
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100_000))
    assert zstd_head(streamed, 5) == bytes(5)
    assert zstd_head(streamed, 1 << 40) == bytes(100_000)
    assert decompress_zstd(streamed, 100_000) == bytes(100_000)
    assert decompress_zstd(streamed, 99_999) is None
    assert zstd_head((100_001).to_bytes(8, "little") + zstandard.compress(bytes(100_000)), 5) is None
    assert zstd_head(b"", 5) == zstd_head(ZEROS, 0) == b""
    assert decompress_lz4(compress_lz4(bytes(1000)), 999) is None


def test_zstd_frame_that_overstates_its_size_is_malformed() -> None:
    # A header that states a terabyte, and one that states 2 GB, over a few bytes.
    frame = bytearray(zstandard.compress(bytes(range(100))))
    for stated in (1 << 40, 2_000_000_000):
        lying = bytes(frame[:4]) + b"\xe0" + stated.to_bytes(8, "little") + bytes(frame[6:])
        with at_most(8 << 20):
            assert decompress_zstd(lying) is None
            assert decompress_zstd(stated.to_bytes(8, "little") + lying) is None
            assert not zstd_head(lying, 1 << 31)


def test_encodings_report_the_uncompressed_size_of_their_values() -> None:
    counts = np.array([0, 1, 1000, 1 << 40])
    most = 2**31 - 1
    assert fixed_bytes(flat(64), counts).tolist() == [1024, 1032, 9024, most]
    assert fixed_bytes(CHILDREN["inline_bitpacking"], counts)[:3].tolist() == [1024, 1024 + 8192, 1024 + 8192]
    assert fixed_bytes(CHILDREN["fixed_size_list of nulls"], counts)[:3].tolist() == [1024, 1026, 3024]
    huge = flat(2**64 - 1)
    for _ in range(40):
        huge = lists(2**63, huge)
    assert fixed_bytes(huge, counts)[1:].tolist() == [most] * 3
    assert string_sizes(flat(8), is_block=False) is None
    assert most_value_bits(wrapped(lists(16, Encoding(rle=pb21.Rle(values=flat(32)))))) == 512
    assert most_value_bits(CHILDREN["packed_struct"]) == 72
    assert most_value_bits(variable()) == 0


@pytest.mark.parametrize("dtype", ["int32", "string", "fixed_size_list:int8:16"])
def test_values_wider_than_the_column_are_refused(dtype: str) -> None:
    layout = pb21.PageLayout(mini_block=pb21.MiniBlockLayout(value_compression=wrapped(flat(1 << 24)), num_buffers=1))
    buffers = [pa.py_buffer(bytes(8)), pa.py_buffer(bytes(64))]
    with pytest.raises(CorruptDataError, match=r"16777216 bits, expected at most (64|128) bits for this column"):
        decode_leaf(Field(id=0, name="a", logical_type=dtype), layout, buffers, 10)
