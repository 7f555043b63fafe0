"""Full-zip pages, compared with bytes written by pylance 14.0.2; single rows are read without the rest of the page."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.api import FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.levels.build import ItemSlots, ListSlots, shred
from lance_core.encodings.page_decoder import run_in_memory
from lance_core.encodings.registry import DECODER, ENCODER
from lance_core.encodings.structural import full_zip, full_zip_pages
from lance_core.errors import CorruptDataError
from lance_core.proto import pb21
from tests.support.encoded_blocks import strings, strings_of

LONG = b"x" * 260


def encode(slots, block, num_rows):
    arm = "variable" if isinstance(block, VariableWidthBlock) else "flat"
    return full_zip.encode(shred(slots), *ENCODER.per_value(arm, block), num_rows=num_rows)


def decode(page, rows=None, buffers=None):
    views = [np.frombuffer(buffer, np.uint8) for buffer in (buffers or page.buffers)]
    return read(page.layout.full_zip, views, page.num_rows, rows or (0, page.num_rows))


def read(layout, views, num_rows, rows):
    state = run_in_memory(full_zip_pages.open_page(layout, [len(view) for view in views], num_rows, DECODER), views)
    return run_in_memory(state.read(rows), views)


def nullable_strings():
    validity = np.array([True, False, True])
    return encode([ItemSlots(validity, 3)], strings(LONG, b"", b"yz"), 3)


def string_lists():
    lists = ListSlots(np.array([True, False, True, True]), np.array([1, 0, 0, 2], np.int64))
    leaf = ItemSlots(np.array([True, True, False]), 3)
    return encode([lists, leaf], strings(LONG, b"a", b""), 4)


def test_full_zip_nulls_store_no_length():
    page = nullable_strings()
    assert page.buffers[0].to_pybytes() == b"\0" + b"\x04\x01\0\0" + LONG + b"\x01" + b"\0" + b"\x02\0\0\0yz"
    assert np.frombuffer(page.buffers[1], "<u2").tolist() == [0, 265, 266, 273]
    layout = page.layout.full_zip
    assert (layout.bits_rep, layout.bits_def, layout.bits_per_offset) == (0, 1, 32)


def test_full_zip_control_words_put_repetition_above_definition():
    page = string_lists()
    assert page.buffers[0].to_pybytes() == (
        b"\x04" + b"\x04\x01\0\0" + LONG + b"\x06" + b"\x07" + b"\x04" + b"\x01\0\0\0a" + b"\x01"
    )
    assert np.frombuffer(page.buffers[1], "<u2").tolist() == [0, 265, 266, 267, 274]
    assert (page.layout.full_zip.num_items, page.layout.full_zip.num_visible_items) == (5, 3)


@pytest.mark.parametrize("page", [nullable_strings(), string_lists()], ids=["nullable", "lists"])
def test_full_zip_page_decodes_every_range_of_rows(page):
    whole, block = decode(page)
    values = strings_of(block)
    for start in range(page.num_rows):
        for stop in range(start + 1, page.num_rows + 1):
            levels, part = decode(page, (start, stop))
            assert " ".join(map(str, levels.definition)) in " ".join(map(str, whole.definition))
            assert b"|".join(strings_of(part)) in b"|".join(values)
            assert levels.repetition is None or levels.repetition.tolist().count(1) == stop - start


@pytest.mark.parametrize("num_rows", [3, 40])
def test_full_zip_page_of_nested_lists_with_nulls_survives_a_round_trip(num_rows):
    rng = np.random.default_rng(num_rows)
    outer_valid = rng.random(num_rows) < 0.8
    outer = ListSlots(outer_valid, np.where(outer_valid, rng.integers(0, 4, num_rows), 0))
    num_inner = int(outer.lengths.sum())
    inner = ListSlots(None, rng.integers(0, 3, num_inner))
    num_values = int(inner.lengths.sum())
    block = FixedWidthBlock(num_values, 24, rng.integers(0, 256, num_values * 3, np.uint8))
    slots = [outer, inner, ItemSlots(None, num_values)]
    written, page = shred(slots), encode(slots, block, num_rows)
    levels, found = decode(page)
    assert (levels.repetition == written.repetition).all()
    assert (levels.definition == written.definition).all()
    assert found.data.tobytes() == block.data.tobytes()
    _, tail = decode(page, (num_rows // 2, num_rows))
    assert block.data.tobytes().endswith(tail.data.tobytes())


def test_full_zip_page_without_levels_shares_the_memory_of_the_array():
    block = FixedWidthBlock(5, 64 * 8, np.arange(5 * 64, dtype=np.uint8))
    page = encode([ItemSlots(None, 5)], block, 5)
    assert page.buffers[0].address == block.data.ctypes.data
    assert len(page.buffers) == 1
    _, part = decode(page, (2, 4))
    assert np.shares_memory(part.data, block.data)
    assert part.data.tobytes() == block.data[128:256].tobytes()


def test_full_zip_page_keeps_the_bytes_of_fixed_width_nulls():
    page = encode([ItemSlots(np.array([True, False]), 2)], FixedWidthBlock(2, 16, np.arange(4, dtype=np.uint8)), 2)
    assert page.buffers[0].to_pybytes() == b"\0\0\1" + b"\1\0\0"
    assert page.layout.full_zip.bits_per_value == 16


def test_full_zip_page_with_wider_control_words_is_read():
    layout = pb21.FullZipLayout(
        bits_def=9,
        bits_per_value=8,
        num_items=2,
        num_visible_items=2,
        value_compression=pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=8)),
        layers=[3],
    )
    data = np.frombuffer(b"\0\0a\1\0b", np.uint8)
    levels, block = read(layout, [data], 2, (0, 2))
    assert (levels.definition.tolist(), block.data.tobytes()) == ([0, 1], b"ab")


def test_full_zip_page_with_64_bit_lengths_survives_a_round_trip():
    page = encode([ItemSlots(None, 2)], strings(b"abc", b"", dtype=np.int64), 2)
    assert page.buffers[0].to_pybytes() == b"\3" + bytes(7) + b"abc" + bytes(8)
    assert strings_of(decode(page)[1]) == [b"abc", b""]


def test_contradictory_full_zip_page_raises_corrupt_data():
    page = string_lists()
    data, index = (bytearray(buffer.to_pybytes()) for buffer in page.buffers)
    cases = {
        "has 1 buffer, expected 2": [data],
        "does not cover the 270 bytes": [data[:270], index],
        "does not match 4 rows": [data, index[:-1]],
        "end of its row|does not end|its page": [data[:1] + b"\xff" + data[2:], index],
        "does not cover the 274 bytes": [data, b"\x01" + index[1:]],
        "row starts; expected 4|its page": [b"\x00" + data[1:], index],
    }
    for message, buffers in cases.items():
        with pytest.raises(CorruptDataError, match=message):
            decode(page, buffers=buffers)


@pytest.mark.parametrize(
    "fields",
    [
        {"bits_per_value": 12},
        {},
        {"bits_per_offset": 16},
        {"bits_per_value": 8, "bits_rep": 1},
        {"bits_per_value": 8, "bits_def": 40},
    ],
)
def test_full_zip_page_with_impossible_widths_raises_corrupt_data(fields):
    layout = pb21.FullZipLayout(layers=[1], num_items=1, **fields)
    with pytest.raises(CorruptDataError):
        read(layout, [np.zeros(1, np.uint8)], 1, (0, 1))
