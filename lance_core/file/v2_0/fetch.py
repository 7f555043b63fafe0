"""Converts the spans that decoders request to ranges that a store reads, and extracts the spans from the bytes.

Decoding proceeds in rounds (see :mod:`lance_core.encodings.v2_0.api`); every round is one read of the file. Spans that
are close together are read as one range, because a separate request takes about as long as reading the gap.

Source: ``lance.encodings.Buffer``; the maximum gap is the number of bytes that pylance 14.0.2 reads from an object
store at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.v2_0.spans import Spans
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.encodings.v2_0.api import Steps
    from lance_core.file.file_bytes import ReadSteps

__all__ = ["first_ranges", "on_file"]

T = TypeVar("T")

_MAX_GAP_BYTES: Final = 64 * 1024
_MAX_MAPPED_GAP_BYTES: Final = 1 << 40
_FEW_PIECES: Final = 4
_SMALL_BYTES: Final = 64


def on_file(steps: Steps[T], *, is_mapped: bool) -> ReadSteps[T]:
    """Convert the steps of a decoder to read steps of the file.

    Args:
        steps: the steps of the decoder.
        is_mapped: whether the file is mapped into memory, so that only the accessed bytes of a range are loaded.
    """
    max_gap_bytes = _MAX_MAPPED_GAP_BYTES if is_mapped else _MAX_GAP_BYTES
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send((yield from _fetch(wanted, max_gap_bytes)))
    except StopIteration as stop:
        result: T = stop.value
        return result


def first_ranges(steps: Steps[T], *, is_mapped: bool) -> list[ByteRange]:
    """Return the ranges that a decoder requests before it has received any data."""
    max_gap_bytes = _MAX_MAPPED_GAP_BYTES if is_mapped else _MAX_GAP_BYTES
    wanted = next(steps, [])
    steps.close()
    return [byte_range for spans in wanted for byte_range in _ranges(_extents(spans, max_gap_bytes))]


def _fetch(wanted: Sequence[Spans], max_gap_bytes: int) -> ReadSteps[list[pa.Buffer]]:
    """Return one buffer per entry of ``wanted``, with its runs back to back; zero-copy for a single run."""
    extents = [_extents(spans, max_gap_bytes) for spans in wanted]
    ranges = [byte_range for each in extents for byte_range in _ranges(each)]
    buffers = iter((yield ranges))
    return [
        _joined(spans, each, [next(buffers) for _ in range(len(each.starts))])
        for spans, each in zip(wanted, extents, strict=True)
    ]


def _extents(spans: Spans, max_gap_bytes: int) -> Spans:
    """Return the runs to read: the requested runs, and the gaps between runs that are close together."""
    if spans.is_single:
        return spans
    far = spans.starts[1:] - spans.stops[:-1] > max_gap_bytes
    starts = spans.starts[np.concatenate(([True], far))]
    stops = spans.stops[np.concatenate((far, [True]))]
    return Spans(starts, stops, int((stops - starts).sum()), spans.are_offsets)


def _ranges(extents: Spans) -> list[ByteRange]:
    pairs = zip(extents.starts.tolist(), extents.stops.tolist(), strict=True)
    return [ByteRange(start, stop, extents.are_offsets) for start, stop in pairs]


def _joined(spans: Spans, extents: Spans, buffers: list[pa.Buffer]) -> pa.Buffer:
    if spans.is_single:
        return buffers[0]
    if extents.is_single:
        return _gathered(np.frombuffer(buffers[0], np.uint8), spans.shifted(-extents.start))
    if len(extents.starts) == len(spans.starts):
        return pa.py_buffer(b"".join(buffers))
    if len(spans.starts) <= _FEW_PIECES * len(extents.starts):
        owner = np.searchsorted(extents.starts, spans.starts, side="right") - 1
        inside = spans.starts - extents.starts[owner]
        pieces = zip(owner.tolist(), inside.tolist(), spans.lengths.tolist(), strict=True)
        return pa.py_buffer(b"".join([buffers[index].slice(start, size) for index, start, size in pieces]))
    before = np.cumsum(extents.lengths) - extents.lengths
    owner = np.searchsorted(extents.starts, spans.starts, side="right") - 1
    moved = spans.starts - extents.starts[owner] + before[owner]
    data = np.frombuffer(b"".join(buffers), np.uint8)
    return _gathered(data, Spans(moved, moved + spans.lengths, spans.total))


def _gathered(data: np.ndarray, spans: Spans) -> pa.Buffer:
    lengths = spans.lengths
    size = int(lengths[0])
    if size <= _SMALL_BYTES and bool((lengths == size).all()):
        return pa.py_buffer(data[spans.starts[:, None] + np.arange(size)].reshape(-1))
    return pa.py_buffer(Segments(data, spans.starts, lengths).gather())
