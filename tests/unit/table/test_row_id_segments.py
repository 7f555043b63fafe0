"""Segments of row ids: the form that is written, and the forms that are read."""

import tracemalloc

import numpy as np
import pytest

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.row_id_segments import encode_segment, parse_segment


def without(stop: int, *, step: int = 0, holes: tuple[int, ...] = ()) -> np.ndarray:
    numbers = np.arange(stop, dtype=np.uint64)
    return numbers[::step] if step else np.delete(numbers, list(holes))


def unpacked(segment: pb_rowids.U64Segment) -> list[int]:
    """Return all ids of a segment."""
    ids = parse_segment(segment, "test")
    return [] if ids is None else ids.at(np.arange(len(ids))).tolist()


def check_search(segment: pb_rowids.U64Segment, numbers: np.ndarray) -> None:
    """Check that every id is found at its position, and that no other id is found."""
    ids = parse_segment(segment, "test")
    assert ids is not None
    assert (len(ids), ids.low, ids.high) == (len(numbers), int(numbers.min()), int(numbers.max()))
    assert ids.find(numbers).tolist() == list(range(len(numbers)))
    around = np.concatenate([numbers + np.uint64(1), numbers - np.uint64(1)])
    around = np.setdiff1d(around[(around >= ids.low) & (around <= ids.high)], numbers)
    assert (ids.find(around) == -1).all()
    some = np.array([len(numbers) - 1, 0, len(numbers) // 2, 0])
    assert ids.at(some).tolist() == numbers[some].tolist()


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
def test_row_id_segment_uses_the_smallest_form_and_survives_a_round_trip(numbers: np.ndarray, form: str) -> None:
    segment = encode_segment(numbers)
    assert segment.WhichOneof("segment") == form
    assert unpacked(segment) == numbers.tolist()
    check_search(segment, numbers)


def test_row_id_arrays_use_the_smallest_possible_width() -> None:
    assert encode_segment(np.array([7, 65538, 3], np.uint64)).array.WhichOneof("array") == "u16_array"
    assert encode_segment(np.array([7, 65539, 3], np.uint64)).array.WhichOneof("array") == "u32_array"
    assert encode_segment(np.array([2**40, 3], np.uint64)).array.WhichOneof("array") == "u64_array"


@pytest.mark.parametrize(("span", "width"), [(2**32 - 1, "u32_array"), (2**32, "u64_array"), (2**32 + 1, "u64_array")])
def test_row_ids_with_the_largest_offset_survive_a_round_trip(span: int, width: str) -> None:
    numbers = np.array([7 + span, 9, 7], np.uint64)
    segment = encode_segment(numbers)
    assert segment.array.WhichOneof("array") == width
    assert unpacked(segment) == numbers.tolist()


def test_row_id_range_has_the_same_bytes_as_in_pylance() -> None:
    segment = encode_segment(np.arange(10, 20, dtype=np.uint64))
    assert pb_rowids.RowIdSequence(segments=[segment]).SerializeToString() == bytes.fromhex("0a060a04080a1014")


def test_row_id_bitmap_bits_are_counted_from_the_lowest() -> None:
    numbers = np.array([5, 13, 15], np.uint64)
    segment = pb_rowids.U64Segment(
        range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=5, end=17, bitmap=b"\x01\x05")
    )
    assert unpacked(segment) == numbers.tolist()
    check_search(segment, numbers)


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
def test_damaged_row_id_segment_raises_corrupt_data(segment: pb_rowids.U64Segment) -> None:
    with pytest.raises(CorruptDataError, match="test: "):
        parse_segment(segment, "test")


def array(*numbers: int, width: str = "u64_array") -> pb_rowids.EncodedU64Array:
    """Return a list in the given form, relative to the smallest number."""
    if width == "u64_array":
        values = np.array(numbers, "<u8").tobytes()
        return pb_rowids.EncodedU64Array(u64_array=pb_rowids.EncodedU64Array.U64Array(values=values))
    message = pb_rowids.EncodedU64Array()
    arm = getattr(message, width)
    arm.base = min(numbers)
    offsets = [number - arm.base for number in numbers]
    arm.offsets = np.array(offsets, {"u16_array": "<u2", "u32_array": "<u4"}[width]).tobytes()
    return message


def holes(start: int, stop: int, array: pb_rowids.EncodedU64Array) -> pb_rowids.U64Segment:
    """Return a range with holes."""
    return pb_rowids.U64Segment(
        range_with_holes=pb_rowids.U64Segment.RangeWithHoles(start=start, end=stop, holes=array)
    )


@pytest.mark.parametrize("width", ["u16_array", "u32_array", "u64_array"])
def test_row_id_arrays_of_any_width_are_read(width: str) -> None:
    assert unpacked(pb_rowids.U64Segment(array=array(9, 4, 2**15, width=width))) == [9, 4, 2**15]
    assert unpacked(pb_rowids.U64Segment(sorted_array=array(4, 9, 2**15, width=width))) == [4, 9, 2**15]
    assert unpacked(holes(3, 12, array(5, 11, 4, width=width))) == [3, 6, 7, 8, 9, 10]
    check_search(holes(3, 12, array(5, 11, 4, width=width)), np.array([3, 6, 7, 8, 9, 10], np.uint64))


@pytest.mark.parametrize(
    "segment",
    [
        pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=5, end=5)),
        holes(4, 6, array(4, 5)),
        holes(4, 4, array()),
        pb_rowids.U64Segment(range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=4, end=9, bitmap=b"\0")),
        pb_rowids.U64Segment(array=pb_rowids.EncodedU64Array()),
        pb_rowids.U64Segment(sorted_array=array()),
    ],
)
def test_parsing_row_id_segments_without_ids_returns_none(segment: pb_rowids.U64Segment) -> None:
    assert parse_segment(segment, "test") is None


@pytest.mark.parametrize(
    ("segment", "match"),
    [
        (pb_rowids.U64Segment(array=array(7, 3, 7)), "contains duplicates"),
        (pb_rowids.U64Segment(sorted_array=array(3, 3)), "not strictly ascending"),
        (pb_rowids.U64Segment(sorted_array=array(5, 3)), "not strictly ascending"),
        (holes(0, 10, array(4, 4)), "twice"),
        (holes(4, 10, array(3)), "holes 3 to 3 are not within"),
        (holes(4, 10, array(10)), "holes 10 to 10 are not within"),
        (
            pb_rowids.U64Segment(
                array=pb_rowids.EncodedU64Array(
                    u16_array=pb_rowids.EncodedU64Array.U16Array(base=2**64 - 1, offsets=b"\1\0\0\0")
                )
            ),
            "more than 64 bits",
        ),
        (
            pb_rowids.U64Segment(
                range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=0, end=4, bitmap=b"\x0f\x01")
            ),
            "16 bits does not match a range of 4",
        ),
    ],
)
def test_inconsistent_row_ids_raise_corrupt_data(segment: pb_rowids.U64Segment, match: str) -> None:
    with pytest.raises(CorruptDataError, match=match):
        parse_segment(segment, "test")


def test_very_large_row_id_range_is_not_expanded() -> None:
    segment = pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=7, end=7 + 2**32))
    tracemalloc.start()
    ids = parse_segment(segment, "test")
    assert ids is not None
    assert len(ids) == 2**32
    assert ids.at(np.array([2**31])).tolist() == [7 + 2**31]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20
