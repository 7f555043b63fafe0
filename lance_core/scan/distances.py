"""Distances between vectors and a query vector, by metric.

=========  =======================================  ========================================
metric     distance                                 element types of the column
=========  =======================================  ========================================
l2         square of the Euclidean distance         float16, float32, float64
cosine     1 - cosine of the angle                  float16, float32, float64
dot        1 - dot product                          float16, float32, float64
hamming    number of bits that differ               uint8
=========  =======================================  ========================================

float16 vectors are converted to float32, and the others are not converted. All results are float32, and NaN if the
distance is undefined: an element is NaN, or one of the vectors is zero and the metric is "cosine". Equal vectors have
exactly equal distances, wherever they are stored, because every row is summed in the same order.

**Source:** metrics of pylance 14.0.2. Its results may differ from those of this module in the last bits.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

__all__ = ["Metric", "compute_type", "distances"]

_BLOCK_BYTES: Final = 256 * 1024
"""Size in bytes of the blocks in which vectors are processed; a block's intermediate results fit in the CPU cache."""


class Metric(Enum):
    """How distances are measured."""

    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"
    HAMMING = "hamming"


def compute_type(element: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which distances between vectors with elements of type ``element`` are computed."""
    return np.dtype(np.float32) if element == np.float16 else element


def distances(metric: Metric, vectors: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return the distance between each vector and the query.

    Args:
        metric: the metric; it must support the element type.
        vectors: shape (num_vectors, dimension), C-contiguous.
        query: shape (dimension,), of type ``compute_type(vectors.dtype)``.

    Returns:
        New array of shape (num_vectors,).
    """
    result = np.empty(len(vectors), np.float32)
    block_rows = max(1, _BLOCK_BYTES // max(1, query.nbytes))
    measure = _MEASURES[metric]
    # Values may overflow, and the distances of some vectors are undefined.
    with np.errstate(all="ignore"):
        for start in range(0, len(vectors), block_rows):
            block = vectors[start : start + block_rows].astype(query.dtype, copy=False)
            result[start : start + block_rows] = measure(block, query)
    return result


def _l2(block: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return _squared_norms(block - query)


def _cosine(block: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[Any]:
    norms: npt.NDArray[Any] = np.sqrt(_squared_norms(block)) * np.sqrt(_squared_norms(query[None]))
    cosines: npt.NDArray[Any] = _dot_products(block, query) / norms
    return 1 - cosines


def _dot(block: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return 1 - _dot_products(block, query)


def _hamming(block: npt.NDArray[np.uint8], query: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    num_bits: npt.NDArray[np.uint32] = _NUM_BITS[block ^ query].sum(axis=1, dtype=np.uint32)
    return num_bits


# The sums of einsum depend only on the row. Those of a matrix product also depend on the position of the row.


def _squared_norms(block: npt.NDArray[Any]) -> npt.NDArray[Any]:
    norms: npt.NDArray[Any] = np.einsum("ij,ij->i", block, block)
    return norms


def _dot_products(block: npt.NDArray[Any], query: npt.NDArray[Any]) -> npt.NDArray[Any]:
    products: npt.NDArray[Any] = np.einsum("ij,j->i", block, query)
    return products


_NUM_BITS: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
"""Number of set bits of each byte value, shape (256,)."""

_MEASURES: Final[Mapping[Metric, Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]]] = MappingProxyType(
    {Metric.L2: _l2, Metric.COSINE: _cosine, Metric.DOT: _dot, Metric.HAMMING: _hamming}
)
