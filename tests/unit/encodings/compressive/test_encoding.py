"""Values encoded in every form of the format decode to the same values; small cases are compared byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.api import (
    Chunks,
    FixedRows,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    StructBlock,
)
from lance_core.encodings.compressive.fsst import compress_strings
from lance_core.encodings.compressive.general import compress_block, compress_chunks, compress_values
from lance_core.encodings.compressive.rle import encode_runs
from lance_core.encodings.registry import COMPRESSIVE, DECODER, ENCODER, describe
from lance_core.errors import InternalError
from lance_core.proto import pb21
from tests.support.encoded_blocks import reread, strings, strings_of, words

RNG = np.random.default_rng(8)
WORD_BITS = [8, 16, 32, 64]


def through_chunks(arm, block, values_per_chunk):
    encoded = ENCODER.mini_block(arm, block, values_per_chunk)
    return DECODER.mini_block(encoded.encoding, reread(encoded))


def through_block(arm, block):
    encoding, data = ENCODER.block(arm, block)
    return DECODER.block(encoding, Chunks.single(data, block.num_values))


def test_every_encoding_except_general_compression_writes_each_form_it_reads():
    missing = {
        (arm, form)
        for arm, encoding in COMPRESSIVE.items()
        for form in ("mini_block", "per_value", "block")
        if getattr(encoding, form) is not None and getattr(encoding, form).encode is None
    }
    # Compression wraps the output of another arm: see compress_chunks, compress_values, compress_block.
    assert missing == {("general", "mini_block"), ("general", "per_value"), ("general", "block")}


def test_rle_writes_the_specified_bytes():
    encoded = ENCODER.mini_block("rle", words([7, 7, 7, 9], 16), 2)
    values, lengths = reread(encoded).buffers
    assert [values.segment(index).tobytes() for index in range(2)] == [b"\x07\x00", b"\x07\x00\x09\x00"]
    assert [lengths.segment(index).tobytes() for index in range(2)] == [b"\x02", b"\x01\x01"]
    _, block = ENCODER.block("rle", words([7, 7, 9], 16))
    assert block.tobytes() == (4).to_bytes(8, "little") + b"\x07\x00\x09\x00" + b"\x02\x01"


@pytest.mark.parametrize("bits", WORD_BITS)
@pytest.mark.parametrize("longest", [1, 5, 300, 2000])
def test_rle_survives_a_round_trip(bits, longest):
    values = np.repeat(RNG.integers(0, 200, 40), RNG.integers(1, longest + 1, 40))
    block = words(values, bits)
    assert through_chunks("rle", block, 64).data.tobytes() == block.data.tobytes()
    assert through_block("rle", block).data.tobytes() == block.data.tobytes()


def test_rle_of_sequences_of_unequal_length_survives_a_round_trip():
    levels = np.array([1] * 700 + [0, 0, 1], np.uint16)
    encoding, segments = encode_runs(levels, np.array([300, 0, 403]))
    decoded = DECODER.block(encoding, Chunks(np.array([300, 0, 403]), (segments,)))
    assert decoded.data.view(np.uint16).tolist() == levels.tolist()


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("num_values", [1, 64, 200])
def test_byte_stream_split_survives_a_round_trip(bits, num_values):
    block = FixedWidthBlock(num_values, bits, RNG.integers(0, 256, num_values * bits // 8).astype(np.uint8))
    assert through_chunks("byte_stream_split", block, 64).data.tobytes() == block.data.tobytes()
    encoded = ENCODER.mini_block("byte_stream_split", words([0x0102, 0x0304], 16), 2)
    assert reread(encoded).buffers[0].gather().tobytes() == b"\x02\x04\x01\x03"


@pytest.mark.parametrize("bits", WORD_BITS)
@pytest.mark.parametrize("num_values", [1, 1000, 1024])
def test_bitpacked_blocks_survive_a_round_trip(bits, num_values):
    for width in range(bits + 1):
        values = RNG.integers(0, 1 << min(width, 62), num_values) if width else np.zeros(num_values, np.int64)
        block = words(values, bits)
        assert through_block("inline_bitpacking", block).data.tobytes() == block.data.tobytes()
        assert through_block("out_of_line_bitpacking", block).data.tobytes() == block.data.tobytes()
    with pytest.raises(InternalError, match="1 to 1024"):
        ENCODER.block("inline_bitpacking", words(range(1025), 16))


@pytest.mark.parametrize("scheme", [pb21.COMPRESSION_ALGORITHM_ZSTD, pb21.COMPRESSION_ALGORITHM_LZ4])
def test_compressed_blocks_survive_a_round_trip(scheme):
    encoding, data = ENCODER.block("variable", strings(*[b"again and again"] * 50))
    packed = compress_block(encoding, data, scheme)
    assert packed is not None
    assert len(packed[1]) < len(data)
    assert strings_of(DECODER.block(packed[0], Chunks.single(packed[1], 50))) == [b"again and again"] * 50
    noise = RNG.integers(0, 256, 100).astype(np.uint8)
    assert compress_block(*ENCODER.block("flat", FixedWidthBlock(100, 8, noise)), scheme) is None


def test_general_compression_wraps_chunks_of_any_encoding():
    block = words(np.repeat(np.arange(64), 64), 32)
    for arm, size in (("flat", 1024), ("inline_bitpacking", 1024), ("byte_stream_split", 1024), ("rle", 4096)):
        chunks = compress_chunks(ENCODER.mini_block(arm, block, size), pb21.COMPRESSION_ALGORITHM_ZSTD)
        assert chunks is not None
        assert describe(chunks.encoding).startswith(f"general[zstd]({arm}")
        assert DECODER.mini_block(chunks.encoding, reread(chunks)).data.tobytes() == block.data.tobytes()


def test_values_are_compressed_one_by_one_and_empty_values_stay_empty():
    values = [b"a" * 500, b"", b"b" * 300]
    packed = compress_values(*ENCODER.per_value("variable", strings(*values)), 3)
    assert packed is not None
    assert np.diff(packed[1].offsets).tolist()[1] == 0
    assert strings_of(DECODER.per_value(*packed)) == values


def test_fsst_survives_a_round_trip_in_both_forms():
    values = [f"https://example.com/{index % 50}/path".encode() for index in range(2000)] + [b"", b"\xff" * 9]
    block = strings(*values)
    compressed = compress_strings(block)
    assert compressed is not None
    assert len(compressed.symbol_table) == 2312
    assert len(compressed.strings.data) < len(block.data) / 2
    assert strings_of(through_chunks("fsst", block, 64)) == values
    encoding, rows = ENCODER.per_value("fsst", block)
    assert len(encoding.fsst.symbol_table) == 2312
    assert strings_of(DECODER.per_value(encoding, rows)) == values


def test_fsst_without_compiled_kernels_stores_uncompressed_strings(monkeypatch):
    monkeypatch.setattr("lance_core.encodings.compressive.fsst.train_symbols", lambda *_: None)
    encoded = ENCODER.mini_block("fsst", strings(b"as it is"), 2)
    assert len(encoded.encoding.fsst.symbol_table) == 2312
    assert strings_of(DECODER.mini_block(encoded.encoding, reread(encoded))) == [b"as it is"]


def test_packed_structs_survive_a_round_trip():
    members = (words([1, 2, 3], 8), words([40, 50, 60], 32))
    block = StructBlock(3, members)
    encoded = ENCODER.mini_block("packed_struct", block, 2)
    assert reread(encoded).buffers[0].segment(0).tobytes() == b"\x01\x28\0\0\0\x02\x32\0\0\0"
    for found in (
        DECODER.mini_block(encoded.encoding, reread(encoded)),
        DECODER.per_value(*ENCODER.per_value("packed_struct", block)),
    ):
        assert [member.data.tobytes() for member in found.members] == [member.data.tobytes() for member in members]
    with pytest.raises(InternalError, match="whole bytes"):
        ENCODER.mini_block("packed_struct", StructBlock(3, (FixedWidthBlock(3, 1, np.zeros(1, np.uint8)),)), 2)


def test_variable_packed_structs_survive_a_round_trip():
    block = StructBlock(2, (words([1, 2], 16), strings(b"ab", b""), words([3, 4], 8)))
    encoding, rows = ENCODER.per_value("variable_packed_struct", block)
    assert strings_of(rows) == [b"\x01\0\x02\0\0\0ab\x03", b"\x02\0\0\0\0\0\x04"]
    found = DECODER.per_value(encoding, rows)
    assert strings_of(found.members[1]) == [b"ab", b""]
    assert found.members[2].data.tolist() == [3, 4]


def test_null_items_of_fixed_size_lists_take_no_bytes():
    block = FixedSizeListBlock(3, 4, NullBlock(12), np.zeros(12, np.bool_))
    encoding, rows = ENCODER.per_value("fixed_size_list", block)
    assert isinstance(rows, FixedRows)
    assert rows.rows.shape == (3, 1)
    assert describe(encoding) == "fixed_size_list[4, nullable](constant[null])"
    assert DECODER.per_value(encoding, rows).num_values == 3
    assert through_chunks("constant", NullBlock(10), 4).num_values == 10


@pytest.mark.parametrize("arm", ["rle", "byte_stream_split", "fsst", "packed_struct", "constant"])
def test_encoding_a_block_of_the_wrong_class_raises_internal_error(arm):
    other = NullBlock(3) if arm != "constant" else words([1, 2, 3], 8)
    with pytest.raises(InternalError):
        ENCODER.mini_block(arm, other, 2)
