"""Compiled kernel that joins the byte strings of all chunks. See ``kernels/chunked_strings.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_core.encodings.kernels.compiled.jit import kernel, read_only
from lance_core.encodings.kernels.compiled.segments import join

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["join_chunks"]


def join_chunks(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    num_values: NDArray[np.int64],
    offset_bytes: int,
    out_offsets: NDArray[Any],
) -> NDArray[np.uint8] | None:
    """Join the strings of many chunks; return None if the offsets of a chunk decrease or are out of range.

    The caller has checked that each chunk is within the data and is large enough for its offsets.

    Args:
        data: bytes that contain the chunks.
        starts: (num_chunks,) start of each chunk in bytes.
        sizes: (num_chunks,) size of each chunk in bytes.
        num_values: (num_chunks,) number of strings in each chunk.
        offset_bytes: size of an offset in bytes, 4 or 8.
        out_offsets: (sum of num_values + 1,) int32 or int64 output for the offsets of all strings.

    Returns:
        The bytes of all strings.
    """
    # An offset may start at any byte, because the data may be a mapping of the whole file.
    num_words = max(0, len(data) - offset_bytes + 1)
    words = np.ndarray((num_words,), np.dtype(f"<u{offset_bytes}"), data, strides=(1,))
    pieces = np.empty((2, len(starts)), np.int64)
    total = _join_offsets(read_only(words), starts, sizes, num_values, offset_bytes, out_offsets, pieces)
    return None if total < 0 else join(data, pieces[0], pieces[1], total)


@kernel
def _join_offsets(
    words: Any, starts: Any, sizes: Any, num_values: Any, width: Any, out_offsets: Any, pieces: Any
) -> Any:
    """Check and shift the offsets, and record the start and size of the bytes of each chunk."""
    total = 0
    to = 0
    out_offsets[0] = 0
    for chunk in range(len(starts)):
        at = starts[chunk]
        first = np.int64(words[at])
        if first < (num_values[chunk] + 1) * width:
            return -1
        shift = total - first
        previous = first
        for _ in range(num_values[chunk]):
            at += width
            offset = np.int64(words[at])
            if offset < previous:
                return -1
            to += 1
            out_offsets[to] = shift + offset
            previous = offset
        if previous > sizes[chunk]:
            return -1
        pieces[0, chunk] = starts[chunk] + first
        pieces[1, chunk] = previous - first
        total += previous - first
    return total
