"""Segments: five encodings of a list of 64-bit row ids.

==================  ===============================  =======================
form                content                          size in bytes
==================  ===============================  =======================
range               start … end - 1                  none
range_with_holes    range without the listed ids     24 + 4 for each hole
range_with_bitmap   ids of the range whose bit is 1  24 + 1 for each 8 slots
sorted_array        ascending numbers                24 + 2 for each number
array               numbers in any order
==================  ===============================  =======================

An ascending list is stored in the form with the smallest size according to the right column, which is approximate; if
several forms have this size, the first of them is used. :mod:`~lance_core.table.encoded_numbers` describes how arrays
are packed. Readers accept every form.

A small message may describe a huge list: a range that is stored in a few bytes has up to 2 ** 64 ids. Parsing therefore
does not unpack the list. Callers compare the number of ids with the number of rows in the fragment before they unpack
the list.

Source: ``lance.table.U64Segment``; the choice of form follows pylance 14.0.2.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids
from lance_core.table.encoded_numbers import PackedNumbers, encode_numbers
from lance_core.table.row_id_sets import ListedIds, MaskedIds, PlainRange, RangeWithHoles, RowIdSet, SortedIds
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

__all__ = ["encode_segment", "parse_segment", "serialize_row_ids"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"

_FIXED_BYTES: Final = 24
_HOLE_BYTES: Final = 4
_SORTED_BYTES: Final = 2
_MAX_SLOTS: Final = 2**32
"""Maximum number of row ids that the range of a segment spans; a segment with a larger range is damaged."""


def serialize_row_ids(parts: Iterable[_Numbers]) -> bytes:
    """Return the serialized sequence of a fragment's row ids, with one segment for each part."""
    return pb_rowids.RowIdSequence(segments=map(encode_segment, parts)).SerializeToString()


def encode_segment(numbers: _Numbers) -> pb_rowids.U64Segment:
    """Encode row ids as a segment.

    Args:
        numbers: one or more distinct row ids, in row order.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if len(numbers) > 1 and not bool(np.all(numbers[1:] > numbers[:-1])):
        return pb_rowids.U64Segment(array=encode_numbers(numbers, low, high))
    num_slots = high - low + 1
    num_holes = num_slots - len(numbers)
    if num_holes == 0:
        return pb_rowids.U64Segment(range=pb_rowids.U64Segment.Range(start=low, end=high + 1))
    sizes = (
        _FIXED_BYTES + _HOLE_BYTES * num_holes,
        _FIXED_BYTES + -(-num_slots // 8),
        _FIXED_BYTES + _SORTED_BYTES * len(numbers),
    )
    if sizes[2] < min(sizes[:2]):
        return pb_rowids.U64Segment(sorted_array=encode_numbers(numbers, low, high))
    is_present = np.zeros(num_slots, bool)
    is_present[(numbers - np.uint64(low)).astype(np.int64)] = True
    if sizes[0] <= sizes[1]:
        holes = np.flatnonzero(~is_present).astype(np.uint64) + np.uint64(low)
        return pb_rowids.U64Segment(
            range_with_holes=pb_rowids.U64Segment.RangeWithHoles(
                start=low, end=high + 1, holes=encode_numbers(holes, int(holes[0]), int(holes[-1]))
            )
        )
    bitmap = np.packbits(is_present, bitorder="little").tobytes()
    return pb_rowids.U64Segment(
        range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=low, end=high + 1, bitmap=bitmap)
    )


def parse_segment(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    """Return the ids of a segment; None if it has no ids.

    Args:
        segment: the message.
        what: origin of the segment, for error messages.

    Raises:
        CorruptDataError: the message is inconsistent, or has duplicate ids.
    """
    form = segment.WhichOneof("segment")
    if form is None:
        raise CorruptDataError(f"{what}: a segment of numbers has no content")
    return _PARSERS[form](segment, what)


def _parse_range(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    start, stop = _bounds(segment.range.start, segment.range.end, what)
    return PlainRange(start, stop) if start < stop else None


def _parse_range_with_holes(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    message = segment.range_with_holes
    start, stop = _bounds(message.start, message.end, what)
    packed = PackedNumbers.parse(message.holes, what)
    if not len(packed):
        return PlainRange(start, stop) if start < stop else None
    if packed.low < start or packed.high >= stop:
        raise CorruptDataError(
            f"{what}: the holes {packed.low} to {packed.high} are not within the range of numbers {start} to {stop}"
        )
    holes = np.unique(packed.at(np.arange(len(packed), dtype=np.int64)))
    if len(holes) != len(packed):
        raise CorruptDataError(f"{what}: a hole in the range of numbers {start} to {stop} is listed twice")
    return RangeWithHoles(start, stop, holes) if len(holes) < stop - start else None


def _parse_range_with_bitmap(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    message = segment.range_with_bitmap
    start, stop = _bounds(message.start, message.end, what)
    num_slots, bitmap = stop - start, np.frombuffer(message.bitmap, np.uint8)
    last, num_bits = divmod(num_slots, 8)
    if len(bitmap) < -(-num_slots // 8) or (bitmap[last:] >> np.uint8(num_bits))[:1].any() or bitmap[last + 1 :].any():
        raise CorruptDataError(
            f"{what}: a bitmap of {counted(len(bitmap) * 8, 'bit')} does not match a range of "
            f"{counted(num_slots, 'number')}"
        )
    return MaskedIds(start, bitmap) if bitmap.any() else None


def _parse_sorted_array(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    ids = PackedNumbers.parse(segment.sorted_array, what)
    if not ids.is_ascending:
        raise CorruptDataError(f"{what}: a sorted list of numbers is not strictly ascending")
    return SortedIds(ids) if len(ids) else None


def _parse_array(segment: pb_rowids.U64Segment, what: str) -> RowIdSet | None:
    ids = PackedNumbers.parse(segment.array, what)
    if ids.is_ascending:
        return SortedIds(ids) if len(ids) else None
    in_order = np.sort(ids.offsets)
    if bool((in_order[1:] == in_order[:-1]).any()):
        raise CorruptDataError(f"{what}: a list of numbers contains duplicates")
    return ListedIds(ids)


_PARSERS: Final[Mapping[str, Callable[[pb_rowids.U64Segment, str], RowIdSet | None]]] = MappingProxyType(
    {
        "range": _parse_range,
        "range_with_holes": _parse_range_with_holes,
        "range_with_bitmap": _parse_range_with_bitmap,
        "sorted_array": _parse_sorted_array,
        "array": _parse_array,
    }
)


def _bounds(start: int, stop: int, what: str) -> tuple[int, int]:
    if not 0 <= stop - start <= _MAX_SLOTS:
        raise CorruptDataError(f"{what}: a segment of numbers has the invalid range {start} to {stop}")
    return start, stop
