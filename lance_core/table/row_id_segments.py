"""Segments: how a run of row ids is stored. Five forms of one list of 64-bit numbers.

==================  ===============================  =======================
form                stands for                       bytes, about
==================  ===============================  =======================
range               start … end - 1                  none
range_with_holes    that, without the listed ones    24 + 4 for each hole
range_with_bitmap   that, where the bit is set       24 + 1 for each 8 slots
sorted_array        ascending numbers                24 + 2 for each number
array               numbers in any order
==================  ===============================  =======================

An ascending list gets the smallest form by the column on the right; of equals, the upper one. Arrays keep a base and 16
or 32 bit offsets, or plain numbers where those do not reach.

Source: ``lance.table.U64Segment``; the choice as pylance 14.0.2 makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lance_core.errors import CorruptDataError
from lance_core.proto import pb_rowids

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["decode_segment", "encode_segment"]

_Numbers: TypeAlias = "npt.NDArray[np.uint64]"

_FIXED_BYTES: Final = 24
_HOLE_BYTES: Final = 4
_SORTED_BYTES: Final = 2
_MAX_SLOTS: Final = 2**32
"""A fragment has fewer rows; a longer range is damage, and would not fit into memory."""


def encode_segment(numbers: _Numbers) -> pb_rowids.U64Segment:
    """The segment of some numbers; at least one.

    Args:
        numbers: without repetition, in the order of the rows.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if len(numbers) > 1 and not bool(np.all(numbers[1:] > numbers[:-1])):
        return pb_rowids.U64Segment(array=_encode_array(numbers, low, high))
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
        return pb_rowids.U64Segment(sorted_array=_encode_array(numbers, low, high))
    is_present = np.zeros(num_slots, bool)
    is_present[(numbers - np.uint64(low)).astype(np.int64)] = True
    if sizes[0] <= sizes[1]:
        holes = np.flatnonzero(~is_present).astype(np.uint64) + np.uint64(low)
        return pb_rowids.U64Segment(
            range_with_holes=pb_rowids.U64Segment.RangeWithHoles(
                start=low, end=high + 1, holes=_encode_array(holes, int(holes[0]), int(holes[-1]))
            )
        )
    bitmap = np.packbits(is_present, bitorder="little").tobytes()
    return pb_rowids.U64Segment(
        range_with_bitmap=pb_rowids.U64Segment.RangeWithBitmap(start=low, end=high + 1, bitmap=bitmap)
    )


def decode_segment(segment: pb_rowids.U64Segment, what: str) -> _Numbers:
    """The numbers of a segment.

    Args:
        segment: the message.
        what: where it is from, for error messages.

    Returns:
        Shape (num_rows,), fresh or a view of the message.

    Raises:
        CorruptDataError: the message contradicts itself.
    """
    form = segment.WhichOneof("segment")
    if form == "range":
        return _range(segment.range.start, segment.range.end, what)
    if form == "range_with_holes":
        with_holes = segment.range_with_holes
        numbers = _range(with_holes.start, with_holes.end, what)
        holes = _decode_array(with_holes.holes, what)
        return np.compress(~np.isin(numbers, holes, assume_unique=True), numbers)
    if form == "range_with_bitmap":
        with_bitmap = segment.range_with_bitmap
        slots = _range(with_bitmap.start, with_bitmap.end, what)
        bits = np.unpackbits(np.frombuffer(with_bitmap.bitmap, np.uint8), bitorder="little")
        if len(bits) < len(slots) or bits[len(slots) :].any():
            raise CorruptDataError(f"{what}: a bitmap of {len(bits)} bits for {len(slots)} row ids")
        return np.compress(bits[: len(slots)] != 0, slots)
    if form in ("sorted_array", "array"):
        return _decode_array(getattr(segment, form), what)
    raise CorruptDataError(f"{what}: a segment of row ids has no content")


def _range(start: int, stop: int, what: str) -> _Numbers:
    if not 0 <= stop - start <= _MAX_SLOTS:
        raise CorruptDataError(f"{what}: a segment of row ids goes from {start} to {stop}")
    return np.arange(start, stop, dtype=np.uint64)


def _encode_array(numbers: _Numbers, low: int, high: int) -> pb_rowids.EncodedU64Array:
    offsets = numbers - np.uint64(low)
    if high - low < 2**16:
        narrow = pb_rowids.EncodedU64Array.U16Array(base=low, offsets=offsets.astype("<u2").tobytes())
        return pb_rowids.EncodedU64Array(u16_array=narrow)
    if high - low < 2**32:
        wide = pb_rowids.EncodedU64Array.U32Array(base=low, offsets=offsets.astype("<u4").tobytes())
        return pb_rowids.EncodedU64Array(u32_array=wide)
    plain = pb_rowids.EncodedU64Array.U64Array(values=numbers.astype("<u8").tobytes())
    return pb_rowids.EncodedU64Array(u64_array=plain)


def _decode_array(array: pb_rowids.EncodedU64Array, what: str) -> _Numbers:
    form = array.WhichOneof("array")
    if form is None:
        return np.empty(0, np.uint64)
    base, data, dtype = {
        "u16_array": (array.u16_array.base, array.u16_array.offsets, "<u2"),
        "u32_array": (array.u32_array.base, array.u32_array.offsets, "<u4"),
        "u64_array": (0, array.u64_array.values, "<u8"),
    }[form]
    if len(data) % np.dtype(dtype).itemsize:
        raise CorruptDataError(f"{what}: {len(data)} bytes are no whole number of row ids")
    return np.frombuffer(data, dtype).astype(np.uint64) + np.uint64(base)
