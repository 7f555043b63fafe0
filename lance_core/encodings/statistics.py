"""Statistics of a leaf's values, cheap enough to take of every page: most look at evenly spaced samples.

Source: own policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import bit_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["common_packed_bits", "runs_per_value", "sampled_distinct"]

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


def sampled_distinct(array: pa.Array) -> tuple[int, int]:
    """Valid values among evenly spaced samples, and how many of them differ."""
    mean_bytes = array.nbytes // len(array) + 1
    num_samples = min(max(_SAMPLE_BYTES // mean_bytes, _MIN_SAMPLES), _MAX_SAMPLES)
    positions = np.arange(0, len(array), max(1, len(array) // num_samples))
    sample = array.take(pa.array(positions))
    return len(sample) - sample.null_count, pc.count_distinct(sample, mode="only_valid").as_py()


def common_packed_bits(blocks: NDArray[np.unsignedinteger]) -> float:
    """Mean bits that the largest value of a block needs, from evenly spaced blocks, (num_blocks, values) words."""
    sample = blocks[:: max(1, len(blocks) // _WIDTH_SAMPLES)]
    return float(bit_lengths(sample.max(axis=1)).mean())


def runs_per_value(words: NDArray[Any], limit: float) -> float:
    """Runs of equal values by the number of values; exact where it is below ``limit``.

    A run of more than 255 values, or across a border of chunks, counts as several. A sample settles most cases.
    """
    if len(words) < 2:
        return 1.0
    if len(words) > _MANY_VALUES:
        num_changes = num_seen = 0
        for start in range(0, len(words) - 1, len(words) // _RUN_SAMPLES):
            piece = words[start : start + _RUN_SAMPLE_VALUES]
            num_changes += int(np.count_nonzero(piece[1:] != piece[:-1]))
            num_seen += len(piece) - 1
        if num_changes >= limit * _RUN_MARGIN * num_seen:
            return num_changes / num_seen
    changes = np.flatnonzero(words[1:] != words[:-1])
    lengths = np.diff(changes, prepend=-1, append=len(words) - 1)
    num_runs = int((-(-lengths // _MAX_RUN)).sum())
    return (num_runs + len(words) // _CHUNK_VALUES) / len(words)
