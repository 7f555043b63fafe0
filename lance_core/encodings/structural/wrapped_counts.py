"""Corrects the level counts of chunks, which early releases stored modulo 65,536.

A mini-block chunk records its number of levels in 16 bits. Releases before 4.0 put any number of empty lists into a
chunk, so that this number could wrap around. The size of the repetition levels determines how many times the number
wrapped around.

Source: files of pylance 0.38 to 2.0, which pylance 14.0.2 does not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.kernels.fastlanes import BLOCK_VALUES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.kernels.segments import Segments
    from lance_core.proto import pb21

__all__ = ["unwrapped_counts"]

_WRAP: Final = 1 << 16
_LEVEL_BYTES: Final = 2
_RUN_HEADER_BYTES: Final = 8
_BYTES_PER_RUN: Final = 3
_MAX_RUN: Final = 255


def unwrapped_counts(
    encoding: pb21.CompressiveEncoding, repetition: Segments, num_levels: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the actual number of levels in each chunk.

    Args:
        encoding: encoding of the repetition levels.
        repetition: bytes of the repetition levels, one segment per chunk.
        num_levels: (num_chunks,) int64, recorded number of levels of each chunk.

    Returns:
        The actual numbers; ``num_levels`` itself if no number wrapped around.
    """
    largest = int(repetition.sizes.max(initial=0))
    arm = encoding.WhichOneof("compression")
    if arm == "out_of_line_bitpacking":
        bits = encoding.out_of_line_bitpacking.values.flat.bits_per_value
        if 0 < bits < 8 * _LEVEL_BYTES and largest >= _WRAP * bits // 8:
            return _by_packed_size(repetition.sizes, num_levels, bits)
    elif arm == "rle" and largest >= _WRAP // _MAX_RUN * _BYTES_PER_RUN:
        return _by_runs(repetition, num_levels)
    return num_levels


def _by_packed_size(sizes: NDArray[np.int64], num_levels: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the smallest number congruent to the recorded number that matches the packed size of a chunk's levels."""
    block_bytes = BLOCK_VALUES * bits // 8
    found = num_levels.copy()
    open_chunks = np.ones(len(found), np.bool_)
    highest = int(sizes.max()) // block_bytes * BLOCK_VALUES + BLOCK_VALUES
    for more in range(0, highest + 1, _WRAP):
        blocks, tail = np.divmod(num_levels + more, BLOCK_VALUES)
        rest = sizes - blocks * block_bytes
        fits = open_chunks & ((rest == tail * _LEVEL_BYTES) | ((rest == block_bytes) & (tail > 0)))
        found[fits] += more
        open_chunks &= ~fits
    return found


def _by_runs(repetition: Segments, num_levels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the largest number congruent to the recorded number that the runs cover; the last run may be too long."""
    found = num_levels.copy()
    for chunk in np.flatnonzero(repetition.sizes >= _WRAP // _MAX_RUN * _BYTES_PER_RUN):
        start, size = int(repetition.starts[chunk]), int(repetition.sizes[chunk])
        lengths = repetition.data[start + size - (size - _RUN_HEADER_BYTES) // _BYTES_PER_RUN : start + size]
        missing = int(lengths.sum(dtype=np.int64)) - int(num_levels[chunk])
        found[chunk] += max(0, missing) // _WRAP * _WRAP
    return found
