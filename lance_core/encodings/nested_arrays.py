"""Splits and rebuilds nested arrays: lists with replaced items, structs with reordered members.

Source: Arrow columnar format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of, validity_of
from lance_core.schema.projection import same_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["list_items", "with_items", "with_members"]


def list_items(array: pa.Array) -> pa.Array:
    """Return the items of a list, map, or fixed-size list array, from its first to its last slot; a zero-copy view."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    offsets = _offsets(array)
    return array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def with_items(array: pa.Array, items: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Replace the items of lists.

    Args:
        array: lists, maps or fixed-size lists, with any offset.
        items: the new items, one for each item of ``list_items(array)``.
        dtype: type of the result; its item type is the type of ``items``.
    """
    buffers = [bitmap_of(validity_of(array))]
    if not pa.types.is_fixed_size_list(dtype):
        offsets = _offsets(array)
        buffers.append(pa.py_buffer(offsets - offsets[0]))
    return pa.Array.from_buffers(dtype, len(array), buffers, children=[items])


def with_members(array: pa.Array, expected: pa.DataType) -> pa.Array:
    """Reorder the members of all nested structs to match ``expected``; missing members become null.

    Args:
        array: an array without extension types; ``fits_type(expected, array.type)`` must be True.
        expected: the target type; the type of the result may still differ from it in item names and view types.
    """
    if same_type(expected, array.type):
        return array
    if pa.types.is_struct(expected):
        members = [
            pa.nulls(len(array), wanted.type)
            if (index := array.type.get_field_index(wanted.name)) < 0
            else with_members(array.field(index), wanted.type)
            for wanted in expected
        ]
        fields = [wanted.with_type(member.type) for wanted, member in zip(expected, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    items = list_items(array)
    if pa.types.is_map(expected):
        # Keys and values are matched by position.
        value = with_members(items.field(1), expected.item_type)
        dtype = pa.map_(array.type.key_field, expected.item_field.with_type(value.type))
        entries = pa.StructArray.from_arrays([items.field(0), value], fields=[dtype.key_field, dtype.item_field])
        return with_items(array, entries, dtype)
    aligned = with_members(items, expected.value_type)
    item = expected.value_field.with_type(aligned.type)
    if pa.types.is_fixed_size_list(expected):
        return with_items(array, aligned, pa.list_(item, expected.list_size))
    return with_items(array, aligned, pa.large_list(item) if pa.types.is_large_list(expected) else pa.list_(item))


def _offsets(array: pa.Array) -> NDArray[np.signedinteger]:
    """Return the (len(array) + 1,) offsets into ``array.values``."""
    if not len(array):
        return np.zeros(1, np.int64 if pa.types.is_large_list(array.type) else np.int32)
    offsets: NDArray[np.signedinteger] = array.offsets.to_numpy()
    return offsets
