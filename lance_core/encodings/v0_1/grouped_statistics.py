"""Statistics of many pages at once, in one pass over all of their rows.

The results are the same as those of :func:`~lance_core.encodings.v0_1.statistics.page_statistics` for each page.

**Source:** see ``statistics.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import unpack_bitmap
from lance_core.encodings.leaf_arrays import bytes_of, is_variable_width
from lance_core.encodings.v0_1.statistics import (
    MAX_BOUND_BYTES,
    PageStatistics,
    next_binary,
    next_text,
    page_statistics,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["grouped_statistics"]


def grouped_statistics(
    array: pa.Array, validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64]
) -> list[PageStatistics]:
    """Return the statistics of each page; page i contains rows ``[bounds[i], bounds[i + 1])``.

    Args:
        array: the rows of all pages, of a type that has statistics; the array may have any offset.
        validity: (len(array),) mask of the non-null rows; None = no nulls.
        bounds: (num_pages + 1,) first row of each page, followed by len(array); no page is empty.
    """
    dtype = array.type
    if is_variable_width(dtype):
        return _of_texts(array, validity, bounds)
    if pa.types.is_decimal128(dtype):
        return [
            page_statistics(array.slice(start, stop - start), None if validity is None else validity[start:stop])
            for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    if pa.types.is_boolean(dtype):
        values: NDArray[Any] = unpack_bitmap(bytes_of(array.buffers()[1]), array.offset, len(array))
        return _of_words(values, validity, bounds, (False, True))
    kind = "f" if pa.types.is_floating(dtype) else "u" if pa.types.is_unsigned_integer(dtype) else "i"
    width = dtype.bit_width // 8
    words = np.frombuffer(array.buffers()[1], f"<{kind}{width}", len(array), array.offset * width)
    if kind == "f":
        return _of_floats(words, validity, bounds)
    limits = np.iinfo(words.dtype)
    return _of_words(words, validity, bounds, (int(limits.min), int(limits.max)))


def _null_counts(validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64]) -> list[int]:
    if validity is None:
        return [0] * (len(bounds) - 1)
    counts: list[int] = np.add.reduceat(~validity, bounds[:-1], dtype=np.int64).tolist()
    return counts


def _of_words(
    words: NDArray[Any], validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64], limits: tuple[Any, Any]
) -> list[PageStatistics]:
    """Compute the statistics of words; ``limits`` are the bounds of the type, used for a page without values."""
    low = high = words
    if validity is not None:
        low = np.where(validity, words, words.dtype.type(limits[1]))
        high = np.where(validity, words, words.dtype.type(limits[0]))
    counts = _null_counts(validity, bounds)
    least = np.minimum.reduceat(low, bounds[:-1]).tolist()
    greatest = np.maximum.reduceat(high, bounds[:-1]).tolist()
    sizes = np.diff(bounds).tolist()
    return [
        PageStatistics(count, *(limits if count == size else found))
        for count, size, *found in zip(counts, sizes, least, greatest, strict=True)
    ]


def _of_floats(
    words: NDArray[Any], validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64]
) -> list[PageStatistics]:
    shown = words if validity is None else np.where(validity, words, words.dtype.type(np.nan))
    least, greatest = np.fmin.reduceat(shown, bounds[:-1]), np.fmax.reduceat(shown, bounds[:-1])
    is_empty = np.isnan(least)
    # A zero of either sign becomes -0.0 as the lower bound and +0.0 as the upper bound.
    least = np.where(is_empty, -np.inf, np.where(least == 0, -0.0, least)).tolist()
    greatest = np.where(is_empty, np.inf, np.where(greatest == 0, 0.0, greatest)).tolist()
    return [PageStatistics(*found) for found in zip(_null_counts(validity, bounds), least, greatest, strict=True)]


def _of_texts(array: pa.Array, validity: NDArray[np.bool_] | None, bounds: NDArray[np.int64]) -> list[PageStatistics]:
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    lengths = pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    firsts = bounds[:-1]
    longest = np.maximum.reduceat(lengths, firsts).tolist()
    splits = [False] * len(firsts)
    if is_text and max(longest) > MAX_BOUND_BYTES:
        splits = np.logical_or.reduceat(_splits_character(array, lengths), firsts).tolist()
    following = next_text if is_text else next_binary
    pages = []
    for count, start, stop, most, is_split in zip(
        _null_counts(validity, bounds), firsts.tolist(), bounds[1:].tolist(), longest, splits, strict=True
    ):
        part = array.slice(start, stop - start)
        if is_split:
            pages.append(page_statistics(part, None if validity is None else validity[start:stop]))
            continue
        # Arrow skips nulls and compares bytes for all of these types.
        found = pc.min_max(part)
        if not found["min"].is_valid:
            pages.append(PageStatistics(count, None, None))
            continue
        least, greatest = found["min"].as_buffer().to_pybytes(), found["max"].as_buffer().to_pybytes()
        if most > MAX_BOUND_BYTES:
            # Truncating all values at the same byte preserves their order.
            least, greatest = least[:MAX_BOUND_BYTES], following(greatest[:MAX_BOUND_BYTES])
        pages.append(PageStatistics(count, least, greatest))
    return pages


def _splits_character(array: pa.Array, lengths: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a (len(array),) mask of the strings in which the limit falls inside a character."""
    width = 8 if pa.types.is_large_string(array.type) else 4
    starts = np.frombuffer(array.buffers()[1], f"<i{width}", len(array), array.offset * width)
    splits = lengths > MAX_BOUND_BYTES
    splits[splits] = bytes_of(array.buffers()[2])[starts[splits] + MAX_BOUND_BYTES] & 0xC0 == 0x80
    return splits
