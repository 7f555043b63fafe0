"""Reads many values from one object; small values that are close together are read together.

A value is a range of the object. A separate request and buffer for each small value would be inefficient, so small
values are joined into runs, which are read and then split in one step.

Source: our measurements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.segments import Segments
from lance_core.encodings.leaf_arrays import bytes_of
from lance_core.file.file_bytes import run_steps
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.file.file_bytes import Read, ReadSteps

__all__ = ["read_values", "value_steps"]

_SMALL_BYTES: Final = 8 * 1024
"""If the average size of the values in bytes is above this limit, they are returned as read, without a copy."""

_GAP_BYTES: Final = 512
"""Neighboring values that are at most this many bytes apart are read together; values begin at multiples of 64
bytes."""


def read_values(read: Read, starts: NDArray[Any], sizes: NDArray[Any]) -> Sequence[pa.Buffer]:
    """Read values; see :func:`value_steps`."""
    return run_steps(value_steps(starts, sizes), read)


def value_steps(starts: NDArray[Any], sizes: NDArray[Any]) -> ReadSteps[Sequence[pa.Buffer]]:
    """Read values and return buffers that together contain them: one buffer per value, or one buffer for all values.

    Args:
        starts: start position of each value in the object, shape (num_values,); the caller has checked them.
        sizes: size of each value in bytes, shape (num_values,).
    """
    first, length = starts.astype(np.int64), sizes.astype(np.int64)
    stops = first + length
    ascends = len(first) > 1 and bool((first[1:] >= stops[:-1]).all())
    if not ascends or int(length.sum()) > _SMALL_BYTES * len(first):
        bounds = zip(first.tolist(), stops.tolist(), strict=True)
        return (yield [ByteRange(start, stop) for start, stop in bounds]) if len(first) else []
    opens = np.flatnonzero(np.append(True, first[1:] - stops[:-1] > _GAP_BYTES))
    closes = np.append(opens[1:], len(first)) - 1
    runs = [ByteRange(start, stop) for start, stop in zip(first[opens].tolist(), stops[closes].tolist(), strict=True)]
    found = yield runs
    views = [bytes_of(buffer) for buffer in found]
    data = views[0] if len(views) == 1 else np.concatenate(views)
    # Start of each run in the data, minus its start in the object.
    run_bytes = stops[closes] - first[opens]
    shifts = np.cumsum(run_bytes) - run_bytes - first[opens]
    moved = first + np.repeat(shifts, closes - opens + 1)
    return [pa.py_buffer(Segments(data, moved, length).gather())]
