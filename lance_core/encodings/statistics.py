"""Statistics of a leaf's values, cheap enough to compute for every page: most use samples.

Samples are spread out: one in each of several equal parts, at a position within the part that depends only on the
numbers of values and samples. (Evenly spaced samples could all hit values that repeat at the same interval.) Equal
values always result in equal pages.

Source: our own policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import bit_lengths
from lance_core.encodings.leaf_arrays import validity_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["common_packed_bits", "expected_distinct", "runs_per_value", "sampled_counts", "spread"]

_MIN_SAMPLES: Final = 256
_MAX_SAMPLES: Final = 4096
_SAMPLE_BYTES: Final = 1 << 18
_WIDTH_SAMPLES: Final = 64
_RUN_SAMPLES: Final = 32
_RUN_SAMPLE_VALUES: Final = 512
_RUN_MARGIN: Final = 1.25
_MANY_VALUES: Final = 1 << 15
_CHUNK_VALUES: Final = 4096
_MAX_RUN: Final = 255
_MIX: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_MIX_SHIFT: Final = np.uint64(31)


def spread(num_values: int, num_samples: int) -> NDArray[np.int64]:
    """Return sample positions, ascending and distinct; if there are no more values than samples, all positions."""
    if num_values <= num_samples:
        return np.arange(num_values)
    starts = np.arange(num_samples + 1) * num_values // num_samples
    mixed = (np.arange(num_samples, dtype=np.uint64) + np.uint64(num_values)) * _MIX[0]
    mixed = (mixed ^ (mixed >> _MIX_SHIFT)) * _MIX[1]
    mixed ^= mixed >> _MIX_SHIFT
    return starts[:-1] + (mixed % np.diff(starts).astype(np.uint64)).astype(np.int64)


def sampled_counts(array: pa.Array) -> NDArray[np.int64]:
    """Count the occurrences of each value in a sample of the valid values; empty only if no value is valid."""
    num_valid = len(array) - array.null_count
    if num_valid == 0:
        return np.empty(0, np.int64)
    mean_bytes = array.nbytes // num_valid + 1
    positions = spread(num_valid, min(max(_SAMPLE_BYTES // mean_bytes, _MIN_SAMPLES), _MAX_SAMPLES))
    validity = validity_of(array)
    if validity is not None:
        positions = np.flatnonzero(validity)[positions]
    sample = array.take(pa.array(positions))
    if pa.types.is_integer(array.type):
        # For so few integers, sorting is faster than hashing.
        return np.unique(np.asarray(sample), return_counts=True)[1]
    counts: NDArray[np.int64] = pc.value_counts(sample).field("counts").to_numpy()
    return counts


def expected_distinct(counts: NDArray[np.int64]) -> float:
    """Estimate the number of distinct values from the number of occurrences of each sampled value.

    The number of values missing from the sample is estimated from how many values occur in it exactly once and how many
    exactly twice (Chao, 1984), so that a few frequent values do not distort the result. The result is accurate if all
    values are equally frequent, and too low otherwise.
    """
    num_once, num_twice = (int(np.count_nonzero(counts == times)) for times in (1, 2))
    return len(counts) + num_once * (num_once - 1) / (2 * (num_twice + 1))


def common_packed_bits(blocks: NDArray[np.unsignedinteger]) -> float:
    """Estimate the mean packed bit width of blocks, (num_blocks, num_values) words, from a sample of the blocks."""
    sample = blocks[spread(len(blocks), _WIDTH_SAMPLES)]
    return float(bit_lengths(sample.max(axis=1)).mean())


def runs_per_value(words: NDArray[Any], limit: float) -> float:
    """Return the number of runs of equal values divided by the number of values; exact if below ``limit``.

    A run counts as several runs if it has more than 255 values or extends over several chunks. A sample suffices if its
    ratio is clearly above ``limit``; the ratio of the sample is then returned.
    """
    if len(words) < 2:
        return 1.0
    if len(words) > _MANY_VALUES:
        starts = spread(len(words) - _RUN_SAMPLE_VALUES, _RUN_SAMPLES)
        pieces = words[starts[:, np.newaxis] + np.arange(_RUN_SAMPLE_VALUES)]
        num_changes = int(np.count_nonzero(pieces[:, 1:] != pieces[:, :-1]))
        num_seen = pieces.size - len(pieces)
        if num_changes >= min(limit * _RUN_MARGIN, (1 + limit) / 2) * num_seen:
            return num_changes / int(num_seen)
    changes = np.flatnonzero(words[1:] != words[:-1])
    lengths = np.diff(changes, prepend=-1, append=len(words) - 1)
    num_runs = int((-(-lengths // _MAX_RUN)).sum())
    return (num_runs + len(words) // _CHUNK_VALUES) / len(words)
