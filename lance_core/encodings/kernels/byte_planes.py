"""Byte planes: the first byte of every value, then the second byte of every value, and so on.

::

    values       a0 a1 a2 a3 | b0 b1 b2 b3 | c0 c1 c2 c3
    planes       a0 b0 c0 | a1 b1 c1 | a2 b2 c2 | a3 b3 c3

Source: "byte stream split" of the Parquet format; checked against pages of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["merge_planes", "split_planes"]


def merge_planes(planes: NDArray[np.uint8], value_bytes: int) -> NDArray[np.uint8]:
    """Convert planes to the bytes of the values, in a new array.

    Input and output have the shape (num_chunks, num_values * value_bytes).
    """
    num_chunks, num_bytes = planes.shape
    merged = planes.reshape(num_chunks, value_bytes, num_bytes // value_bytes).transpose(0, 2, 1)
    return np.ascontiguousarray(merged).reshape(num_chunks, num_bytes)


def split_planes(values: NDArray[np.uint8], value_bytes: int) -> NDArray[np.uint8]:
    """Convert values to planes; the inverse of :func:`merge_planes`."""
    num_chunks, num_bytes = values.shape
    planes = values.reshape(num_chunks, num_bytes // value_bytes, value_bytes).transpose(0, 2, 1)
    return np.ascontiguousarray(planes).reshape(num_chunks, num_bytes)
