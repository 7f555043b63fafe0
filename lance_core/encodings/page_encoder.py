"""Page encoder: converts a column's array to one page per leaf.

::

    array  →  leaves with their layers   levels/nesting.py
           →  levels                     levels/build.py
           →  block of values            leaf_arrays.py
           →  choice of the layout       policy/
           →  layout and buffers         structural/

Source: ``lance.encodings21.PageLayout``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import (
    EncodedPage,
    FixedSizeListBlock,
    FixedWidthBlock,
    NullBlock,
    StructBlock,
    VariableWidthBlock,
)
from lance_core.encodings.dictionary_pages import encode_arrow_dictionary, encode_few_distinct
from lance_core.encodings.kernels.bits import pack_mask, unpack_bitmap
from lance_core.encodings.leaf_arrays import block_from_array, is_variable_width
from lance_core.encodings.levels.build import shred
from lance_core.encodings.levels.dropping import keep_slots
from lance_core.encodings.levels.nesting import NestedLeaf, leaves_of
from lance_core.encodings.page_layouts import PagePlan, encode_mini_block, encode_zipped
from lance_core.encodings.policy.constants import common_value
from lance_core.encodings.policy.field_options import options_of
from lance_core.encodings.policy.fixed_width import choose_lists, choose_rows, choose_words, plain_bytes
from lance_core.encodings.policy.format_rules import rules_of
from lance_core.encodings.registry import ENCODER
from lance_core.encodings.string_pages import encode_strings
from lance_core.encodings.structural import blob, constant
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock
    from lance_core.encodings.policy.choices import MiniBlockChoice
    from lance_core.schema.field import Field
    from lance_core.versions import LanceFileVersion

__all__ = ["EncodedPage", "encode_pages"]

_DESCRIPTOR_MEMBERS: Final = 2
"""Number of members of a v1 blob descriptor: position and size. Descriptors of v2 blobs are packed structs."""


def encode_pages(
    field: Field, array: pa.Array, *, version: LanceFileVersion, multi_page: bool = True
) -> list[EncodedPage]:
    """Encode an array of a top-level column, one page per leaf, depth first like ``field.leaves()``.

    Args:
        field: the column's field.
        array: at least one row; the array may have any offset. Fixed-width data without nulls is not copied.
        version: format version of the file.
        multi_page: whether the column may have more than one page; see ``levels/nesting.py``.

    Raises:
        InvalidInputError: the array is empty, or the array and the field have different nesting
            (``SchemaMismatchError``).
        NotSupportedError: the type or nesting cannot be written.
        UnsupportedVersionError: this library does not write the version.
    """
    rules = rules_of(version)
    if len(array) == 0:
        raise InvalidInputError(f"column {field.name!r}: a page needs at least one row", column=field.name)
    pages = []
    for leaf in leaves_of(field, array, keep_nullable=multi_page):
        levels = shred(leaf.slots)
        plan = PagePlan(levels, leaf.num_page_rows, options_of(leaf.field, field), rules)
        pages.append(_encode_leaf(leaf, plan))
    return pages


def _encode_leaf(leaf: NestedLeaf, plan: PagePlan) -> EncodedPage:
    array, validity = leaf.array, leaf.slots[-1].validity
    if leaf.field.is_blob and pa.types.is_struct(array.type) and array.type.num_fields == _DESCRIPTOR_MEMBERS:
        # This also applies if all values are null: pylance 14.0.2 reads no descriptors from pages of other layouts.
        descriptors = StructBlock(
            len(array),
            tuple(block_from_array(array.field(index), None) for index in range(_DESCRIPTOR_MEMBERS)),
        )
        return blob.encode(
            plan.levels, descriptors, num_rows=plan.num_rows, encoder=ENCODER, version=plan.rules.version
        )
    if len(array) == 0 or (validity is not None and not bool(validity.any())):
        return plan.all_null_page()
    if pa.types.is_dictionary(array.type):
        return encode_arrow_dictionary(array, validity, plan)
    if pa.types.is_struct(array.type):
        return _encode_packed(array, validity, leaf.field, plan)
    block = block_from_array(array, validity)
    if isinstance(block, VariableWidthBlock):
        return encode_strings(array, block, validity, plan)
    if isinstance(block, FixedWidthBlock):
        return _encode_words(array, block, validity, plan)
    if isinstance(block, FixedSizeListBlock):
        return _encode_lists(block, validity, plan)
    raise NotSupportedError(f"values of type {array.type} cannot be written", arrow_type=str(array.type))


def _encode_words(
    array: pa.Array, block: FixedWidthBlock, validity: NDArray[np.bool_] | None, plan: PagePlan
) -> EncodedPage:
    value = common_value(block, validity) if plan.rules.scalar_pages else None
    if value is not None:
        return constant.encode_scalar(plan.levels, value, num_rows=plan.num_rows)
    choice = choose_words(block, plan.options)
    without = float(len(block.data)) if choice is None else plain_bytes(block, choice)
    page = encode_few_distinct(array, block, validity, without, plan)
    if page is None and choice is not None:
        page = encode_mini_block(choice, block, plan)
    if page is not None:
        return page
    return encode_zipped(_in_whole_bytes(block), plan)


def _encode_lists(block: FixedSizeListBlock, validity: NDArray[np.bool_] | None, plan: PagePlan) -> EncodedPage:
    has_levels = plan.levels.definition is not None or plan.levels.repetition is not None
    choice = choose_lists(block, plan.options, has_levels=has_levels)
    page = None if choice is None else encode_mini_block(choice, _blanked(block, validity), plan)
    return page or encode_zipped(_in_whole_bytes(_without_null_items(block)), plan)


def _encode_packed(
    array: pa.StructArray, validity: NDArray[np.bool_] | None, field: Field, plan: PagePlan
) -> EncodedPage:
    """Encode a struct that is stored row by row; its members have no nulls of their own."""
    present: NDArray[np.bool_] | None = None
    if validity is not None and any(_is_packed_in_rows(member.type) for member in array.type):
        # A null row takes no bytes.
        array, present, validity = keep_slots(array, validity), validity, None
    members: list[DataBlock] = []
    for index, child in enumerate(field.children):
        member = array.field(index)
        if member.null_count and (validity is None or bool((~np.asarray(member.is_valid()) & validity).any())):
            raise NotSupportedError(
                f"packed struct {field.name!r}: member {child.name!r} has a null, which cannot be stored",
                field=field.name,
            )
        block = block_from_array(member, validity)
        if _has_null_item(block):
            raise NotSupportedError(
                f"packed struct {field.name!r}: member {child.name!r} has a null item, which cannot be stored",
                field=field.name,
            )
        members.append(_in_whole_bytes(block) if isinstance(block, FixedSizeListBlock) else block)
    block = StructBlock(len(array), tuple(members))
    if any(isinstance(member, (VariableWidthBlock, FixedSizeListBlock)) for member in members):
        return encode_zipped(block, plan, present=present)
    widths = [member.bits_per_value // 8 for member in members if isinstance(member, FixedWidthBlock)]
    choice: MiniBlockChoice | None = choose_rows(sum(widths), plan.options)
    page = None if choice is None else encode_mini_block(choice, block, plan)
    if page is None:
        raise NotSupportedError(
            f"packed struct {field.name!r}: rows of {counted(sum(widths), 'byte')} cannot be written", field=field.name
        )
    return page


def _is_packed_in_rows(dtype: pa.DataType) -> bool:
    """Return whether structs with a member of this type are stored as zipped rows instead of chunks."""
    return is_variable_width(dtype) or pa.types.is_fixed_size_list(dtype)


def _has_null_item(block: DataBlock) -> bool:
    return isinstance(block, FixedSizeListBlock) and (block.validity is not None or _has_null_item(block.items))


def _blanked(block: FixedSizeListBlock, validity: NDArray[np.bool_] | None) -> FixedSizeListBlock:
    """Replace the items of null lists with zeros; zipping does the same if it copies the values."""
    if validity is None or bool(validity.all()):
        return block
    items, valid_items = block.items, np.repeat(validity, block.dimension)
    if isinstance(items, FixedSizeListBlock):
        items = _blanked(items, valid_items)
    elif isinstance(items, FixedWidthBlock) and items.bits_per_value == 1:
        bits = unpack_bitmap(items.data, 0, items.num_values) & valid_items
        items = FixedWidthBlock(items.num_values, 1, pack_mask(bits))
    elif isinstance(items, FixedWidthBlock):
        rows = np.where(validity[:, None], items.data.reshape(block.num_values, -1), np.uint8(0))
        items = FixedWidthBlock(items.num_values, items.bits_per_value, rows.reshape(-1))
    return FixedSizeListBlock(block.num_values, block.dimension, items, block.validity)


def _without_null_items(block: FixedSizeListBlock) -> FixedSizeListBlock:
    """Remove the values of items that are all null, so that they take no bytes except for their validity."""
    if isinstance(block.items, FixedSizeListBlock):
        items: DataBlock = _without_null_items(block.items)
    elif block.validity is not None and not bool(block.validity.any()):
        items = NullBlock(block.items.num_values)
    else:
        return block
    return FixedSizeListBlock(block.num_values, block.dimension, items, block.validity)


def _in_whole_bytes(block: DataBlock) -> DataBlock:
    """Expand booleans to one byte each, because full-zip pages cannot store single bits."""
    if isinstance(block, FixedSizeListBlock):
        return FixedSizeListBlock(block.num_values, block.dimension, _in_whole_bytes(block.items), block.validity)
    if isinstance(block, FixedWidthBlock) and block.bits_per_value == 1:
        return FixedWidthBlock(block.num_values, 8, unpack_bitmap(block.data, 0, block.num_values).view(np.uint8))
    return block
