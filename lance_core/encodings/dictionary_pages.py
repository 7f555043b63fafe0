"""Dictionary pages: indices into distinct values, which the page holds once.

Indices are words like any others, 32 bits wide unless an Arrow dictionary says so itself. The distinct values are a
block, which 2.2 may compress.

Source: ``MiniBlockLayout.dictionary``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.encodings.api import FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.compressive.general import compress_block
from lance_core.encodings.leaf_arrays import block_from_array, with_nulls
from lance_core.encodings.page_layouts import SCHEMES, encode_mini_block, values_arm
from lance_core.encodings.policy.dictionary import dictionary_fits, may_have_few_distinct
from lance_core.encodings.policy.field_options import FieldOptions
from lance_core.encodings.policy.fixed_width import choose_words
from lance_core.encodings.registry import ENCODER
from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, EncodedPage
    from lance_core.encodings.page_layouts import PagePlan
    from lance_core.proto import pb21

__all__ = ["encode_arrow_dictionary", "encode_few_distinct"]

_INDEX_OPTIONS: Final = FieldOptions()
_PLAIN: Final = FieldOptions(compression="none")
_WORD_TYPES: Final = {64: pa.uint64(), 128: pa.binary(16)}


def encode_few_distinct(
    array: pa.Array,
    block: FixedWidthBlock | VariableWidthBlock,
    validity: NDArray[np.bool_] | None,
    plain_bytes: float,
    plan: PagePlan,
) -> EncodedPage | None:
    """A dictionary page, or None if the values repeat too little.

    Args:
        array: the values of the page.
        block: the same.
        validity: (num_values,) mask; None = all valid.
        plain_bytes: estimated size of the page without a dictionary.
        plan: of the page.
    """
    if isinstance(block, FixedWidthBlock):
        word_type = _WORD_TYPES.get(block.bits_per_value)
        if word_type is None or (block.bits_per_value == 64 and not plan.rules.word_dictionaries):
            return None
        # Bytes decide what is distinct: 0.0 and -0.0 differ, and a NaN equals itself.
        array = pa.Array.from_buffers(word_type, block.num_values, [None, pa.py_buffer(block.data)])
        item_bytes = block.bits_per_value / 8
    else:
        array = with_nulls(array, validity)
        item_bytes = int(block.offsets[-1] - block.offsets[0]) / block.num_values + block.offsets.itemsize
    options = plan.options
    if not may_have_few_distinct(array, item_bytes, plain_bytes, options):
        return None
    encoded = array.dictionary_encode()
    items = block_from_array(encoded.dictionary, None)
    items_bytes = encoded.dictionary.nbytes
    if not dictionary_fits(items.num_values, items_bytes, block.num_values, plain_bytes, options):
        return None
    return _dictionary_page(block_from_array(encoded.indices, validity), items, plan)


def encode_arrow_dictionary(
    array: pa.DictionaryArray, validity: NDArray[np.bool_] | None, plan: PagePlan
) -> EncodedPage:
    """An Arrow dictionary keeps its items and the width of its indices."""
    indices, items = block_from_array(array.indices, validity), block_from_array(array.dictionary, None)
    page = _dictionary_page(indices, items, plan)
    if page is None:
        raise NotSupportedError(f"a column of type {array.type} with so many empty lists cannot be written; decode it")
    return page


def _dictionary_page(indices: DataBlock, items: DataBlock, plan: PagePlan) -> EncodedPage | None:
    if not isinstance(indices, FixedWidthBlock):
        return None
    choice = choose_words(indices, _PLAIN if plan.options.compression == "none" else _INDEX_OPTIONS)
    if choice is None:
        return None
    encoding, data = _encode_items(items, plan)
    return encode_mini_block(choice, indices, plan, dictionary=(encoding, pa.py_buffer(data), items.num_values))


def _encode_items(items: DataBlock, plan: PagePlan) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    encoding, data = ENCODER.block(values_arm(items), items)
    scheme = plan.options.dict_compression or "lz4"
    if not plan.rules.compressed_dictionaries or scheme == "none":
        return encoding, data
    level = plan.options.dict_level if scheme == "zstd" else None
    return compress_block(encoding, data, SCHEMES[scheme], level) or (encoding, data)
