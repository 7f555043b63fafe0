"""Statistics of a leaf's values, cheap enough to take of every page.

Source: own policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import bit_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["common_packed_bits", "sampled_distinct_ratio"]

_MIN_SAMPLES: Final = 256
_MAX_SAMPLES: Final = 4096
_SAMPLE_BYTES: Final = 1 << 18
_WIDTH_SAMPLES: Final = 64


def sampled_distinct_ratio(array: pa.Array) -> float:
    """Distinct values among evenly spaced samples, divided by the number of samples; nulls count as no value."""
    mean_bytes = array.nbytes // len(array) + 1
    num_samples = min(max(_SAMPLE_BYTES // mean_bytes, _MIN_SAMPLES), _MAX_SAMPLES)
    positions = np.arange(0, len(array), max(1, len(array) // num_samples))
    distinct = pc.count_distinct(array.take(pa.array(positions)), mode="only_valid").as_py()
    return float(distinct) / len(positions)


def common_packed_bits(blocks: NDArray[np.unsignedinteger]) -> float:
    """Mean bits that the largest value of a block needs, from evenly spaced blocks, (num_blocks, values) words."""
    sample = blocks[:: max(1, len(blocks) // _WIDTH_SAMPLES)]
    return float(bit_lengths(sample.max(axis=1)).mean())
