"""Expands ranges to the integers in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["expand_ranges"]


def expand_ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integers in all ranges ``[starts[i], starts[i] + lengths[i])``, one range after another."""
    ends = np.cumsum(lengths)
    numbers = np.repeat(starts - (ends - lengths), lengths)
    numbers += np.arange(len(numbers), dtype=np.int64)
    return numbers
