"""Blocks that pylance reads but no release writes: single scalars and fixed-size lists."""

import numpy as np
import pytest

from lance_core.encodings.api import Chunks, FixedSizeListBlock, FixedWidthBlock
from lance_core.encodings.registry import DECODER, ENCODER
from lance_core.errors import CorruptDataError, InternalError, UnsupportedEncodingError
from lance_core.proto import pb21


def block_of(data, num_values):
    return Chunks.single(np.frombuffer(data, np.uint8), num_values)


def constant(value=None):
    return pb21.CompressiveEncoding(constant=pb21.Constant(value=value))


def lists(dimension, *, has_validity=False, values=None):
    values = values or pb21.CompressiveEncoding(flat=pb21.Flat(bits_per_value=16))
    message = pb21.FixedSizeList(items_per_value=dimension, values=values, has_validity=has_validity)
    return pb21.CompressiveEncoding(fixed_size_list=message)


@pytest.mark.parametrize("num_values", [0, 1, 1000])
def test_constant_block_repeats_its_scalar(num_values):
    block = DECODER.block(constant(b"\1\2"), block_of(b"", num_values))
    assert isinstance(block, FixedWidthBlock)
    assert (block.num_values, block.bits_per_value) == (num_values, 16)
    assert block.data.tobytes() == b"\1\2" * num_values


@pytest.mark.parametrize("value", [None, b""])
def test_constant_block_without_a_scalar_is_refused(value):
    with pytest.raises(UnsupportedEncodingError, match="constant: a block without a scalar"):
        DECODER.block(constant(value), block_of(b"", 3))


def test_constant_block_with_bytes_raises_corrupt_data():
    with pytest.raises(CorruptDataError, match="constant: a block has bytes"):
        DECODER.block(constant(b"\1"), block_of(b"abc", 3))


def test_constant_block_with_too_many_values_is_refused():
    with pytest.raises(UnsupportedEncodingError, match=r"constant: .* bytes are supported"):
        DECODER.block(constant(b"\1" * 8), block_of(b"", 1 << 40))


def test_fixed_size_list_block_is_decoded():
    block = DECODER.block(lists(3), block_of(bytes(range(12)), 2))
    assert isinstance(block, FixedSizeListBlock)
    assert (block.num_values, block.dimension, block.validity) == (2, 3, None)
    assert block.items.data.tobytes() == bytes(range(12))


def test_nested_fixed_size_list_block_is_decoded():
    block = DECODER.block(lists(2, values=lists(3)), block_of(bytes(range(12)), 1))
    assert (block.num_values, block.items.num_values, block.items.items.num_values) == (1, 2, 6)


def test_fixed_size_list_block_of_a_constant_is_decoded():
    assert DECODER.block(lists(2, values=constant(b"x")), block_of(b"", 2)).items.data.tobytes() == b"xxxx"


def test_fixed_size_list_block_with_null_items_is_refused():
    with pytest.raises(UnsupportedEncodingError, match="fixed_size_list: a block whose items have nulls"):
        DECODER.block(lists(3, has_validity=True), block_of(bytes(13), 2))


@pytest.mark.parametrize(("dimension", "data"), [(0, b""), (1 << 32, b""), (3, b"short"), ((1 << 31) - 1, bytes(8))])
def test_malformed_fixed_size_list_block_raises_corrupt_data(dimension, data):
    with pytest.raises(CorruptDataError, match=r"fixed_size_list|flat"):
        DECODER.block(lists(dimension), block_of(data, 2))


def words(num_values, bits, data):
    return FixedWidthBlock(num_values, bits, np.frombuffer(data, np.uint8))


def test_encoded_blocks_decode_to_the_same_values():
    encoding, data = ENCODER.block("constant", words(3, 32, b"abcd" * 3))
    assert (encoding, len(data)) == (constant(b"abcd"), 0)
    assert DECODER.block(encoding, Chunks.single(data, 3)).data.tobytes() == b"abcd" * 3
    nested = FixedSizeListBlock(1, 2, FixedSizeListBlock(2, 3, words(6, 16, bytes(range(12))), None), None)
    encoding, data = ENCODER.block("fixed_size_list", nested)
    assert encoding == lists(2, values=lists(3))
    assert DECODER.block(encoding, Chunks.single(data, 1)).items.items.data.tobytes() == bytes(range(12))


@pytest.mark.parametrize(
    ("arm", "block"),
    [
        ("constant", words(2, 8, b"ab")),
        ("constant", words(0, 8, b"")),
        ("constant", FixedSizeListBlock(1, 1, words(1, 8, b"a"), None)),
        ("fixed_size_list", words(1, 8, b"a")),
        ("fixed_size_list", FixedSizeListBlock(1, 1, words(1, 8, b"a"), np.array([False]))),
    ],
)
def test_values_that_a_block_cannot_represent_are_not_encoded(arm, block):
    with pytest.raises(InternalError, match=arm):
        ENCODER.block(arm, block)
