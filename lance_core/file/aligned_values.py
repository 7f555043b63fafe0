"""Writes binary values to a data file, outside its pages, each aligned to 64 bytes.

**Source:** blobs in files written by pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.buffers.alignment import BUFFER_ALIGNMENT, BUFFER_PAD_BYTE
from lance_core.encodings.kernels.segments import Segments, interleave
from lance_core.encodings.leaf_arrays import bytes_of, validity_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.file.field_writer import BufferSink

__all__ = ["BinaryValues", "place_values", "write_aligned_values", "write_inline_values"]

_JOINED_BYTES: Final = 64 * 1024
"""If the average size of the values in bytes is below this limit, they are padded in memory and written together."""

_GROUP_BYTES: Final = 8 * 1024 * 1024


def place_values(array: pa.Array, sink: BufferSink) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Write the values of a large_binary array, each aligned to 64 bytes.

    Returns:
        Positions in the file (0 for null and empty values) and sizes in bytes, both with shape (num_values,).
    """
    values = BinaryValues.of(array)
    positions = np.zeros(len(array), np.uint64)
    filled = np.flatnonzero(values.sizes)
    positions[filled] = write_aligned_values(values.segments.select(filled), sink)
    return positions, values.sizes.astype(np.uint64)


@dataclass(frozen=True, slots=True)
class BinaryValues:
    """The bytes of a large_binary array; null values have size 0.

    Attributes:
        segments: one segment per value.
        sizes: size of each value in bytes, shape (num_values,), int64.
    """

    segments: Segments
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, array: pa.Array) -> BinaryValues:
        """Return the values of an array; it may be a slice of a larger array."""
        _, offset_buffer, data = array.buffers()
        offsets = bytes_of(offset_buffer).view("<i8")[array.offset : array.offset + len(array) + 1]
        if not len(array):
            offsets = np.zeros(1, np.int64)
        sizes = np.diff(offsets)
        valid = validity_of(array)
        if valid is not None:
            sizes = sizes * valid
        return cls(Segments(bytes_of(data), offsets[:-1], sizes), sizes)


def write_aligned_values(segments: Segments, sink: BufferSink) -> NDArray[np.uint64]:
    """Write non-empty segments and return their positions in the file."""
    positions = np.zeros(segments.num_segments, np.uint64)
    if segments.num_bytes >= _JOINED_BYTES * segments.num_segments:
        for index in range(segments.num_segments):
            positions[index] = sink.write_aligned(pa.py_buffer(segments.segment(index))).start
        return positions
    groups = np.cumsum(segments.sizes) // _GROUP_BYTES
    for group in np.unique(groups):
        here = np.flatnonzero(groups == group)
        some = segments.select(here)
        padding = -some.sizes % BUFFER_ALIGNMENT
        blank = np.full(int(padding.sum()), BUFFER_PAD_BYTE, np.uint8)
        joined, starts = interleave([some, Segments.back_to_back(blank, padding)])
        positions[here] = sink.write_aligned(pa.py_buffer(joined)).start + starts[:-1]
    return positions


def write_inline_values(segments: Segments, sink: BufferSink) -> NDArray[np.uint64]:
    """Write segments and return their positions in the file; an empty segment gets the position of the next segment."""
    filled = segments.sizes > 0
    some = segments.select(filled)
    behind = np.array([sink.write_aligned(pa.py_buffer(b"")).start], np.uint64)
    starts = write_aligned_values(some, sink)
    if len(starts):
        behind = starts[-1:] + (some.sizes[-1:] + -some.sizes[-1:] % BUFFER_ALIGNMENT).astype(np.uint64)
    return np.concatenate([starts, behind])[np.cumsum(filled) - filled]
