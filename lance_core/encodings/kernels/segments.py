"""Byte segments: selecting many byte ranges from one array, and interleaving several lists of ranges.

Two operations move almost every byte of a page::

    gather       |..AAAA...BB.....CCCC|            ->  AAAABBCCCC
    interleave   (AAAA, BB, CCCC), (x, y, z)       ->  AAAAxBByCCCCz

``gather`` is used to read chunks (values without headers), ``interleave`` to write them (header, levels, values,
padding).

Source: our measurements with segments of 4 to 16 KiB: the compiled kernel moves 8 to 9 GB/s, as does Arrow's
``binary_join_element_wise``; Arrow's ``take`` moves 5 to 7 GB/s, and a Python loop 3 to 6 GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.kernels.loading import compiled_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Segments", "interleave"]

_FEW_BYTES: Final = 32
"""Segments with fewer bytes than this are copied with numpy indexing, which is faster for them and allows overlaps."""

_LARGE_BYTES: Final = 1024
"""Segments of at least this many bytes on average are copied by a Python loop if there is no compiled kernel."""

_MAX_SPREAD: Final = 64
"""Arrow's ``take`` allocates memory in proportion to the distances between segments: it is used only if the segments
span at most this many times their total size."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Many byte strings in one array; segment i is ``data[starts[i] : starts[i] + sizes[i]]``.

    Segments do not overlap, and can be in any order. Code that creates segments from untrusted positions must first
    check that the positions are inside ``data``.

    Attributes:
        data: (num_bytes,) uint8.
        starts: (num_segments,) int64, start of each segment in bytes.
        sizes: (num_segments,) int64, size of each segment in bytes.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def back_to_back(cls, data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> Self:
        """Return segments that follow each other without gaps from the start of ``data``."""
        return cls(data, np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def evenly(cls, data: NDArray[np.uint8], num_segments: int, segment_bytes: int) -> Self:
        """Split ``data`` into segments of ``segment_bytes`` bytes; the last segment contains the remainder."""
        starts = np.arange(num_segments, dtype=np.int64) * segment_bytes
        return cls(data, starts, np.minimum(len(data) - starts, segment_bytes))

    @property
    def num_segments(self) -> int:
        """Number of segments."""
        return len(self.starts)

    @property
    def num_bytes(self) -> int:
        """Total size of the segments in bytes."""
        return int(self.sizes.sum())

    def select(self, chosen: slice | NDArray[np.bool_] | NDArray[np.int64]) -> Self:
        """Return the selected segments; they share ``data``."""
        return type(self)(self.data, self.starts[chosen], self.sizes[chosen])

    def skip(self, num_bytes: int) -> Self:
        """Remove the first ``num_bytes`` bytes of every segment; the caller has checked that all are long enough."""
        return type(self)(self.data, self.starts + num_bytes, self.sizes - num_bytes)

    def segment(self, index: int) -> NDArray[np.uint8]:
        """Return segment ``index`` as a view."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]

    def gather(self) -> NDArray[np.uint8]:
        """Join all segments: a view if they are already contiguous, otherwise one copy."""
        if self.num_segments == 0:
            return self.data[:0]
        if self.num_segments == 1:
            return self.segment(0)
        stops = self.starts + self.sizes
        if bool((self.starts[1:] == stops[:-1]).all()):
            return self.data[int(self.starts[0]) : int(stops[-1])]
        step = int(self.starts[1] - self.starts[0])
        size = int(self.sizes[0])
        if size and bool((np.diff(self.starts) == step).all() and (self.sizes[:-1] == size).all()):
            return self._gather_evenly_spaced(step, size)
        return self._gather_anywhere(stops)

    def rows(self, segment_bytes: int) -> NDArray[np.uint8]:
        """Return the first ``segment_bytes`` bytes of every segment; a view if segments are evenly spaced.

        The shape is (num_segments, segment_bytes). The caller has checked that every segment is long enough.
        """
        if self.num_segments == 0 or segment_bytes == 0:
            return np.empty((self.num_segments, segment_bytes), np.uint8)
        first = int(self.starts[0])
        if self.num_segments == 1:
            return self.data[first : first + segment_bytes].reshape(1, segment_bytes)
        steps = np.diff(self.starts)
        if bool((steps == steps[0]).all()):
            return np.lib.stride_tricks.as_strided(
                self.data[first:], (self.num_segments, segment_bytes), (int(steps[0]), 1), writeable=False
            )
        if segment_bytes <= _FEW_BYTES:
            picked: NDArray[np.uint8] = self.data[self.starts[:, None] + np.arange(segment_bytes)]
            return picked
        shortened = Segments(self.data, self.starts, np.full(self.num_segments, segment_bytes, np.int64))
        return shortened.gather().reshape(self.num_segments, segment_bytes)

    def _gather_evenly_spaced(self, step: int, size: int) -> NDArray[np.uint8]:
        out = uninitialized(self.num_bytes)
        num_equal = self.num_segments - 1
        equal = np.lib.stride_tricks.as_strided(
            self.data[int(self.starts[0]) :], (num_equal, size), (step, 1), writeable=False
        )
        out[: num_equal * size].reshape(num_equal, size)[:] = equal
        out[num_equal * size :] = self.segment(num_equal)
        return out

    def _gather_anywhere(self, stops: NDArray[np.int64]) -> NDArray[np.uint8]:
        num_bytes = self.num_bytes
        compiled = compiled_kernels("segments", num_bytes)
        if compiled is not None:
            joined: NDArray[np.uint8] = compiled.join(self.data, self.starts, self.sizes, num_bytes)
            return joined
        is_spread = int(stops[-1] - self.starts[0]) > _MAX_SPREAD * num_bytes
        if is_spread or num_bytes >= _LARGE_BYTES * self.num_segments or bool((np.diff(self.starts) < 0).any()):
            pieces = zip(self.starts.tolist(), stops.tolist(), strict=True)
            return np.concatenate([self.data[start:stop] for start, stop in pieces])
        # The wanted segments are the even entries of an array whose odd entries are the gaps between them.
        bounds = np.empty(2 * self.num_segments, np.int64)
        bounds[0::2] = self.starts
        bounds[1::2] = stops
        taken = _binary_array(self.data, bounds).take(pa.array(np.arange(0, 2 * self.num_segments, 2)))
        return np.frombuffer(taken.buffers()[2], np.uint8, num_bytes)


def interleave(columns: Sequence[Segments]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Interleave lists of segments: segment 0 of every column, then segment 1 of every column, and so on.

    Args:
        columns: lists of segments, at least one; all must have the same number of segments.

    Returns:
        The joined bytes, and (num_segments + 1,) int64 positions in them: the start of each group of segments with the
        same index, followed by the number of bytes.
    """
    num_segments = columns[0].num_segments
    if num_segments == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    if all(bool((column.sizes[:-1] == column.sizes[0]).all()) for column in columns):
        return _interleave_evenly(columns)
    arrays = [_binary_array(column.gather(), _bounds(column.sizes)) for column in columns]
    joined = pc.binary_join_element_wise(*arrays, pa.scalar(b"", pa.large_binary()))
    _, bounds, data = joined.buffers()
    positions = np.frombuffer(bounds, np.int64, num_segments + 1)
    return np.frombuffer(data, np.uint8, int(positions[-1])), positions


def _interleave_evenly(columns: Sequence[Segments]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Interleave columns whose segments have equal sizes, except for the last segment."""
    num_equal = columns[0].num_segments - 1
    group_bytes = sum(int(column.sizes[0]) for column in columns)
    positions = np.arange(num_equal + 2) * group_bytes
    positions[-1] = positions[-2] + sum(int(column.sizes[-1]) for column in columns)
    out = np.empty(int(positions[-1]), np.uint8)
    groups, last = np.split(out, positions[-2:-1])
    groups = groups.reshape(num_equal, group_bytes)
    at = at_last = 0
    for column in columns:
        data, size, last_size = column.gather(), int(column.sizes[0]), int(column.sizes[-1])
        groups[:, at : at + size] = data[: num_equal * size].reshape(num_equal, size)
        last[at_last : at_last + last_size] = data[num_equal * size :]
        at, at_last = at + size, at_last + last_size
    return out, positions


def _bounds(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


def _binary_array(data: NDArray[np.uint8], bounds: NDArray[np.int64]) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)
