"""Statistics of one page: the number of nulls, and bounds of its values.

=====================  ==========================================================================================
Type                   Bounds
=====================  ==========================================================================================
integers, dates,       minimum and maximum; if all values are null, minimum and maximum of the type
decimal128
float, double          ignoring NaN; a minimum of 0 is -0.0, a maximum of 0 is +0.0; without values, -inf and inf
bool                   minimum and maximum; if all values are null, False and True
strings, binaries      byte order; values are first truncated to 64 bytes, strings to whole characters. If any value
                       was truncated, the maximum is replaced by a value greater than all values with this prefix;
                       if no such value exists, or all values are null, the bound is null
=====================  ==========================================================================================

Other types have no statistics.

**Source:** behavior of pylance 14.0.2, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.kernels.bits import pack_mask, unpack_bitmap
from lance_core.encodings.leaf_arrays import bytes_of, is_variable_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "MAX_BOUND_BYTES",
    "PageStatistics",
    "decimal_bounds",
    "has_statistics",
    "next_binary",
    "next_text",
    "page_statistics",
    "statistics_arrays",
]

MAX_BOUND_BYTES: Final = 64
"""Maximum length in bytes of the minimum and maximum of a page; longer values are truncated before comparison."""

_MAX_CHARACTER_BYTES: Final = 4
_DECIMAL_BYTES: Final = 16
_LOW_HALF: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class PageStatistics:
    """Statistics of one page.

    Attributes:
        null_count: number of nulls in the original data.
        least: lower bound (bytes for strings, the raw integer for dates and decimals); None = unknown.
        greatest: upper bound, in the same form.
    """

    null_count: int
    least: Any
    greatest: Any


def has_statistics(dtype: pa.DataType) -> bool:
    """Return whether pages of the type have statistics."""
    return bool(
        pa.types.is_boolean(dtype)
        or pa.types.is_integer(dtype)
        or pa.types.is_float32(dtype)
        or pa.types.is_float64(dtype)
        or pa.types.is_date(dtype)
        or pa.types.is_decimal128(dtype)
        or is_variable_width(dtype)
    )


def page_statistics(array: pa.Array, validity: NDArray[np.bool_] | None) -> PageStatistics:
    """Return the statistics of the rows of a page.

    Args:
        array: an array of a type with statistics (:func:`has_statistics`); the array may have any offset.
        validity: (len(array),) mask of the non-null rows; None = no nulls.
    """
    null_count = 0 if validity is None else len(array) - int(np.count_nonzero(validity))
    dtype = array.type
    if is_variable_width(dtype):
        return PageStatistics(null_count, *_text_bounds(array, validity))
    if pa.types.is_decimal128(dtype):
        return PageStatistics(null_count, *_decimal_bounds(array, validity))
    if pa.types.is_boolean(dtype):
        values: NDArray[Any] = unpack_bitmap(bytes_of(array.buffers()[1]), array.offset, len(array))
        values = values if validity is None else values[validity]
        return PageStatistics(null_count, *((bool(values.min()), bool(values.max())) if len(values) else (False, True)))
    kind = "f" if pa.types.is_floating(dtype) else "u" if pa.types.is_unsigned_integer(dtype) else "i"
    width = dtype.bit_width // 8
    words = np.frombuffer(array.buffers()[1], f"<{kind}{width}", len(array), array.offset * width)
    words = words if validity is None else words[validity]
    if kind == "f":
        return PageStatistics(null_count, *_float_bounds(words))
    if not len(words):
        limits = np.iinfo(words.dtype)
        return PageStatistics(null_count, int(limits.min), int(limits.max))
    return PageStatistics(null_count, int(words.min()), int(words.max()))


def statistics_arrays(dtype: pa.DataType, pages: Sequence[PageStatistics]) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the null counts, minimums, and maximums of several pages, with one row per page.

    Args:
        dtype: type of the values.
        pages: the statistics, in row order.
    """
    counts = pa.array([page.null_count for page in pages], pa.int64())
    return counts, _bounds(dtype, [page.least for page in pages]), _bounds(dtype, [page.greatest for page in pages])


