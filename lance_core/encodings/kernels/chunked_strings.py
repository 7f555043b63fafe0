"""Joins byte strings that are stored in chunks, each chunk with its own offsets, into one list of strings.

::

    chunk     offsets[n + 1] | bytes        the offsets are relative to the start of the chunk
    joined    offsets[N + 1], bytes         N is the sum of n over all chunks

Source: specific to this library; for the chunks, see ``compressive/variable.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.kernels.loading import compiled_kernels
from lance_core.encodings.kernels.segments import Segments

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["join_chunks"]

_MAX_INT32: Final = (1 << 31) - 1


def join_chunks(
    chunks: Segments, num_values: NDArray[np.int64], offset_bytes: int
) -> tuple[NDArray[Any], NDArray[np.uint8]] | None:
    """Join the strings of many chunks.

    Args:
        chunks: the chunks; each must be inside the data and large enough for its offsets.
        num_values: (num_chunks,) number of strings in each chunk.
        offset_bytes: size of an offset in bytes, 4 or 8.

    Returns:
        The (sum of num_values + 1,) int32 or int64 offsets, starting with 0, and the bytes; None if the offsets of a
        chunk decrease or are out of range.
    """
    num_bytes = chunks.num_bytes
    compiled = compiled_kernels("strings", num_bytes)
    if compiled is not None:
        fits = num_bytes <= _MAX_INT32
        joined = uninitialized(int(num_values.sum()) + 1, np.int32 if fits else np.int64)
        data = compiled.join_chunks(chunks.data, chunks.starts, chunks.sizes, num_values, offset_bytes, joined)
        return None if data is None else (joined, data)
    return _join_with_numpy(chunks, num_values, offset_bytes)


def _join_with_numpy(
    chunks: Segments, num_values: NDArray[np.int64], offset_bytes: int
) -> tuple[NDArray[Any], NDArray[np.uint8]] | None:
    num_offsets = num_values + 1
    offsets = Segments(chunks.data, chunks.starts, num_offsets * offset_bytes).gather()
    offsets = offsets.view(UNSIGNED_DTYPES[offset_bytes * 8])
    last = np.cumsum(num_offsets) - 1
    first = last - num_values
    ends_chunk = np.zeros(len(offsets), np.bool_)
    ends_chunk[last] = True
    falling = offsets[1:] < offsets[:-1]
    falling[last[:-1]] = False
    starts_inside = offsets[first] < num_offsets * offset_bytes
    if bool(falling.any() or starts_inside.any() or (offsets[last] > chunks.sizes).any()):
        return None
    starts, stops = offsets[first].astype(np.int64), offsets[last].astype(np.int64)
    data = Segments(chunks.data, chunks.starts + starts, stops - starts).gather()
    # Make offsets relative to the joined bytes: shift the offsets of every chunk, and drop all ends except the last.
    shifts = np.cumsum(stops - starts) - stops
    joined = uninitialized(int(num_values.sum()) + 1, np.int32 if len(data) <= _MAX_INT32 else np.int64)
    joined[:-1] = (offsets.astype(joined.dtype) + np.repeat(shifts.astype(joined.dtype), num_offsets))[~ends_chunk]
    joined[-1] = len(data)
    return joined, data
