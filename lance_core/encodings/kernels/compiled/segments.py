"""Compiled kernel that joins many byte segments. See ``kernels/segments.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.buffers.pool_arrays import uninitialized
from lance_core.encodings.kernels.compiled.jit import kernel, read_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["join"]


def join(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], num_bytes: int
) -> NDArray[np.uint8]:
    """Return the bytes of many segments, one after the other.

    The caller has checked that every segment is within the data.

    Args:
        data: bytes that contain the segments.
        starts: (num_segments,) start of each segment in bytes.
        sizes: (num_segments,) size of each segment in bytes.
        num_bytes: total size of the segments in bytes.
    """
    out = uninitialized(num_bytes)
    _copy(read_only(data), starts, sizes, out)
    return out


@kernel
def _copy(data: Any, starts: Any, sizes: Any, out: Any) -> None:
    # Assigning slices of arrays is four times slower. Unsigned positions need no check for negative indices.
    to = np.uint64(0)
    for segment in range(len(starts)):
        source, size = np.uint64(starts[segment]), np.uint64(sizes[segment])
        for at in range(size):
            out[to + at] = data[source + at]
        to += size
