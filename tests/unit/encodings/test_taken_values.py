"""Single values taken from encoded pages equal those obtained by decoding the whole page."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.api import (
    Chunks,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    Picks,
    StructBlock,
)
from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES, block_bytes, pack_blocks, pick_words
from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.page_decoder import assemble, decode_leaf
from lance_core.encodings.page_encoder import encode_pages
from lance_core.encodings.registry import DECODER, ENCODER
from lance_core.encodings.taken_values import take_values
from lance_core.errors import CorruptDataError
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion
from tests.support.encoded_blocks import strings, strings_of, words


def test_take_values_selects_from_every_kind_of_block():
    at = np.array([0, 2])
    assert take_values(words([7, 8, 9], 16), at).data.view("<u2").tolist() == [7, 9]
    assert take_values(FixedWidthBlock(3, 1, np.array([0b101], np.uint8)), at).data.tolist() == [0b11]
    assert take_values(FixedWidthBlock(3, 24, np.arange(9, dtype=np.uint8)), at).data.tolist() == [0, 1, 2, 6, 7, 8]
    assert strings_of(take_values(strings(b"ab", b"c", b"def"), at)) == [b"ab", b"def"]
    lists = FixedSizeListBlock(3, 2, words(range(6), 8), np.array([True, False, True, True, False, True]))
    taken = take_values(lists, at)
    assert (taken.items.data.tolist(), taken.validity.tolist()) == ([0, 1, 4, 5], [True, False, False, True])
    named = take_values(DictionaryBlock(words([1, 0, 1], 8), strings(b"x", b"y")), at)
    assert (named.indices.data.tolist(), strings_of(named.items)) == ([1, 1], [b"x", b"y"])
    members = take_values(StructBlock(3, (words([1, 2, 3], 8), strings(b"a", b"b", b"c"))), at).members
    assert (members[0].data.tolist(), strings_of(members[1])) == ([1, 3], [b"a", b"c"])
    assert take_values(NullBlock(3), at) == NullBlock(2)


@pytest.mark.parametrize("value_bits", [8, 16, 32, 64])
def test_values_are_picked_from_fastlanes_blocks_of_every_width(value_bits):
    random = np.random.default_rng(value_bits)
    for packed_bits in range(value_bits + 1):
        limit = (1 << packed_bits) - 1
        values = random.integers(0, limit, (3, BLOCK_VALUES), f"u{value_bits // 8}", endpoint=True)
        packed = pack_blocks(values, value_bits, packed_bits).reshape(-1).view(np.uint8)
        data = np.concatenate([np.zeros(3, np.uint8), packed, np.zeros(1, np.uint8)])
        blocks = np.repeat(np.arange(3), BLOCK_VALUES)
        slots = np.tile(np.arange(BLOCK_VALUES), 3)
        widths = np.full(len(slots), packed_bits)
        found = pick_words(data, 3 + blocks * block_bytes(packed_bits), slots, value_bits, widths)
        assert np.array_equal(found, values.reshape(-1))


@pytest.mark.parametrize("arm", ["flat", "inline_bitpacking"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_picked_values_equal_values_taken_after_decoding(arm, bits):
    random = np.random.default_rng(bits)
    block = words(random.integers(0, 1 << (bits - 1), 5000, np.uint64) >> np.uint64(bits // 3), bits)
    chunks = ENCODER.mini_block(arm, block, 1024)
    gathered = tuple(pieces[0] for pieces in chunks.buffers)
    if len(chunks.buffers[0]) > 1:
        joined = [b"".join(piece.segment(i).tobytes() for piece in chunks.buffers[0]) for i in range(5)]
        gathered = (
            Segments.back_to_back(np.frombuffer(b"".join(joined), np.uint8), np.array([len(part) for part in joined])),
        )
    places = np.sort(random.choice(5000, 300, replace=False))
    picks = Picks(places // 1024, places % 1024)
    found = DECODER.pick(chunks.encoding, Chunks(chunks.num_values, gathered), picks)
    assert np.array_equal(found.data, take_values(block, places).data)


def test_picked_string_offsets_outside_their_chunk_raise_corrupt_data():
    encoding = pb21.CompressiveEncoding(
        variable=pb21.Variable(offsets=pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=32)))
    )
    for offsets in ([12, 14, 99], [12, 16, 14], [3, 14, 16]):
        data = np.concatenate([np.array(offsets, "<u4").view(np.uint8), np.zeros(4, np.uint8)])
        chunks = Chunks(np.array([2]), (Segments.back_to_back(data, np.array([len(data)])),))
        with pytest.raises(CorruptDataError, match="offsets of a chunk"):
            DECODER.pick(encoding, chunks, Picks(np.array([0, 0]), np.array([0, 1])))


RANDOM = np.random.default_rng(9)
LENGTHS = np.concatenate([[0], np.cumsum(RANDOM.integers(0, 6, 4000))]).astype(np.int32)
ARRAYS = {
    "integers": pa.array(RANDOM.integers(0, 900, 4000)),
    "nullable": pa.array(RANDOM.integers(0, 900, 4000), mask=RANDOM.random(4000) < 0.3),
    "bools": pa.array(RANDOM.random(4000) < 0.5),
    "strings": pa.array([f"string number {i * 7919 % 4000}" for i in range(4000)]),
    "words": pa.array(["a", "b", None, "c"] * 1000),
    "long": pa.array([f"{i}" * 80 for i in range(4000)]),
    "vectors": pa.FixedSizeListArray.from_arrays(pa.array(RANDOM.random(12_000)), 3),
    "lists": pa.ListArray.from_arrays(LENGTHS, pa.array(RANDOM.integers(0, 99, int(LENGTHS[-1])))),
    "lists of long": pa.ListArray.from_arrays(LENGTHS, pa.array(["x" * (i % 400) for i in range(int(LENGTHS[-1]))])),
    "constant": pa.array([5] * 4000, mask=RANDOM.random(4000) < 0.3),
    "constant lists": pa.ListArray.from_arrays(LENGTHS, pa.array([5] * int(LENGTHS[-1]))),
    "all null lists": pa.ListArray.from_arrays(LENGTHS, pa.nulls(int(LENGTHS[-1]), pa.int32())),
}


@pytest.mark.parametrize("version", [LanceFileVersion.V2_1, LanceFileVersion.V2_2])
@pytest.mark.parametrize("name", ARRAYS)
def test_page_decoder_returns_exactly_the_picked_rows(name, version):
    array = ARRAYS[name]
    field = schema_from_arrow(pa.schema([("c", array.type)])).fields[0]
    (page,) = encode_pages(field, array, version=version)
    [leaf] = field.leaves()
    for num_rows in (1, 2, 50, 3000):
        rows = np.sort(np.random.default_rng(num_rows).choice(4000, num_rows, replace=False))
        found = assemble(field, [decode_leaf(leaf, page.layout, page.buffers, page.num_rows, rows=rows)])
        found.validate(full=True)
        assert found.equals(array.take(pa.array(rows)))