def decimal_bounds(dtype: pa.DataType, words: pa.FixedSizeBinaryArray) -> pa.Array:
    """Decode the bounds of a decimal column from their bytes; bounds with too many digits for the type become null.

    The bounds of a page of nulls are the smallest and largest 128-bit integers, which are out of range for every
    decimal type.

    Args:
        dtype: a decimal128 type.
        words: the bounds, 16 bytes for each page, without nulls; the array may have any offset.
    """
    start, stop = (row * _DECIMAL_BYTES for row in (words.offset, words.offset + len(words)))
    halves = bytes_of(words.buffers()[1])[start:stop].view("<u8").reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view("<i8")
    limit = 10**dtype.precision
    limit_high, limit_low = limit >> 64, np.uint64(limit & _LOW_HALF)
    floor_high, floor_low = -limit >> 64, np.uint64(-limit & _LOW_HALF)
    fits = (high < limit_high) | ((high == limit_high) & (low < limit_low))
    fits &= (high > floor_high) | ((high == floor_high) & (low > floor_low))
    bitmap = None if bool(fits.all()) else pa.py_buffer(pack_mask(fits))
    return pa.Array.from_buffers(dtype, len(words), [bitmap, pa.py_buffer(halves)])


def _bounds(dtype: pa.DataType, values: list[Any]) -> pa.Array:
    if is_variable_width(dtype):
        return pa.array(values, pa.large_binary()).cast(dtype)
    if pa.types.is_decimal128(dtype):
        words = b"".join(value.to_bytes(_DECIMAL_BYTES, "little", signed=True) for value in values)
        return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(words)])
    if pa.types.is_date(dtype):
        return pa.array(values, pa.int32() if dtype.bit_width == 32 else pa.int64()).view(dtype)
    return pa.array(values, dtype)


def _float_bounds(words: NDArray[Any]) -> tuple[float, float]:
    least, greatest = float(np.fmin.reduce(words, initial=np.nan)), float(np.fmax.reduce(words, initial=np.nan))
    if np.isnan(least):
        return -np.inf, np.inf
    return least or -0.0, greatest or 0.0


def _decimal_bounds(array: pa.Array, validity: NDArray[np.bool_] | None) -> tuple[int, int]:
    size = len(array) * _DECIMAL_BYTES
    halves = np.frombuffer(array.buffers()[1], "<i8", size // 8, array.offset * _DECIMAL_BYTES).reshape(-1, 2)
    halves = halves if validity is None else halves[validity]
    if not len(halves):
        return -(2**127), 2**127 - 1
    high, low = halves[:, 1], halves[:, 0].view("<u8")
    least, greatest = high.min(), high.max()
    return (
        (int(least) << 64) + int(low[high == least].min()),
        (int(greatest) << 64) + int(low[high == greatest].max()),
    )


def _text_bounds(array: pa.Array, validity: NDArray[np.bool_] | None) -> tuple[bytes | None, bytes | None]:
    # Arrow skips nulls and compares bytes for all of these types.
    bounds = pc.min_max(array)
    if not bounds["min"].is_valid:
        return None, None
    if (pc.max(pc.binary_length(array)).as_py() or 0) <= MAX_BOUND_BYTES:
        return bounds["min"].as_buffer().to_pybytes(), bounds["max"].as_buffer().to_pybytes()
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    values = (array if validity is None else array.filter(pa.array(validity))).cast(pa.large_binary())
    values = _cut(values, is_text)
    bounds = pc.min_max(values)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    return least, (next_text if is_text else next_binary)(greatest)


def _cut(values: pa.LargeBinaryArray, is_text: bool) -> pa.Array:
    """Truncate the values to the maximum length; strings to the last whole character within it."""
    offsets = np.frombuffer(values.buffers()[1], "<i8", len(values) + 1, 8 * values.offset)
    data, starts = bytes_of(values.buffers()[2]), offsets[:-1]
    lengths = np.minimum(np.diff(offsets), MAX_BOUND_BYTES)
    if is_text:
        is_long = np.diff(offsets) > MAX_BOUND_BYTES
        for _ in range(_MAX_CHARACTER_BYTES - 1):
            # The byte after the limit continues a character.
            split = np.flatnonzero(is_long)[data[(starts + lengths)[is_long]] & 0xC0 == 0x80]
            lengths[split] -= 1
    kept = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths, out=kept[1:])
    cut = data[np.repeat(starts - kept[:-1], lengths) + np.arange(int(kept[-1]))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(kept), pa.py_buffer(cut)])


def next_text(value: bytes) -> bytes | None:
    """Return the smallest string greater than all strings with the prefix ``value``; None if no such string exists."""
    for index in range(len(value) - 1, -1, -1):
        for byte in range(value[index] + 1, 256):
            raised = value[:index] + bytes([byte]) + value[index + 1 :]
            if _is_text(raised):
                return raised
    return None


def next_binary(value: bytes) -> bytes | None:
    """Return ``value + 1``, as a big-endian number with the same number of bytes; None if this overflows."""
    number = int.from_bytes(value, "big") + 1
    return None if number >> (8 * len(value)) else number.to_bytes(len(value), "big")


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
