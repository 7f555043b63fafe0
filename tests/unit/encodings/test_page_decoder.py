"""Decoding pages into arrays: row ranges, unsupported pages, and malicious bytes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from lance_core.encodings.api import NullBlock
from lance_core.encodings.leaf_page import LeafPage
from lance_core.encodings.levels.build import Levels
from lance_core.encodings.levels.layers import Layers
from lance_core.encodings.page_decoder import assemble, decode_leaf
from lance_core.encodings.page_encoder import encode_pages
from lance_core.errors import (
    CorruptDataError,
    InternalError,
    InvalidInputError,
    NotSupportedError,
    UnsupportedEncodingError,
)
from lance_core.proto import pb21
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion


def field_of(dtype):
    return schema_from_arrow(pa.schema([("c", dtype)])).fields[0]


def pages_of(array):
    return encode_pages(field_of(array.type), array, version=LanceFileVersion.V2_2)


def test_page_decoder_refuses_row_ranges_outside_the_page():
    (page,) = pages_of(pa.array([1, 2, 3]))
    for rows in ((-1, 2), (2, 1), (0, 4)):
        with pytest.raises(InvalidInputError, match="not within the 3 rows"):
            decode_leaf(field_of(pa.int64()), page.layout, page.buffers, 3, rows=rows)


@pytest.mark.parametrize("values", [[1, None, 3], [[1], [], None, [2, 3]], ["x" * 400, None, "y" * 500]])
def test_page_decoder_returns_an_empty_array_for_an_empty_range(values):
    array = pa.array(values)
    (page,) = pages_of(array)
    for at in range(len(array) + 1):
        leaf = decode_leaf(field_of(array.type), page.layout, page.buffers, page.num_rows, rows=(at, at))
        assert assemble(field_of(array.type), [leaf]).equals(array[:0])


def test_page_decoder_errors_name_the_field():
    (page,) = pages_of(pa.array([1, 2, 3]))
    with pytest.raises(CorruptDataError, match=r"^field 'c': a mini-block page has 1 buffer, expected 2$"):
        decode_leaf(field_of(pa.int64()), page.layout, page.buffers[:1], 3)


@pytest.mark.parametrize(
    ("layout", "error", "message"),
    [
        (
            pb21.PageLayout(blob=pb21.BlobLayout(layers=[1])),
            UnsupportedEncodingError,
            "layout unknown is not supported",
        ),
        (pb21.PageLayout(), CorruptDataError, "has no type"),
        (pb21.PageLayout.FromString(b"\x2a\x00"), UnsupportedEncodingError, "has an unknown type"),
    ],
)
def test_page_layouts_that_are_not_supported_are_refused(layout, error, message):
    with pytest.raises(error, match=message):
        decode_leaf(field_of(pa.int64()), layout, [], 3)


def test_page_without_rows_raises_corrupt_data():
    with pytest.raises(CorruptDataError, match="has no rows"):
        decode_leaf(field_of(pa.int64()), pb21.PageLayout(constant=pb21.ConstantLayout(layers=[3])), [], 0)


def test_page_decoder_refuses_too_many_rows_at_once():
    layout = pb21.PageLayout(constant=pb21.ConstantLayout(layers=[3]))
    with pytest.raises(NotSupportedError, match="rows at once"):
        decode_leaf(field_of(pa.int64()), layout, [], 2**40)
    leaf = decode_leaf(field_of(pa.int64()), layout, [], 2**40, rows=(2**40 - 2, 2**40))
    assert assemble(field_of(pa.int64()), [leaf]).equals(pa.nulls(2, pa.int64()))


@pytest.mark.parametrize("dtype", [pa.int32(), pa.string(), pa.list_(pa.int64(), 2), pa.decimal128(5, 0)], ids=str)
def test_page_with_values_of_the_wrong_type_raises_corrupt_data(dtype):
    (page,) = pages_of(pa.array([1 << 60, 2, 3]))
    with pytest.raises(CorruptDataError):
        assemble(field_of(dtype), [decode_leaf(field_of(dtype), page.layout, page.buffers, 3)])


def test_string_page_with_invalid_utf8_raises_corrupt_data():
    (page,) = pages_of(pa.array([b"\xff\xfe", b"ok"]))
    leaf = decode_leaf(field_of(pa.string()), page.layout, page.buffers, 2)
    with pytest.raises(CorruptDataError, match="contains invalid bytes"):
        assemble(field_of(pa.string()), [leaf])


def test_struct_leaves_of_unequal_length_raise_corrupt_data():
    field = field_of(pa.struct([("a", pa.int8()), ("b", pa.int8())]))
    leaves = [
        LeafPage(leaf, Levels(Layers((1, 1)), None, None, rows), NullBlock(rows), rows)
        for leaf, rows in zip(field.leaves(), (2, 3), strict=True)
    ]
    with pytest.raises(CorruptDataError, match="expected 2 slots in each member, found 2, 3"):
        assemble(field, leaves)
    with pytest.raises(InternalError, match="fewer leaves were decoded than the field has"):
        assemble(field, leaves[:1])


def test_structs_without_members_do_not_affect_neighboring_leaves():
    # As written by pylance 14.0.2: without the layer of the enclosing struct.
    field = field_of(pa.struct([("e", pa.struct([])), ("a", pa.int32())]))
    scalar = pb21.ConstantLayout(layers=[1, 1], inline_value=b"\1\0\0\0")
    layouts = [pb21.ConstantLayout(layers=[3]), scalar]
    leaves = [
        decode_leaf(leaf, pb21.PageLayout(constant=layout), [], 2)
        for leaf, layout in zip(field.leaves(), layouts, strict=True)
    ]
    assert assemble(field, leaves).to_pylist() == [{"e": {}, "a": 1}] * 2
    inner = field_of(pa.struct([("e", pa.struct([]))]))
    assert assemble(inner, leaves[:1]).to_pylist() == [{"e": {}}] * 2
    with pytest.raises(NotSupportedError, match="without fields"):
        assemble(field_of(pa.list_(pa.struct([]))), leaves[:1])


def test_list_offsets_that_do_not_end_at_the_items_raise_corrupt_data():
    field = field_of(pa.list_(pa.int8()))
    levels = Levels(Layers((1, 2)), np.array([1, 0], np.uint16), None, 2)
    with pytest.raises(CorruptDataError, match="offsets end at 2"):
        assemble(field, [LeafPage(field.leaves()[0], levels, NullBlock(3), 1)])


# ── hostile bytes ───────────────────────────────────────────────────────────────────────────────────────────────────

SEED = 20250311
HOSTILE = [
    pa.array(range(1500)),
    pa.array([None if i % 5 else i * 1.5 for i in range(300)]),
    pa.array([f"text {i}" if i % 3 else None for i in range(300)]),
    pa.array([f"city {i % 4}" for i in range(300)]),
    pa.array([f"long {i} " * 60 if i % 4 else None for i in range(30)]),
    pa.array([[i] * (i % 4) if i % 5 else None for i in range(200)]),
    pa.array([[f"long {i} " * 60] * (i % 3) if i % 5 else None for i in range(20)]),
    pa.array([[[1.0, None]] * (i % 3) if i % 5 else None for i in range(40)], pa.list_(pa.list_(pa.float32(), 2))),
    pa.array([[True, None, False] if i % 3 else None for i in range(90)], pa.list_(pa.bool_(), 3)),
    pa.array(["same", None] * 20),
    pa.array([[None] * (i % 3) for i in range(20)], pa.list_(pa.int32())),
]


def mutated(chooser, page):
    """Return the page with one to three kinds of damage."""
    buffers = [bytearray(buffer.to_pybytes()) for buffer in page.buffers]
    message, num_rows = bytearray(page.layout.SerializeToString()), page.num_rows
    for _ in range(chooser.randint(1, 3)):
        target = chooser.choice([message, *filter(None, buffers)])
        at = chooser.randrange(min(len(target), chooser.choice([8, 64, 1 << 20])))
        match chooser.randrange(5):
            case 0:
                target[at] ^= 1 << chooser.randrange(8)
            case 1:
                target[at] = chooser.choice([0, 1, 127, 128, 255])
            case 2:
                del target[at + 1 :]
            case 3:
                target[at : at + 1] = chooser.choice([b"\xff\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x10"])
            case _:
                num_rows = chooser.choice([1, num_rows - 1, num_rows + 1, 1 << 20, 1 << 40])
    return message, buffers, max(num_rows, 1)


@pytest.mark.parametrize("array", HOSTILE, ids=lambda array: str(array.type))
def test_hostile_pages_fail_with_typed_errors(array):
    chooser = random.Random(SEED)
    field = field_of(array.type)
    (page,) = pages_of(array)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(300):
        message, buffers, num_rows = mutated(chooser, page)
        try:
            layout = pb21.PageLayout.FromString(bytes(message))
        except DecodeError:
            continue
        start = chooser.randrange(min(num_rows, len(array)))
        rows = (start, min(num_rows, start + 50)) if chooser.random() < 0.5 else (0, min(num_rows, 1 << 20))
        try:
            leaf = decode_leaf(
                field.leaves()[0], layout, [pa.py_buffer(bytes(b)) for b in buffers], num_rows, rows=rows
            )
            read = assemble(field, [leaf])
        except (CorruptDataError, NotSupportedError):
            outcomes["refused"] += 1
            continue
        read.validate(full=True)
        assert len(read) == rows[1] - rows[0]
        outcomes["read"] += 1
    assert outcomes["refused"] > 50
