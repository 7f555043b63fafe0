"""Decides whether a page is stored as a dictionary and indices.

The number of distinct values is estimated from how often values occur in a sample. If the estimate predicts a smaller
page, the distinct values are counted, and the resulting size is compared with that of the page without a dictionary.

Source: our own policy; limits as in pylance 14.0.2 if the metadata specifies them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from lance_core.encodings.statistics import expected_distinct, sampled_counts

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.encodings.policy.field_options import FieldOptions

__all__ = ["dictionary_fits", "dictionary_pays", "may_have_few_distinct"]

_MIN_VALUES: Final = 100
_MAX_ITEMS: Final = 100_000
_DIVISOR: Final = 2
_GAIN: Final = 0.96
_RUN_BYTES: Final = 5


def may_have_few_distinct(
    array: pa.Array, item_bytes: float, plain_bytes: float, options: FieldOptions, *, runs: float = 1.0
) -> bool:
    """Return whether a dictionary may make the page smaller, so that its distinct values should be counted.

    Args:
        array: the values of a page.
        item_bytes: minimum size in bytes of one value in a dictionary.
        plain_bytes: estimated size in bytes of the page without a dictionary.
        options: encoding options of the field.
        runs: number of runs of equal values divided by the number of values; the ratio is the same for the indices.
    """
    num_values: int = len(array) - array.null_count
    if num_values < _MIN_VALUES:
        return False
    estimate = min(num_values, expected_distinct(sampled_counts(array)))
    if estimate > min(_MAX_ITEMS, num_values / (options.dict_divisor or _DIVISOR)):
        return False
    index_bytes = len(array) * min(_index_bits(estimate) / 8, _RUN_BYTES * runs)
    return estimate * item_bytes + index_bytes < _gain(options) * plain_bytes


def dictionary_fits(num_items: int, num_values: int, options: FieldOptions) -> bool:
    """Return whether the number of items is small enough for a dictionary."""
    return num_items <= max(1, min(_MAX_ITEMS, num_values // (options.dict_divisor or _DIVISOR)))


def dictionary_pays(dictionary_bytes: float, plain_bytes: float, options: FieldOptions) -> bool:
    """Return whether storing the page as indices and encoded items makes it sufficiently smaller.

    Args:
        dictionary_bytes: total size of the indices and the items in bytes.
        plain_bytes: estimated size in bytes of the page without a dictionary.
        options: encoding options of the field.
    """
    return dictionary_bytes < _gain(options) * plain_bytes


def _gain(options: FieldOptions) -> float:
    return _GAIN if options.dict_size_ratio is None else options.dict_size_ratio


def _index_bits(num_items: float) -> int:
    return max(1, math.ceil(math.log2(max(2.0, num_items))))
