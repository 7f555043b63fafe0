"""Checks whether all values of a page are equal.

Source: our own policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.api import FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES, unpack_bitmap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock

__all__ = ["common_value"]

_SAMPLES: Final = 64


def common_value(block: DataBlock, validity: NDArray[np.bool_] | None) -> FixedWidthBlock | VariableWidthBlock | None:
    """Return the common value of all valid slots as a block of one value (a boolean as a byte); None if values differ.

    Values are compared by their bytes: 0.0 and -0.0 differ, and NaNs with the same bytes are equal.

    Args:
        block: the values of a page.
        validity: (num_values,) mask with at least one True; None = all valid.
    """
    if isinstance(block, FixedWidthBlock):
        if block.bits_per_value == 1:
            return _common_bit(block, validity)
        return _common_word(block, validity)
    if isinstance(block, VariableWidthBlock):
        return _common_string(block, validity)
    return None


def _common_bit(block: FixedWidthBlock, validity: NDArray[np.bool_] | None) -> FixedWidthBlock | None:
    if validity is None and len(block.data) > _SAMPLES and len(set(block.data[:_SAMPLES].tolist())) > 1:
        return None
    bits = unpack_bitmap(block.data, 0, block.num_values)
    if validity is not None:
        bits = bits[validity]
    num_set = int(np.count_nonzero(bits))
    if num_set not in (0, len(bits)):
        return None
    return FixedWidthBlock(1, 8, np.array([num_set > 0], np.uint8))


def _common_word(block: FixedWidthBlock, validity: NDArray[np.bool_] | None) -> FixedWidthBlock | None:
    first = 0 if validity is None else int(np.argmax(validity))
    width = block.bits_per_value // 8
    value = block.data[first * width : (first + 1) * width]
    if block.bits_per_value in UNSIGNED_DTYPES:
        words = block.data.view(UNSIGNED_DTYPES[block.bits_per_value])
        same = _all_equal(words, words[first], validity)
    else:
        same = _all_rows_equal(block.data.reshape(block.num_values, width), value, validity)
    return FixedWidthBlock(1, block.bits_per_value, value) if same else None


def _all_equal(
    words: NDArray[np.unsignedinteger], value: np.unsignedinteger, validity: NDArray[np.bool_] | None
) -> bool:
    step = max(1, len(words) // _SAMPLES)
    for chosen in (slice(None, None, step), slice(None)):
        differ = words[chosen] != value
        if validity is not None:
            differ &= validity[chosen]
        if bool(differ.any()):
            return False
    return True


def _all_rows_equal(rows: NDArray[np.uint8], value: NDArray[np.uint8], validity: NDArray[np.bool_] | None) -> bool:
    step = max(1, len(rows) // _SAMPLES)
    for chosen in (slice(None, None, step), slice(None)):
        found = rows[chosen] if validity is None else rows[chosen][validity[chosen]]
        if not bool((found == value).all()):
            return False
    return True


def _common_string(block: VariableWidthBlock, validity: NDArray[np.bool_] | None) -> VariableWidthBlock | None:
    first = 0 if validity is None else int(np.argmax(validity))
    length = int(block.offsets[first + 1] - block.offsets[first])
    start = int(block.offsets[0])
    step = max(1, block.num_values // _SAMPLES)
    # Null slots are empty, so the valid strings are contiguous.
    for chosen in (slice(None, None, step), slice(None)):
        differ = block.offsets[1:][chosen] - block.offsets[:-1][chosen] != length
        if validity is not None:
            differ &= validity[chosen]
        if bool(differ.any()):
            return None
    num_valid = block.num_values if validity is None else int(np.count_nonzero(validity))
    rows = block.data[start : start + length * num_valid].reshape(num_valid, length)
    if not _all_rows_equal(rows, rows[0], None):
        return None
    return block.slice(first, first + 1)
