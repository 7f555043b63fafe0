"""Constant pages, compared with bytes written by pylance 14.0.2."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from lance_core.encodings.api import DictionaryBlock, FixedWidthBlock, NullBlock, VariableWidthBlock
from lance_core.encodings.levels.build import ItemSlots, ListSlots, shred
from lance_core.encodings.page_decoder import run_in_memory
from lance_core.encodings.registry import DECODER
from lance_core.encodings.structural import constant
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb21

SEVEN = FixedWidthBlock(1, 32, np.array([7], "<i4").view(np.uint8))
HELLO = VariableWidthBlock(np.array([3, 8], np.int32), np.frombuffer(b"...hello...", np.uint8))
HELLO_BYTES = struct.pack("<3I2i", 2, 8, 5, 0, 5) + b"hello"


def decode(layout, buffers, num_rows, rows=None):
    views = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
    state = run_in_memory(constant.open_page(layout, [len(view) for view in views], num_rows, DECODER), views)
    return run_in_memory(state.read(rows or (0, num_rows)), views)


def reread(page, rows=None):
    return decode(page.layout.constant, page.buffers, page.num_rows, rows)


def test_constant_page_of_nulls_of_one_layer_has_no_buffers():
    page = constant.encode_all_null(shred([ItemSlots(np.zeros(5, bool), 5)]), num_rows=5)
    assert page.buffers == ()
    assert page.layout.SerializeToString().hex() == "12032a0103"
    levels, block = reread(page, (1, 4))
    assert (levels.definition.tolist(), block) == ([1, 1, 1], NullBlock(3))


def test_constant_page_stores_a_small_scalar_in_its_layout():
    levels = shred([ItemSlots(np.array([True, True, False, True]), 4)])
    page = constant.encode_scalar(levels, SEVEN, num_rows=4)
    assert page.layout.constant.inline_value == b"\7\0\0\0"
    assert [buffer.to_pybytes() for buffer in page.buffers] == [b"", bytes.fromhex("0000000001000000")]
    found, block = reread(page, (1, 3))
    assert found.definition.tolist() == [0, 1]
    assert (block.num_values, block.items.data.tobytes()) == (2, b"\7\0\0\0")


def test_constant_page_stores_a_string_in_a_buffer():
    page = constant.encode_scalar(shred([ItemSlots(None, 3)]), HELLO, num_rows=3)
    assert [buffer.to_pybytes() for buffer in page.buffers] == [HELLO_BYTES]
    assert not page.layout.constant.HasField("inline_value")
    _, block = reread(page)
    assert (block.num_values, block.items.data.tobytes(), block.items.offsets.tolist()) == (3, b"hello", [0, 5])


def test_constant_page_stores_a_wide_scalar_in_a_buffer():
    wide = FixedWidthBlock(1, 33 * 8, np.arange(33, dtype=np.uint8))
    page = constant.encode_scalar(shred([ItemSlots(None, 2)]), wide, num_rows=2)
    assert page.buffers[0].to_pybytes() == struct.pack("<2I", 1, 33) + bytes(range(33))
    _, block = reread(page)
    assert block.items.data.tobytes() == bytes(range(33))


def test_constant_page_with_an_empty_inline_value_has_a_value():
    layout = pb21.ConstantLayout(layers=[1], inline_value=b"")
    _, block = decode(layout, [], 2)
    assert isinstance(block, DictionaryBlock)
    assert block.items == FixedWidthBlock(1, 0, block.items.data)


def lists_without_values():
    lists = ListSlots(np.array([True, False, True]), np.array([2, 0, 0], np.int64))
    return shred([lists, ItemSlots(np.zeros(2, bool), 2)])


def test_constant_page_of_nested_nulls_keeps_their_structure():
    page = constant.encode_all_null(lists_without_values(), num_rows=3)
    levels, block = reread(page)
    assert levels.repetition.tolist() == [1, 0, 1, 1]
    assert levels.definition.tolist() == [1, 1, 2, 3]
    assert block == NullBlock(2)
    levels, block = reread(page, (1, 3))
    assert (levels.repetition.tolist(), block) == ([1, 1], NullBlock(0))


def test_constant_page_levels_without_compression_are_raw():
    layout = pb21.ConstantLayout(layers=[3, 6])
    raw = [np.array(numbers, "<u2").tobytes() for numbers in ([1, 0, 1, 1], [1, 1, 2, 3])]
    levels, block = decode(layout, raw, 3)
    assert (levels.repetition.tolist(), block) == ([1, 0, 1, 1], NullBlock(2))


def test_constant_page_decodes_only_the_requested_rows():
    layout = pb21.ConstantLayout(layers=[3])
    levels, block = decode(layout, [], 2**40, (2**39, 2**39 + 2))
    assert (levels.num_levels, block.num_values) == (2, 2)


@pytest.mark.parametrize(
    ("layout", "buffers", "message"),
    [
        (pb21.ConstantLayout(layers=[3]), [b""] * 4, "has 4 buffers"),
        (pb21.ConstantLayout(layers=[3], inline_value=b"a"), [b""], "has 1 buffer,"),
        (pb21.ConstantLayout(layers=[3, 6]), [], "has no repetition levels"),
        (pb21.ConstantLayout(layers=[3]), [b"", b"abc"], "take 3 bytes, expected an even number"),
        (pb21.ConstantLayout(layers=[3]), [b"", b"\2\0" * 4], "greater than 1"),
        (pb21.ConstantLayout(layers=[3]), [b"", b"\1\0" * 3], "have 3 whole rows, but the page has 4"),
        (pb21.ConstantLayout(layers=[3]), [HELLO_BYTES[:5]], "has 5 bytes, too few for its header"),
        (pb21.ConstantLayout(layers=[3]), [HELLO_BYTES[:-1]], "the sizes of its parts are"),
        (pb21.ConstantLayout(layers=[3]), [struct.pack("<3I2i", 2, 8, 5, 0, 4) + b"hello"], "offsets of a constant"),
    ],
)
def test_contradictory_constant_page_raises_corrupt_data(layout, buffers, message):
    with pytest.raises(CorruptDataError, match=message):
        decode(layout, buffers, 4)


def test_constant_page_with_more_levels_than_bytes_raises_corrupt_data():
    layout = pb21.ConstantLayout(layers=[3], num_def_values=2**40)
    layout.def_compression.out_of_line_bitpacking.uncompressed_bits_per_value = 16
    layout.def_compression.out_of_line_bitpacking.values.flat.SetInParent()
    with pytest.raises(CorruptDataError, match="declares 1099511627776 levels, too many for their buffer"):
        decode(layout, [b"", b""], 2**40)


def test_constant_page_with_an_unknown_value_shape_is_refused():
    with pytest.raises(UnsupportedEncodingError, match="3 buffers"):
        decode(pb21.ConstantLayout(layers=[1]), [struct.pack("<I", 3)], 4)
