"""Each compressive encoding decodes hand-written bytes and encodes values to the same bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import zstandard

from lance_core.encodings.api import (
    Chunks,
    DictionaryBlock,
    FixedRows,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    VariableWidthBlock,
)
from lance_core.encodings.compressive.general import compress_chunks
from lance_core.encodings.compressive.out_of_line_bitpacking import encode_blocks
from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.registry import DECODER, ENCODER, describe
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb21
from tests.support.encoded_blocks import as_bytes, flat, reread, strings_of, variable

Encoding = pb21.CompressiveEncoding


def chunks_of(*chunks, num_values):
    """Return chunks given as tuples of buffers."""
    buffers = []
    for column in zip(*chunks, strict=True):
        sizes = np.array([len(part) for part in column], np.int64)
        buffers.append(Segments.back_to_back(as_bytes(b"".join(column)), sizes))
    return Chunks(np.array(num_values, np.int64), tuple(buffers))


def string_block(strings, dtype=np.int32):
    return VariableWidthBlock(np.cumsum([0, *map(len, strings)]).astype(dtype), as_bytes(b"".join(strings)))


# ── flat ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flat_words_of_two_chunks_are_joined():
    block = DECODER.mini_block(flat(16), chunks_of((b"\1\0\2\0pad!",), (b"\3\0",), num_values=[2, 1]))
    assert block.data.view(np.uint16).tolist() == [1, 2, 3]


def test_flat_bitmaps_start_at_a_byte_boundary_in_every_chunk():
    block = DECODER.mini_block(flat(1), chunks_of((b"\x03",), (b"\x01",), (b"\x02",), num_values=[2, 2, 2]))
    assert np.unpackbits(block.data, count=6, bitorder="little").tolist() == [1, 1, 1, 0, 0, 1]


@pytest.mark.parametrize(("bits", "num_values"), [(1, 5000), (8, 4097), (128, 1025), (24, 70)])
def test_flat_encoding_survives_a_round_trip(bits, num_values):
    data = np.random.default_rng(bits).integers(0, 256, -(-num_values * bits // 8), np.uint8)
    encoded = ENCODER.mini_block("flat", FixedWidthBlock(num_values, bits, data), 64)
    assert encoded.num_values.tolist() == [64] * (num_values // 64) + [num_values % 64][: num_values % 64]
    block = DECODER.mini_block(encoded.encoding, reread(encoded))
    assert (block.num_values, block.data.tobytes()) == (num_values, data.tobytes())


def test_flat_chunk_of_the_wrong_size_raises_corrupt_data():
    with pytest.raises(CorruptDataError, match="chunk 1 has 3 bytes, expected 4 for 1 value of 32 bits"):
        DECODER.mini_block(flat(32), chunks_of((b"abcd",), (b"abc",), num_values=[1, 1]))
    with pytest.raises(CorruptDataError, match="must be 1, or a multiple of 8 of at most"):
        DECODER.mini_block(flat(12), chunks_of((b"abcd",), num_values=[1]))


# ── variable ────────────────────────────────────────────────────────────────────────────────────────────────────────

AB_C = bytes.fromhex("10000000 12000000 12000000 13000000") + b"abcH"


def test_variable_encoding_offsets_are_relative_to_the_start_of_the_buffer():
    block = DECODER.mini_block(variable(), chunks_of((AB_C,), num_values=[3]))
    assert strings_of(block) == [b"ab", b"", b"c"]


def test_variable_encoding_writes_the_specified_bytes_except_for_padding():
    chunks = reread(ENCODER.mini_block("variable", string_block([b"ab", b"", b"c"]), 4))
    assert chunks.buffers[0].segment(0).tobytes() == AB_C[:-1] + b"\0"


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("num_strings", [1, 7, 8, 9, 100])
def test_variable_encoding_survives_a_round_trip(dtype, num_strings):
    strings = [b"x" * (i * 7 % 23) for i in range(num_strings)]
    block = string_block([b"skipped", *strings], dtype).slice(1, num_strings + 1)
    encoded = ENCODER.mini_block("variable", block, 8)
    assert strings_of(DECODER.mini_block(encoded.encoding, reread(encoded))) == strings


@pytest.mark.parametrize(
    ("offsets", "message"),
    [((8, 20), "decrease or extend past"), ((12, 11), "decrease or extend past"), ((4, 9), "decrease or extend past")],
)
def test_variable_encoding_with_invalid_offsets_raises_corrupt_data(offsets, message):
    with pytest.raises(CorruptDataError, match=message):
        DECODER.mini_block(variable(), chunks_of((struct.pack("<2I", *offsets) + b"abc",), num_values=[1]))


def test_variable_chunk_shorter_than_its_offsets_raises_corrupt_data():
    with pytest.raises(CorruptDataError, match="too short for the offsets"):
        DECODER.mini_block(variable(), chunks_of((b"\x08\0\0\0",), num_values=[1]))


@pytest.mark.parametrize(
    ("bits", "block"),
    [
        (32, struct.pack("<2I3I", 32, 20, 0, 2, 3) + b"abc"),
        (64, struct.pack("<2Q3Q", 64, 40, 0, 2, 3) + b"abc"),
    ],
)
def test_variable_block_survives_a_round_trip(bits, block):
    decoded = DECODER.block(variable(bits), Chunks.single(as_bytes(block), 2))
    assert strings_of(decoded) == [b"ab", b"c"]
    encoding, data = ENCODER.block("variable", string_block([b"ab", b"c"], np.dtype(f"i{bits // 8}")))
    assert (encoding, data.tobytes()) == (variable(bits), block)


@pytest.mark.parametrize(
    "block", [struct.pack("<2I2I", 32, 99, 0, 2), struct.pack("<2I2I", 32, 16, 0, 2), struct.pack("<I", 32)]
)
def test_variable_block_with_invalid_positions_raises_corrupt_data(block):
    with pytest.raises(CorruptDataError):
        DECODER.block(variable(), Chunks.single(as_bytes(block), 1))


# ── bit packing ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("packed_bits", [0, 1, 3, 16])
@pytest.mark.parametrize(
    "counts", [[1025], [1100], [1500], [2000], [1024], [7], [512, 512, 30], [3000, 1, 0, 1024, 65]]
)
def test_out_of_line_bitpacking_survives_a_round_trip(packed_bits, counts):
    rng = np.random.default_rng(packed_bits)
    values = rng.integers(0, 1 << packed_bits, sum(counts)).astype(np.uint16)
    encoding, segments = encode_blocks(values, np.array(counts), packed_bits)
    block = DECODER.block(encoding, Chunks(np.array(counts), (segments,)))
    assert (block.data.view(np.uint16) == values).all()


def test_out_of_line_bitpacking_packs_the_tail_only_when_the_packed_tail_is_smaller():
    def num_bytes(count):
        return encode_blocks(np.ones(count, np.uint16), np.array([count]), 1)[1].num_bytes

    assert num_bytes(64) == 128  # raw words, as many bytes as a block
    assert num_bytes(65) == 128  # packed
    assert num_bytes(1024 + 10) == 128 + 20


def test_out_of_line_bitpacking_reads_raw_and_packed_tails():
    encoding = Encoding(out_of_line_bitpacking=pb21.OutOfLineBitpacking(uncompressed_bits_per_value=16, values=flat(1)))
    raw = np.array([1, 0, 1], "<u2").tobytes()
    packed = encode_blocks(np.array([1, 0, 1] + [0] * 1021, np.uint16), np.array([1024]), 1)[1].segment(0).tobytes()
    for tail in (raw, packed):
        block = DECODER.block(encoding, Chunks.single(as_bytes(tail), 3))
        assert block.data.view(np.uint16).tolist() == [1, 0, 1]
    with pytest.raises(CorruptDataError, match="too short"):
        DECODER.block(encoding, Chunks.single(as_bytes(packed[:-1]), 3))


def test_inline_bitpacking_stores_its_width_first():
    values = np.array([5, 0, 7], "<u4")
    encoded = ENCODER.mini_block("inline_bitpacking", FixedWidthBlock(3, 32, values.view(np.uint8)), 1024)
    chunks = reread(encoded)
    assert chunks.buffers[0].segment(0)[:4].tobytes() == b"\x03\0\0\0"
    assert chunks.buffers[0].num_bytes == 4 + 3 * 128
    assert DECODER.mini_block(encoded.encoding, chunks).data.view("<u4").tolist() == [5, 0, 7]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_inline_bitpacking_widths_may_differ_between_chunks(bits):
    rng = np.random.default_rng(bits)
    parts = [rng.integers(0, 1 << width, 1024).astype(f"<u{bits // 8}") for width in (0, 7, 1, 1, 5, 0, 7)]
    values = np.concatenate([*parts, parts[1][:77]])
    encoded = ENCODER.mini_block("inline_bitpacking", FixedWidthBlock(len(values), bits, values.view(np.uint8)), 1024)
    chunks = reread(encoded)
    assert chunks.buffers[0].sizes[0] == bits // 8
    block = DECODER.mini_block(encoded.encoding, chunks)
    assert block.data.tobytes() == values.tobytes()


@pytest.mark.parametrize("chunk", [b"", b"\x09" + bytes(8 * 128), b"\x03" + bytes(3 * 128 - 1)])
def test_inline_bitpacking_with_an_invalid_width_or_size_raises_corrupt_data(chunk):
    encoding = Encoding(inline_bitpacking=pb21.InlineBitpacking(uncompressed_bits_per_value=8))
    with pytest.raises(CorruptDataError):
        DECODER.mini_block(encoding, chunks_of((chunk,), num_values=[5]))


# ── runs, planes, compression ───────────────────────────────────────────────────────────────────────────────────────

RLE = Encoding(rle=pb21.Rle(values=flat(16), run_lengths=flat(8)))


def test_rle_has_two_buffers_per_chunk():
    chunks = chunks_of((b"\7\0\x08\0", b"\2\1"), (b"\x09\0", b"\xff"), num_values=[3, 4])
    assert DECODER.mini_block(RLE, chunks).data.view(np.uint16).tolist() == [7, 7, 8, 9, 9, 9, 9]


def test_rle_block_starts_with_a_size():
    block = struct.pack("<Q2H2B", 4, 7, 8, 2, 1)
    assert DECODER.block(RLE, Chunks.single(as_bytes(block), 3)).data.view(np.uint16).tolist() == [7, 7, 8]


@pytest.mark.parametrize("block", [struct.pack("<Q2H2B", 5, 7, 8, 2, 1), struct.pack("<Q", 1 << 63), b"\0\0"])
def test_rle_block_with_an_invalid_size_raises_corrupt_data(block):
    with pytest.raises(CorruptDataError):
        DECODER.block(RLE, Chunks.single(as_bytes(block), 3))


def test_rle_with_runs_shorter_than_the_values_raises_corrupt_data():
    with pytest.raises(CorruptDataError, match="total length of the runs"):
        DECODER.mini_block(RLE, chunks_of((b"\7\0", b"\2"), num_values=[3]))


def test_byte_stream_split_decodes_chunks_of_two_sizes():
    encoding = Encoding(byte_stream_split=pb21.ByteStreamSplit(values=flat(32)))
    block = DECODER.mini_block(encoding, chunks_of((b"aAbBcCdD",), (b"eEfFgGhH",), (b"wxyz",), num_values=[2, 2, 1]))
    assert block.data.tobytes() == b"abcdABCDefghEFGHwxyz"


@pytest.mark.parametrize("scheme", ["ZSTD", "LZ4"])
def test_general_compression_compresses_the_first_buffer_of_each_chunk(scheme):
    strings = [b"repetitive " * (i % 5) for i in range(64)]
    plain = ENCODER.mini_block("variable", string_block(strings), 16)
    packed = compress_chunks(plain, getattr(pb21, f"COMPRESSION_ALGORITHM_{scheme}"))
    assert describe(packed.encoding) == f"general[{scheme.lower()}](variable(offsets=flat[32]))"
    chunks = reread(packed)
    assert chunks.buffers[0].num_bytes < reread(plain).buffers[0].num_bytes
    assert strings_of(DECODER.mini_block(packed.encoding, chunks)) == strings


def test_general_compression_skips_data_that_does_not_shrink():
    noise = np.random.default_rng(0).integers(0, 256, 800, np.uint8)
    plain = ENCODER.mini_block("flat", FixedWidthBlock(100, 64, noise), 1024)
    assert compress_chunks(plain, pb21.COMPRESSION_ALGORITHM_ZSTD) is None


def test_general_compression_compresses_full_zip_values_one_by_one():
    raw = [b"abc" * 100, b"", b"d"]
    packed = [len(part).to_bytes(8, "little") + zstandard.compress(part) if part else b"" for part in raw]
    scheme = pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_ZSTD)
    encoding = Encoding(general=pb21.General(compression=scheme, values=variable()))
    assert strings_of(DECODER.per_value(encoding, string_block(packed))) == raw


def test_general_compression_with_malformed_frames_raises_corrupt_data():
    scheme = pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_LZ4)
    encoding = Encoding(general=pb21.General(compression=scheme, values=flat(8)))
    with pytest.raises(CorruptDataError, match="compressed buffer 0 cannot be decompressed"):
        DECODER.mini_block(encoding, chunks_of((b"\xff\xff\0\0garbage",), num_values=[3]))


def test_fsst_expands_the_strings_of_its_child_encoding():
    header = (0x46535354 << 32 | 1 << 24 | 1).to_bytes(8, "little")
    table = (header + b"ab".ljust(8, b"\0") + b"\x02").ljust(2312, b"\0")
    child = struct.pack("<3I", 12, 14, 16) + b"\0\0\xffz"
    encoding = Encoding(fsst=pb21.Fsst(symbol_table=table, values=variable()))
    assert strings_of(DECODER.mini_block(encoding, chunks_of((child,), num_values=[2]))) == [b"abab", b"z"]
    with pytest.raises(CorruptDataError, match="symbol table"):
        DECODER.mini_block(Encoding(fsst=pb21.Fsst(values=variable())), chunks_of((child,), num_values=[2]))


# ── lists and structs ───────────────────────────────────────────────────────────────────────────────────────────────


def test_fixed_size_list_chunk_decodes_items_and_validity():
    encoding = Encoding(fixed_size_list=pb21.FixedSizeList(items_per_value=2, values=flat(32), has_validity=True))
    values = np.array([1, 0, 0, 0, 3, 4], "<f4").tobytes()
    block = DECODER.mini_block(encoding, chunks_of((b"\x31", values), num_values=[3]))
    assert block.validity.tolist() == [True, False, False, False, True, True]
    assert block.items.data.view("<f4").tolist() == [1, 0, 0, 0, 3, 4]


def nested_lists(num_values, *, nullable):
    rng = np.random.default_rng(num_values)
    items = FixedWidthBlock(num_values * 6, 16, rng.integers(0, 256, num_values * 12, np.uint8))
    inner = FixedSizeListBlock(num_values * 2, 3, items, rng.random(num_values * 6) < 0.5 if nullable else None)
    return FixedSizeListBlock(num_values, 2, inner, rng.random(num_values * 2) < 0.5 if nullable else None)


@pytest.mark.parametrize("nullable", [False, True])
def test_nested_fixed_size_lists_survive_a_round_trip_in_both_forms(nullable):
    block = nested_lists(70, nullable=nullable)
    encoded = ENCODER.mini_block("fixed_size_list", block, 16)
    encoding, rows = ENCODER.per_value("fixed_size_list", block)
    # spec: ceil(2 / 8) and ceil(6 / 8) bytes of validity in front of six values
    assert rows.rows.shape == (70, 12 + 2 * nullable)
    for decoded in (DECODER.mini_block(encoded.encoding, reread(encoded)), DECODER.per_value(encoding, rows)):
        assert decoded.items.items.data.tobytes() == block.items.items.data.tobytes()
        for found, written in ((decoded.validity, block.validity), (decoded.items.validity, block.items.validity)):
            assert (found is None and written is None) or (found == written).all()


def test_fixed_size_lists_of_nulls_store_only_their_validity():
    null = Encoding(constant=pb21.Constant())
    encoding = Encoding(fixed_size_list=pb21.FixedSizeList(items_per_value=3, values=null, has_validity=True))
    block = DECODER.per_value(encoding, FixedRows(as_bytes(b"\0\0").reshape(2, 1)))
    assert (block.num_values, block.items) == (2, NullBlock(6))


def test_packed_struct_rows_are_split_into_members():
    encoding = Encoding(packed_struct=pb21.PackedStruct(bits_per_value=[16, 8], values=flat(24)))
    block = DECODER.mini_block(encoding, chunks_of((b"aabccd",), num_values=[2]))
    assert [member.data.tobytes() for member in block.members] == [b"aacc", b"bd"]
    assert [member.data.tobytes() for member in block.slice(1, 2).members] == [b"cc", b"d"]


def packed_members(*rows):
    number = pb21.VariablePackedStruct.FieldEncoding(value=flat(16), bits_per_value=16)
    text = pb21.VariablePackedStruct.FieldEncoding(value=variable(), bits_per_length=32)
    encoding = Encoding(variable_packed_struct=pb21.VariablePackedStruct(fields=[number, text]))
    return DECODER.per_value(encoding, string_block(rows))


def test_variable_packed_struct_rows_are_split_into_members():
    block = packed_members(b"\7\0" + b"\2\0\0\0ab", b"", b"\x08\0" + b"\0\0\0\0")
    number, text = block.members
    assert number.data.view("<u2").tolist() == [7, 0, 8]
    assert strings_of(text) == [b"ab", b"", b""]
    assert strings_of(block.slice(0, 1).members[1]) == [b"ab"]


@pytest.mark.parametrize(
    "row", [b"\7", b"\7\0\1", b"\7\0\2\0\0\0a", b"\7\0\1\0\0\0ab", b"\7\0\xff\xff\xff\xff"], ids=bytes.hex
)
def test_variable_packed_struct_row_of_the_wrong_size_raises_corrupt_data(row):
    with pytest.raises(CorruptDataError, match="row"):
        packed_members(b"\7\0\0\0\0\0", row)


# ── blocks and refusals ─────────────────────────────────────────────────────────────────────────────────────────────


def test_slices_of_blocks_of_every_kind_have_the_correct_values():
    bits = FixedWidthBlock(20, 1, np.packbits(np.arange(20) % 3 == 0, bitorder="little"))
    assert np.unpackbits(bits.slice(5, 12).data, count=7, bitorder="little").tolist() == [0, 1, 0, 0, 1, 0, 0]
    assert strings_of(string_block([b"a", b"bc", b"d"]).slice(1, 3)) == [b"bc", b"d"]
    lists = nested_lists(5, nullable=True).slice(1, 3)
    assert (lists.num_values, lists.items.num_values, len(lists.validity)) == (2, 4, 4)
    indices = FixedWidthBlock(3, 8, np.array([0, 1, 0], np.uint8))
    assert DictionaryBlock(indices, NullBlock(2)).slice(1, 3).indices.data.tolist() == [1, 0]
    assert NullBlock(5).slice(1, 3).num_values == 2


@pytest.mark.parametrize(
    "encoding",
    [
        Encoding(dictionary=pb21.Dictionary()),
        Encoding(range=pb21.Range()),
        Encoding(delta=pb21.Delta()),
        Encoding(out_of_line_bitpacking=pb21.OutOfLineBitpacking()),
        Encoding(flat=pb21.Flat(bits_per_value=8, data=pb21.BufferCompression())),
        Encoding(general=pb21.General(values=flat(8))),
    ],
    ids=describe,
)
def test_unsupported_encodings_are_refused_and_named_in_the_error(encoding):
    with pytest.raises(UnsupportedEncodingError, match=encoding.WhichOneof("compression")):
        DECODER.mini_block(encoding, chunks_of((b"abcd",), num_values=[1]))


def test_encoding_without_a_kind_is_corrupt_and_an_unknown_kind_is_unsupported():
    with pytest.raises(CorruptDataError, match="has no type"):
        DECODER.block(Encoding(), Chunks.single(as_bytes(b""), 0))
    with pytest.raises(UnsupportedEncodingError, match="has an unknown type"):
        DECODER.block(Encoding.FromString(b"\xfa\x01\x00"), Chunks.single(as_bytes(b""), 0))


def test_deeply_nested_encodings_are_refused():
    scheme = pb21.BufferCompression(scheme=pb21.COMPRESSION_ALGORITHM_ZSTD)
    encoding = flat(8)
    for _ in range(40):
        encoding = Encoding(general=pb21.General(compression=scheme, values=encoding))
    with pytest.raises(UnsupportedEncodingError, match="nested more than"):
        DECODER.mini_block(encoding, chunks_of((b"",), num_values=[0]))
