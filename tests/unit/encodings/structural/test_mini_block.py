"""Mini-block pages, compared with bytes written by pylance 14.0.2, and the rules for their chunks."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.api import FixedWidthBlock
from lance_core.encodings.levels.build import ItemSlots, Levels, ListSlots, shred
from lance_core.encodings.levels.layers import Layers
from lance_core.encodings.page_decoder import run_in_memory
from lance_core.encodings.registry import DECODER, ENCODER
from lance_core.encodings.structural import mini_block, mini_block_pages
from lance_core.encodings.structural.chunk_directory import ChunkDirectory, ChunkTable
from lance_core.encodings.structural.repetition_index import RepetitionIndex, build_repetition_index
from lance_core.errors import CorruptDataError
from lance_core.proto import pb21
from tests.support.encoded_blocks import as_bytes, flat

FLAT32 = flat(32)
FLAT16 = flat(16)

# [[1, 2], null, [], [3, null]] as written by pylance 14.0.2.
LISTS = pb21.MiniBlockLayout(
    rep_compression=FLAT16,
    def_compression=FLAT16,
    value_compression=FLAT32,
    layers=[3, 6],
    num_buffers=1,
    repetition_index_depth=1,
    num_items=4,
    has_large_chunk=True,
)
LISTS_WORDS = bytes.fromhex("70000000")
LISTS_CHUNK = bytes.fromhex(
    "0600 0c00 0c00 10000000 fefefefefefe0100 0000 0100 0100 0100 0000 fefefefe0000 0000 0200 0300 0000 0100 "
    "fefefefe01000000 02000000 03000000 00000000"
)
LISTS_INDEX = bytes.fromhex("0400000000000000 0000000000000000")


def decode(layout, buffers, num_rows, rows=None):
    views = [as_bytes(bytes(buffer)) for buffer in buffers]
    state = run_in_memory(mini_block_pages.open_page(layout, [len(view) for view in views], num_rows, DECODER), views)
    return run_in_memory(state.read(rows or (0, num_rows)), views)


def words(values):
    return FixedWidthBlock(len(values), 32, np.asarray(values, "<i4").view(np.uint8))


def encode(levels, values, values_per_chunk, num_rows):
    chunks = ENCODER.mini_block("flat", words(values), values_per_chunk)
    return mini_block.encode(levels, chunks, num_rows=num_rows)


def test_mini_block_page_of_lists_written_by_pylance_is_decoded():
    levels, block = decode(LISTS, [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], 4)
    assert levels.repetition.tolist() == [1, 0, 1, 1, 1, 0]
    assert levels.definition.tolist() == [0, 0, 2, 3, 0, 1]
    assert block.data.view("<i4").tolist() == [1, 2, 3, 0]


def test_mini_block_page_in_format_2_1_has_narrow_chunk_words():
    layout = pb21.MiniBlockLayout()
    layout.CopyFrom(LISTS)
    layout.has_large_chunk = False
    chunk = bytes.fromhex("0600 0c00 0c00 1000") + LISTS_CHUNK[16:]
    levels, block = decode(layout, [bytes.fromhex("6000"), chunk, LISTS_INDEX], 4, (3, 4))
    assert (levels.repetition.tolist(), block.data.view("<i4").tolist()) == ([1, 0], [3, 0])


def test_mini_block_page_of_three_numbers_is_one_chunk():
    page = encode(Levels(Layers((1,)), None, None, 3), [1, 2, 3], 1024, 3)
    chunk_words, chunk = (buffer.to_pybytes() for buffer in page.buffers)
    assert chunk_words.hex() == "20000000"
    assert chunk.hex() == "0000" + "0c000000" + "0000" + "010000000200000003000000" + "00000000"
    assert page.layout.mini_block.SerializeToString().hex() == "1a040a0208203201013801" + "48035001"


def test_last_mini_block_chunk_word_has_no_count():
    page = encode(Levels(Layers((1,)), None, None, 1025), np.arange(1025), 1024, 1025)
    first, last = np.frombuffer(page.buffers[0], "<u4").tolist()
    assert (first & 15, last & 15) == (10, 0)
    levels, block = decode(page.layout.mini_block, page.buffers, 1025, (1023, 1025))
    assert (levels.num_levels, block.data.view("<i4").tolist()) == (2, [1023, 1024])


def pages_of(counts):
    """Return the layouts and the buffers of pages of consecutive numbers."""
    first = np.cumsum(counts) - counts
    pages = [
        encode(Levels(Layers((1,)), None, None, count), np.arange(start, start + count), 1024, count)
        for start, count in zip(first.tolist(), counts, strict=True)
    ]
    return [page.layout.mini_block for page in pages], [list(map(as_bytes, page.buffers)) for page in pages]


def words_and_sizes(buffers):
    return [of_page[0] for of_page in buffers], [list(map(len, of_page)) for of_page in buffers]


def test_mini_block_pages_opened_together_yield_the_values_of_all_pages():
    counts = [3, 1025, 1024, 5000, 1]
    layouts, buffers = pages_of(counts)
    data = np.concatenate([of_page[1] for of_page in buffers])
    starts = np.cumsum([0, *(len(of_page[1]) for of_page in buffers[:-1])]).tolist()
    state = mini_block_pages.open_pages(layouts, *words_and_sizes(buffers), counts, starts, DECODER)
    for rows in [(0, sum(counts)), (2, 4), (1027, 2053), np.array([0, 3, 1028, 2051, 7052])]:
        _, block = run_in_memory(state.read(rows), [data, data])
        assert block.data.view("<i4").tolist() == (list(range(*rows)) if isinstance(rows, tuple) else rows.tolist())


def test_mini_block_pages_opened_separately_yield_their_own_values():
    counts = [3, 1025, 1024, 5000, 1]
    layouts, buffers = pages_of(counts)
    states = mini_block_pages.open_pages_apart(layouts, *words_and_sizes(buffers), counts, DECODER)
    alone = [
        run_in_memory(mini_block_pages.open_page(layout, list(map(len, of_page)), count, DECODER), of_page)
        for layout, of_page, count in zip(layouts, buffers, counts, strict=True)
    ]
    for state, expected, of_page in zip(states, alone, buffers, strict=True):
        assert (state.num_rows, state.num_bytes) == (expected.num_rows, expected.num_bytes)
        _, block = run_in_memory(state.read((0, state.num_rows)), of_page)
        _, same = run_in_memory(expected.read((0, state.num_rows)), of_page)
        assert block.data.tolist() == same.data.tolist()


def test_mini_block_pages_with_lists_or_dictionaries_are_not_opened_together():
    [layout], _ = pages_of([3])
    assert mini_block_pages.opens_as_one(layout)
    assert not mini_block_pages.opens_as_one(LISTS)
    layout.dictionary.CopyFrom(FLAT32)
    assert not mini_block_pages.opens_as_one(layout)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda layout, buffers: buffers.append(buffers[0]), "3 buffers, expected 2"),
        (lambda layout, buffers: buffers.__setitem__(0, buffers[0][:0]), "take 0 bytes"),
        (lambda layout, buffers: buffers.__setitem__(1, buffers[1][8:]), "but their buffer has"),
        (lambda layout, buffers: setattr(layout, "num_items", 7), "2000 rows but 7 items"),
        (lambda layout, buffers: buffers.__setitem__(0, np.repeat(buffers[0], 2)[:4]), "but their buffer has"),
    ],
)
def test_damage_in_one_of_several_mini_block_pages_raises_corrupt_data(damage, message):
    layouts, buffers = pages_of([2000, 2000, 2000])
    damage(layouts[1], buffers[1])
    with pytest.raises(CorruptDataError, match=message):
        mini_block_pages.open_pages(layouts, *words_and_sizes(buffers), [2000] * 3, [0, 0, 0], DECODER)


def lists_of(lengths, values_per_chunk):
    lengths = np.array(lengths, np.int64)
    levels = shred([ListSlots(None, lengths), ItemSlots(None, int(lengths.sum()))])
    return levels, encode(levels, np.arange(lengths.sum()), values_per_chunk, len(lengths))


def test_mini_block_page_puts_invisible_levels_into_the_next_chunk():
    _, page = lists_of([1, 1, 0, 0, 1, 1, 0], 2)
    words, data = (as_bytes(buffer) for buffer in page.buffers[:2])
    table = ChunkTable.parse(page.layout.mini_block, words, len(data))
    directory = ChunkDirectory.parse(page.layout.mini_block, table, slice(0, 2), data, table.starts)
    assert directory.num_values.tolist() == [2, 2]
    assert directory.num_levels.tolist() == [2, 5]


def index_of(page):
    return np.frombuffer(page.buffers[-1], "<u8").reshape(-1, 2).tolist()


@pytest.mark.parametrize(
    ("lengths", "index"),
    [
        ([2, 2, 2], [[1, 0], [1, 0], [1, 0]]),
        ([3, 3], [[0, 2], [1, 1], [1, 0]]),
        ([6], [[0, 2], [0, 2], [1, 0]]),
        ([1, 5], [[1, 1], [0, 2], [1, 0]]),
        ([4, 2], [[0, 2], [1, 0], [1, 0]]),
    ],
)
def test_mini_block_repetition_index_counts_rows_and_leftover_items(lengths, index):
    levels, page = lists_of(lengths, 2)
    assert index_of(page) == index
    stops = np.cumsum(lengths).tolist()
    for start in range(len(lengths)):
        for stop in range(start + 1, len(lengths) + 1):
            found, block = decode(page.layout.mini_block, page.buffers, len(lengths), (start, stop))
            values = list(range(stops[start] - lengths[start], stops[stop - 1]))
            assert block.data.view("<i4").tolist() == values
            assert found.repetition.tolist().count(1) == stop - start
    assert levels.num_levels == 6


def test_mini_block_page_decodes_every_range_of_uneven_lists():
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 6, 40)
    lengths[[7, 20]] = 30
    stops = np.cumsum(lengths)
    _, page = lists_of(lengths, 4)
    for start in range(40):
        for stop in range(start + 1, 41, 3):
            levels, block = decode(page.layout.mini_block, page.buffers, 40, (start, stop))
            first = stops[start] - lengths[start]
            assert block.data.view("<i4").tolist() == list(range(first, stops[stop - 1]))
            assert int((levels.repetition == 1).sum()) == stop - start


def test_mini_block_page_decodes_only_the_needed_chunks():
    page = encode(Levels(Layers((1,)), None, None, 4096), np.arange(4096), 1024, 4096)
    damaged = bytearray(page.buffers[1])
    damaged[2:6] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptDataError):
        decode(page.layout.mini_block, [page.buffers[0], damaged], 4096)
    _, block = decode(page.layout.mini_block, page.buffers, 4096, (3000, 3002))
    assert block.data.view("<i4").tolist() == [3000, 3001]


def test_mini_block_page_finds_rows_without_a_repetition_index():
    layout = pb21.MiniBlockLayout()
    layout.CopyFrom(LISTS)
    layout.repetition_index_depth = 0
    _, block = decode(layout, [LISTS_WORDS, LISTS_CHUNK], 4, (3, 4))
    assert block.data.view("<i4").tolist() == [3, 0]


def changed(**fields):
    layout = pb21.MiniBlockLayout()
    layout.CopyFrom(LISTS)
    for name, value in fields.items():
        setattr(layout, name, value)
    return layout


@pytest.mark.parametrize(
    ("layout", "buffers", "message"),
    [
        (LISTS, [LISTS_WORDS, LISTS_CHUNK], "has 2 buffers, expected 3"),
        (LISTS, [b"", LISTS_CHUNK, LISTS_INDEX], "chunk words take 0 bytes"),
        (LISTS, [LISTS_WORDS[:3], LISTS_CHUNK, LISTS_INDEX], "chunk words take 3 bytes"),
        (LISTS, [b"\x60\0\0\0", LISTS_CHUNK, LISTS_INDEX], "take 56 bytes, but their buffer has 64"),
        (LISTS, [LISTS_WORDS, LISTS_CHUNK[:56], LISTS_INDEX], "take 64 bytes, but their buffer has 56"),
        (
            LISTS,
            [LISTS_WORDS, LISTS_CHUNK[:6] + b"\xff" + LISTS_CHUNK[7:], LISTS_INDEX],
            "do not fill the chunk exactly",
        ),
        (LISTS, [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX[:8]], "repetition index has 8 bytes"),
        (LISTS, [LISTS_WORDS, LISTS_CHUNK, b"\x03" + LISTS_INDEX[1:]], "counts 3 rows, but the page has 4"),
        (LISTS, [LISTS_WORDS, LISTS_CHUNK, b"\xff" * 16], "counts more rows than the page has"),
        (changed(num_items=2**40), [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], "declares 1099511627776 items"),
        (changed(num_items=3), [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], "differs from its number of visible levels"),
        (changed(num_items=5), [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], "expected 20 for 5 values of 32 bits"),
        (changed(num_buffers=2), [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], "do not fill the chunk exactly"),
    ],
)
def test_contradictory_mini_block_page_raises_corrupt_data(layout, buffers, message):
    with pytest.raises(CorruptDataError, match=message):
        decode(layout, buffers, 4)


def test_mini_block_levels_beyond_the_layers_raise_corrupt_data():
    layout = changed()
    layout.layers[:] = [1, 4]
    with pytest.raises(CorruptDataError, match="definition level is greater than 1"):
        decode(layout, [LISTS_WORDS, LISTS_CHUNK, LISTS_INDEX], 4)


def test_mini_block_dictionary_index_out_of_range_raises_corrupt_data():
    layout = pb21.MiniBlockLayout(
        value_compression=FLAT32,
        dictionary=FLAT16,
        num_dictionary_items=2,
        layers=[1],
        num_buffers=1,
        num_items=3,
        has_large_chunk=True,
    )
    page = encode(Levels(Layers((1,)), None, None, 3), [0, 1, 2], 4, 3)
    with pytest.raises(CorruptDataError, match="index 2 is out of range: the dictionary has 2 items"):
        decode(layout, [*page.buffers, b"\1\0\2\0"], 3)
    layout.num_dictionary_items = 3
    _, block = decode(layout, [*page.buffers, b"\1\0\2\0\3\0"], 3)
    assert block.items.data.view("<u2").tolist() == [1, 2, 3]


def test_repetition_index_survives_a_round_trip():
    repetition = np.array([1, 0, 0, 1, 1, 0], np.uint16)
    data = build_repetition_index(repetition, 1, np.array([0, 2, 4, 6]))
    index = RepetitionIndex.parse(data, 3, 3)
    assert index.rows_ended.tolist() == [0, 2, 3]
    assert index.continues.tolist() == [True, False, False]
    assert index.chunks_of(0, 1) == (0, 2, 0)
    assert index.chunks_of(1, 2) == (1, 2, 1)
    assert index.chunks_of(2, 3) == (2, 3, 2)
