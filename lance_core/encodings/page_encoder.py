"""Page encoder: a column's array becomes one page per leaf.

::

    array  →  leaves with their layers   levels/nesting.py
           →  levels                     levels/build.py
           →  block of values            leaf_arrays.py
           →  which layout               selection.py
           →  layout and buffers         structural/

Source: ``lance.encodings21.PageLayout``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import (
    DataBlock,
    EncodedPage,
    FixedSizeListBlock,
    FixedWidthBlock,
    VariableWidthBlock,
)
from lance_core.encodings.compressive.general import compress_chunks, compress_values
from lance_core.encodings.kernels.bits import unpack_bitmap
from lance_core.encodings.leaf_arrays import block_from_array, with_nulls
from lance_core.encodings.levels.build import shred
from lance_core.encodings.levels.nesting import NestedLeaf, leaves_of
from lance_core.encodings.registry import ENCODER
from lance_core.encodings.selection import (
    MiniBlockChoice,
    choose_mini_block,
    common_value,
    dictionary_pays,
    may_have_few_distinct,
    requested_compression,
    value_level,
    zipping_pays,
)
from lance_core.encodings.structural import constant, full_zip, mini_block
from lance_core.errors import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.levels.build import Levels
    from lance_core.schema.field import Field
    from lance_core.versions import LanceFileVersion

__all__ = ["EncodedPage", "encode_pages"]


def encode_pages(
    field: Field, array: pa.Array, *, version: LanceFileVersion, multi_page: bool = True
) -> list[EncodedPage]:
    """Encode one array of a top-level column, one page per leaf, depth first like ``field.leaves()``.

    Args:
        field: the column's field.
        array: at least one row; any offset. Fixed-width data without nulls is handed out as it is, not copied.
        version: of the file.
        multi_page: False only if the column gets no other page; see ``levels/nesting.py``.

    Raises:
        InvalidInputError: the array is empty, or its nesting is not the field's (``SchemaMismatchError``).
        NotSupportedError: a type or nesting that cannot be written.
        UnsupportedVersionError: a version that this library does not write.
    """
    version.require_writable()
    if len(array) == 0:
        raise InvalidInputError(f"column {field.name!r}: a page needs at least one row", column=field.name)
    return [_encode_leaf(leaf) for leaf in leaves_of(field, array, keep_nullable=multi_page)]


def _encode_leaf(leaf: NestedLeaf) -> EncodedPage:
    levels, array, num_rows = shred(leaf.slots), leaf.array, leaf.num_page_rows
    validity = leaf.slots[-1].validity
    if len(array) == 0 or (validity is not None and not bool(validity.any())):
        return constant.encode_all_null(levels, num_rows=num_rows)
    if pa.types.is_dictionary(array.type):
        return _encode_dictionary(array, validity, levels, num_rows)
    block = block_from_array(array, validity)
    value = common_value(block, validity)
    if isinstance(block, VariableWidthBlock):
        num_valid = len(array) if validity is None else int(np.count_nonzero(validity))
        if isinstance(value, VariableWidthBlock) and zipping_pays(leaf.field, value, num_valid):
            value = None
        if value is None:
            return _encode_strings(leaf, block, validity, levels)
    if value is not None:
        return constant.encode_scalar(levels, value, num_rows=num_rows)
    choice = choose_mini_block(block, levels)
    if choice is not None:
        return _encode_mini_block(leaf, block, choice, levels)
    block = _in_whole_bytes(block)
    encoding, values = ENCODER.per_value(_arm(block), block)
    return full_zip.encode(levels, encoding, values, num_rows=num_rows)


def _encode_mini_block(leaf: NestedLeaf, block: DataBlock, choice: MiniBlockChoice, levels: Levels) -> EncodedPage:
    chunks = ENCODER.mini_block(choice.arm, block, choice.values_per_chunk)
    compression = requested_compression(leaf.field, choice.arm)
    if compression is not None:
        chunks = compress_chunks(chunks, *compression) or chunks
    return mini_block.encode(levels, chunks, num_rows=leaf.num_page_rows)


def _encode_strings(
    leaf: NestedLeaf, block: VariableWidthBlock, validity: NDArray[np.bool_] | None, levels: Levels
) -> EncodedPage:
    choice = choose_mini_block(block, levels)
    encoding, values = ENCODER.per_value(_arm(block), block)
    level = value_level(leaf.field, block) if choice is None else None
    values_bytes = None
    if level is not None and isinstance(values, VariableWidthBlock):
        encoding, values = compress_values(encoding, values, level) or (encoding, values)
        values_bytes = int(values.offsets[-1] - values.offsets[0])
    page = _encode_few_distinct(leaf.array, block, validity, levels, leaf.num_page_rows)
    if page is not None and (values_bytes is None or page.num_bytes <= values_bytes):
        return page
    if choice is not None:
        return _encode_mini_block(leaf, block, choice, levels)
    return full_zip.encode(levels, encoding, values, num_rows=leaf.num_page_rows)


def _encode_few_distinct(
    array: pa.Array,
    block: VariableWidthBlock,
    validity: NDArray[np.bool_] | None,
    levels: Levels,
    num_rows: int,
) -> EncodedPage | None:
    """A dictionary page, or None if the strings repeat too little."""
    if not may_have_few_distinct(array):
        return None
    encoded = with_nulls(array, validity).dictionary_encode()
    items = block_from_array(encoded.dictionary, None)
    if not isinstance(items, VariableWidthBlock) or not dictionary_pays(items, block):
        return None
    return _dictionary_page(block_from_array(encoded.indices, validity), items, levels, num_rows)


def _encode_dictionary(
    array: pa.DictionaryArray, validity: NDArray[np.bool_] | None, levels: Levels, num_rows: int
) -> EncodedPage:
    """An Arrow dictionary keeps its items and the width of its indices."""
    indices, items = block_from_array(array.indices, validity), block_from_array(array.dictionary, None)
    page = _dictionary_page(indices, items, levels, num_rows)
    if page is None:
        raise NotSupportedError(f"a column of type {array.type} with so many empty lists cannot be written; decode it")
    return page


def _dictionary_page(indices: DataBlock, items: DataBlock, levels: Levels, num_rows: int) -> EncodedPage | None:
    choice = choose_mini_block(indices, levels)
    if choice is None:
        return None
    encoding, data = ENCODER.block(_arm(items), items)
    return mini_block.encode(
        levels,
        ENCODER.mini_block(choice.arm, indices, choice.values_per_chunk),
        num_rows=num_rows,
        dictionary=(encoding, pa.py_buffer(data), items.num_values),
    )


def _arm(block: DataBlock) -> str:
    if isinstance(block, FixedSizeListBlock):
        return "fixed_size_list"
    return "variable" if isinstance(block, VariableWidthBlock) else "flat"


def _in_whole_bytes(block: DataBlock) -> DataBlock:
    """Full-zip pages have no bits: bools take a byte each."""
    if isinstance(block, FixedSizeListBlock):
        return FixedSizeListBlock(block.num_values, block.dimension, _in_whole_bytes(block.items), block.validity)
    if isinstance(block, FixedWidthBlock) and block.bits_per_value == 1:
        return FixedWidthBlock(block.num_values, 8, unpack_bitmap(block.data, 0, block.num_values).view(np.uint8))
    return block
