"""Dictionary pages: indices into distinct values, each of which the page stores once.

Indices are encoded like other words; they are 32 bits wide unless an Arrow dictionary specifies a different width. The
distinct values form a block, which may be compressed in format 2.2.

Source: ``MiniBlockLayout.dictionary``; checked against pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.encodings.api import FixedWidthBlock, VariableWidthBlock
from lance_core.encodings.compressive.general import compress_block
from lance_core.encodings.kernels.bits import UNSIGNED_DTYPES
from lance_core.encodings.leaf_arrays import bitmap_of, block_from_array, with_nulls
from lance_core.encodings.page_layouts import SCHEMES, encode_mini_block, values_arm
from lance_core.encodings.policy.dictionary import dictionary_fits, dictionary_pays, may_have_few_distinct
from lance_core.encodings.policy.field_options import FieldOptions
from lance_core.encodings.policy.fixed_width import choose_words
from lance_core.encodings.policy.fixed_width import plain_bytes as words_bytes
from lance_core.encodings.registry import ENCODER
from lance_core.encodings.statistics import runs_per_value
from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock, EncodedPage
    from lance_core.encodings.page_layouts import PagePlan
    from lance_core.proto import pb21

__all__ = ["encode_arrow_dictionary", "encode_few_distinct"]

_WORD_BITS: Final = 64
_COMPRESSED_ITEM: Final = 0.25
_MAX_RUNS_PER_VALUE: Final = 0.4
_WORD_TYPES: Final = {64: pa.uint64(), 128: pa.binary(16)}


def encode_few_distinct(
    array: pa.Array,
    block: FixedWidthBlock | VariableWidthBlock,
    validity: NDArray[np.bool_] | None,
    plain_bytes: float,
    plan: PagePlan,
) -> EncodedPage | None:
    """Encode a dictionary page; return None if the values do not repeat often enough.

    Args:
        array: the values of the page.
        block: the same values as a block.
        validity: (num_values,) mask; None = all valid.
        plain_bytes: estimated size in bytes of the page without a dictionary.
        plan: properties of the page that do not depend on its values.
    """
    runs, stored = 1.0, array
    if isinstance(block, FixedWidthBlock):
        word_type = _WORD_TYPES.get(block.bits_per_value)
        if word_type is None or (block.bits_per_value == 64 and not plan.rules.word_dictionaries):
            return None
        # Values are compared by their bytes: 0.0 and -0.0 are distinct, and a NaN equals itself.
        data = pa.py_buffer(block.data)
        stored = pa.Array.from_buffers(word_type, block.num_values, [None, data])
        # The zeros under nulls must not count as repeated values.
        array = pa.Array.from_buffers(word_type, block.num_values, [bitmap_of(validity), data])
        item_bytes = block.bits_per_value / 8
        if block.bits_per_value == _WORD_BITS:
            runs = runs_per_value(block.data.view(UNSIGNED_DTYPES[_WORD_BITS]), _MAX_RUNS_PER_VALUE)
    else:
        array = stored = with_nulls(array, validity)
        item_bytes = int(block.offsets[-1] - block.offsets[0]) / block.num_values + block.offsets.itemsize
    if plan.rules.compressed_dictionaries:
        item_bytes *= _COMPRESSED_ITEM
    options = plan.options
    if not may_have_few_distinct(array, item_bytes, plain_bytes, options, runs=runs):
        return None
    encoded = stored.dictionary_encode()
    items = block_from_array(encoded.dictionary, None)
    indices = block_from_array(encoded.indices, validity)
    if not isinstance(indices, FixedWidthBlock) or not dictionary_fits(items.num_values, block.num_values, options):
        return None
    choice = choose_words(indices, _index_options(options))
    if choice is None:
        return None
    encoding, data = _encode_items(items, plan)
    if not dictionary_pays(len(data) + words_bytes(indices, choice), plain_bytes, options):
        return None
    return encode_mini_block(choice, indices, plan, dictionary=(encoding, pa.py_buffer(data), items.num_values))


def encode_arrow_dictionary(
    array: pa.DictionaryArray, validity: NDArray[np.bool_] | None, plan: PagePlan
) -> EncodedPage:
    """Encode an Arrow dictionary, preserving its items and the width of its indices."""
    indices, items = block_from_array(array.indices, validity), block_from_array(array.dictionary, None)
    page = _dictionary_page(indices, items, plan)
    if page is None:
        raise NotSupportedError(
            f"a column of type {array.type} has too many empty lists to be written as a dictionary; "
            "decode the dictionary first"
        )
    return page


def _dictionary_page(indices: DataBlock, items: DataBlock, plan: PagePlan) -> EncodedPage | None:
    choice = choose_words(indices, _index_options(plan.options)) if isinstance(indices, FixedWidthBlock) else None
    if choice is None:
        return None
    encoding, data = _encode_items(items, plan)
    return encode_mini_block(choice, indices, plan, dictionary=(encoding, pa.py_buffer(data), items.num_values))


def _index_options(options: FieldOptions) -> FieldOptions:
    """Return the options for indices, which are compressed like values but always stored in chunks."""
    return FieldOptions(
        compression="none" if options.compression == "none" else options.general,
        compression_level=options.compression_level,
        bss=options.bss,
    )


def _encode_items(items: DataBlock, plan: PagePlan) -> tuple[pb21.CompressiveEncoding, NDArray[np.uint8]]:
    """Encode the items in the smallest allowed form: unchanged, packed or compressed."""
    plain = ENCODER.block(values_arm(items), items)
    if not plan.rules.compressed_dictionaries:
        return plain
    asked, level = plan.options.dict_compression, plan.options.dict_level
    if asked == "none":
        return plain
    found = [plain]
    if asked is None and isinstance(items, FixedWidthBlock) and items.bits_per_value == _WORD_BITS:
        found.append(ENCODER.block("out_of_line_bitpacking", items))
    for scheme in ("lz4", "zstd") if asked is None else (asked,):
        packed = compress_block(*plain, SCHEMES[scheme], level if scheme == "zstd" else None)
        if packed is not None:
            found.append(packed)
    return min(found, key=lambda encoded: len(encoded[1]))
