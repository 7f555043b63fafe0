"""Segments of row ids: the form chosen, and every form read back."""

import numpy as np
import pytest

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_segments import decode_segment, encode_segment


def without(stop: int, *, step: int = 0, holes: tuple[int, ...] = ()) -> np.ndarray:
    numbers = np.arange(stop, dtype=np.uint64)
    return numbers[::step] if step else np.delete(numbers, list(holes))


@pytest.mark.parametrize(
    ("numbers", "form"),
    [
        (without(10), "range"),
        (np.array([7], np.uint64), "range"),
        (without(100, holes=(5, 50, 90)), "range_with_holes"),
        (without(100, holes=(5, 50, 80, 90)), "range_with_bitmap"),
        (without(1585, step=16), "range_with_bitmap"),
        (without(1585, step=17), "sorted_array"),
        (np.array([7, 65538, 3], np.uint64), "array"),
        (np.array([2**63, 5, 2**64 - 1], np.uint64), "array"),
        (np.array([0, 2**63], np.uint64), "sorted_array"),
    ],
)
def test_the_smallest_form_is_chosen_and_read_back(numbers: np.ndarray, form: str) -> None:
    segment = encode_segment(numbers)
    assert segment.WhichOneof("segment") == form
    assert decode_segment(segment, "test").tolist() == numbers.tolist()


def test_widths_of_arrays() -> None:
    assert encode_segment(np.array([7, 65538, 3], np.uint64)).array.WhichOneof("array") == "u16_array"
    assert encode_segment(np.array([7, 65539, 3], np.uint64)).array.WhichOneof("array") == "u32_array"
    assert encode_segment(np.array([2**40, 3], np.uint64)).array.WhichOneof("array") == "u64_array"


def test_bytes_of_a_range() -> None:
    segment = encode_segment(np.arange(10, 20, dtype=np.uint64))
    assert pb_rowids.RowIdSequence(segments=[segment]).SerializeToString() == bytes.fromhex("0a060a04080a1014")


def test_bits_are_counted_from_the_lowest() -> None:
    numbers = np.array([5, 13, 15], np.uint64)
    segment = pb_rowids.U64Segment(
        range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=5, end=17, bitmap=b"\x01\x05")
    )
    assert decode_segment(segment, "test").tolist() == numbers.tolist()


@pytest.mark.parametrize(
    "segment",
    [
        pb_rowids.U64Segment(),
        pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=5, end=4)),
        pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=0, end=2**63)),
        pb_rowids.U64Segment(range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=0, end=9, bitmap=b"\xff")),
        pb_rowids.U64Segment(range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=0, end=4, bitmap=b"\xff")),
        pb_rowids.U64Segment(
            array=pb_rowids.EncodedU64Array(u32_array=pb_rowids.EncodedU64Array.U32Array(offsets=b"123"))
        ),
    ],
)
def test_damage(segment: pb_rowids.U64Segment) -> None:
    with pytest.raises(CorruptDataError):
        decode_segment(segment, "test")
