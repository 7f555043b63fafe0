"""List pages: the position of the first item of each list.

A ``list`` page contains (num_rows + 1) x i32, and a ``large_list`` page (num_rows + 1) x i64. The offsets
of each batch start at 0: they are positions in the items of the batch. Nulls are not marked: a null is written as an
empty list.

**Source:** behavior of pylance 14.0.2; files of releases since 0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of
from lance_core.errors import CorruptDataError, NotSupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode_lists", "encode_lists", "offset_dtype", "split_list_offsets"]

_MAX_INT32: Final = 2**31 - 1


def offset_dtype(dtype: pa.DataType) -> np.dtype[Any]:
    """Return the type of the offsets of a list type."""
    return np.dtype("<i8") if pa.types.is_large_list(dtype) else np.dtype("<i4")


def split_list_offsets(
    words: NDArray[Any], num_rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Convert the stored offsets of several runs of rows to lengths and item ranges.

    Args:
        words: ``num_rows[i] + 1`` offsets of each run, back to back.
        num_rows: number of rows of each run, shape (num_runs,).

    Returns:
        The number of items in each list; and, for each run, the positions where its items start and end.

    Raises:
        CorruptDataError: offsets decrease or are negative.
    """
    words = words.astype(np.int64, copy=False)
    ends = np.cumsum(num_rows + 1)
    firsts, lasts = words[ends - num_rows - 1], words[ends - 1]
    # Check every offset, not only the first ones: differences of negative words may wrap around.
    if len(words) and int(words.min()) < 0:
        raise CorruptDataError("the offsets of a list page include a negative number")
    lengths = np.diff(words)
    if len(num_rows) > 1:
        lengths = np.delete(lengths, ends[:-1] - 1)
    if len(lengths) and int(lengths.min()) < 0:
        raise CorruptDataError("the offsets of a list page are not in ascending order")
    return lengths, firsts, lasts


def decode_lists(dtype: pa.DataType, lengths: NDArray[np.int64], items: pa.Array) -> pa.Array:
    """Build lists of items; no list is null.

    Args:
        dtype: the list type.
        lengths: number of items of each list, shape (num_rows,).
        items: the items of all lists.

    Raises:
        NotSupportedError: there are more items than 32-bit offsets can address.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if not pa.types.is_large_list(dtype):
        if len(items) > _MAX_INT32:
            raise NotSupportedError(
                f"{len(items)} items are too many for one array of type {dtype}; read fewer rows at a time"
            )
        offsets = offsets.astype(np.int32)
    return pa.Array.from_buffers(dtype, len(lengths), [None, pa.py_buffer(offsets)], children=[items])


def encode_lists(array: pa.Array, validity: NDArray[np.bool_] | None) -> tuple[NDArray[Any], pa.Array]:
    """Encode the offsets of a page, and return them with the items that they refer to.

    Args:
        array: lists with 32-bit or 64-bit offsets; the array may have any offset.
        validity: (len(array),) mask of the lists to keep; it must be False for at least the array's own nulls.
    """
    words = offset_dtype(array.type)
    if not len(array):
        return np.zeros(1, words), array.values.slice(0, 0)
    offsets: NDArray[Any] = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    first = int(offsets[0])
    if validity is None or not lengths[~validity].any():
        items = array.values.slice(first, int(offsets[-1]) - first)
        return (offsets - offsets[0]).astype(words, copy=False), items
    shown = np.zeros(len(array) + 1, words)
    np.cumsum(np.where(validity, lengths, 0), out=shown[1:])
    buffers = [bitmap_of(validity), pa.py_buffer(offsets)]
    # flatten() omits the items of null lists.
    return shown, pa.Array.from_buffers(array.type, len(array), buffers, children=[array.values]).flatten()
