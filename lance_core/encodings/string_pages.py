"""Encodes pages of strings and binaries.

:func:`encode_strings` considers these forms in this order: a constant page, a dictionary page, chunks, and a full-zip
page. In chunks and full-zip pages, strings are unchanged, compressed, or replaced by FSST codes. For the rules and
their limits, see ``policy/strings.py``.

Source: ``lance.encodings21.PageLayout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import VariableWidthBlock
from lance_core.encodings.compressive.fsst import CompressedStrings, compress_strings, symbols_ratio, train
from lance_core.encodings.dictionary_pages import encode_few_distinct
from lance_core.encodings.page_layouts import encode_mini_block, encode_zipped
from lance_core.encodings.policy.constants import common_value
from lance_core.encodings.policy.strings import (
    FASTEST_LEVEL,
    choose_chunks,
    choose_compression,
    compressed_ratio,
    is_small,
    may_want_symbols,
    plain_bytes,
    symbols_pay,
    zips_smaller,
)
from lance_core.encodings.structural import constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import EncodedPage
    from lance_core.encodings.page_layouts import PagePlan

__all__ = ["encode_strings"]


def encode_strings(
    array: pa.Array, block: VariableWidthBlock, validity: NDArray[np.bool_] | None, plan: PagePlan
) -> EncodedPage:
    """Encode one page of strings or binaries.

    Args:
        array: the values of the page.
        block: the same values as a block.
        validity: (num_values,) mask with at least one True; None = all valid.
        plan: properties of the page that do not depend on its values.
    """
    options = plan.options
    value = common_value(block, validity) if plan.rules.scalar_pages else None
    if isinstance(value, VariableWidthBlock):
        num_valid = block.num_values if validity is None else int(np.count_nonzero(validity))
        if not zips_smaller(value, num_valid, options):
            return constant.encode_scalar(plan.levels, value, num_rows=plan.num_rows)
    ratio = compressed_ratio(block, options)
    if value is None:
        page = encode_few_distinct(array, block, validity, plain_bytes(block, ratio), plan)
        if page is not None:
            return page
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    symbols = _symbols(block, ratio, plan) if is_text else None
    if symbols is not None:
        block, compression = symbols.strings, None
    else:
        compression = choose_compression(ratio, options, is_small=is_text and is_small(block, ratio))
    choice = choose_chunks(block, compression, options, plan.rules)
    page = None if choice is None else encode_mini_block(choice, block, plan, symbols=symbols)
    level = None if compression is None else compression.level or FASTEST_LEVEL
    return page or encode_zipped(block, plan, level=level, symbols=symbols)


def _symbols(block: VariableWidthBlock, ratio: float, plan: PagePlan) -> CompressedStrings | None:
    """Return the strings compressed with FSST if the field requests it, or if it is expected to make the page smaller.

    Return None otherwise, if the strings are too small, or if numba does not work.
    """
    if not may_want_symbols(block, ratio, plan.options):
        return None
    table = train(block)
    if table is None:
        return None
    if plan.options.compression is None and not symbols_pay(block, symbols_ratio(table, block), ratio):
        return None
    return compress_strings(block, table)
