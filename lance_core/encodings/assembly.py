"""Assembly: combines the decoded leaves of a top-level column into one array, from the leaves outward.

The levels of every leaf of a struct include the layers of the struct. All leaves are unraveled (see
``levels/unravel.py``); the validity and the offsets of the result come from the first leaf.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.api import NullBlock, StructBlock
from lance_core.encodings.leaf_arrays import array_from_block, bitmap_of
from lance_core.encodings.levels.unravel import Unraveler
from lance_core.errors import CorruptDataError, InternalError, NotSupportedError
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.leaf_page import LeafPage
    from lance_core.schema.field import Field

__all__ = ["assemble"]

_MAX_INT32: Final = (1 << 31) - 1


def assemble(field: Field, leaves: Sequence[LeafPage]) -> pa.Array:
    """Build the array of a top-level column.

    Args:
        field: the column's field.
        leaves: one decoded page per leaf, in the order of ``field.leaves()``; all contain the same rows.

    Returns:
        An array of type ``arrow_type(field)``; it shares memory with the pages where their layout allows this.

    Raises:
        CorruptDataError: the levels of a leaf do not match the column's nesting, or the leaves are inconsistent.
        NotSupportedError: there are more items or bytes than an array of this type can address.
    """
    array, _ = _build(field, iter(leaves))
    return array


def _build(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    """Return the array of a field, and the unravelers of its leaves, positioned after the field's layer."""
    if field.is_leaf:
        leaf = next(leaves, None)
        if leaf is None:
            raise InternalError(f"field {field.name!r}: fewer leaves were decoded than the column has")
        if field.is_struct and not field.children:
            return _memberless_structs(field, leaf), []
        unraveler = Unraveler(leaf.levels, f"field {field.name!r}")
        return _leaf_array(field, leaf, unraveler.validity()), [unraveler]
    if field.is_struct:
        return _build_struct(field, leaves)
    if field.is_list or field.is_map:
        return _build_list(field, leaves)
    return _build_fixed_size_list(field, leaves)


def _leaf_array(field: Field, leaf: LeafPage, validity: NDArray[np.bool_] | None) -> pa.Array:
    dtype = arrow_type(field)
    if not field.is_struct:
        return array_from_block(dtype, leaf.block, validity)
    num_values = leaf.block.num_values
    if isinstance(leaf.block, NullBlock):
        return pa.nulls(num_values, dtype)
    if not isinstance(leaf.block, StructBlock) or len(leaf.block.members) != len(field.children):
        raise CorruptDataError(
            f"field {field.name!r}: the page does not contain packed structs with {len(field.children)} members"
        )
    members = [
        array_from_block(arrow_type(child), member, None)
        for child, member in zip(field.children, leaf.block.members, strict=True)
    ]
    return _from_buffers(dtype, num_values, validity, None, members)


def _memberless_structs(field: Field, leaf: LeafPage) -> pa.Array:
    # pylance stores such structs as all null, without the enclosing layers, and reads them back as {}.
    if leaf.levels.layers.max_repetition:
        raise NotSupportedError(f"field {field.name!r}: lists of structs without fields cannot be read")
    return pa.Array.from_buffers(arrow_type(field), leaf.num_rows, [None], children=[])


def _build_struct(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    members, unravelers = [], []
    for child in field.children:
        member, below = _build(child, leaves)
        members.append(member)
        unravelers += below
    num_slots = unravelers[0].num_slots() if unravelers else len(members[0])
    if any(len(member) != num_slots for member in members):
        raise CorruptDataError(
            f"struct {field.name!r}: members have {[len(m) for m in members]} slots, expected {num_slots}"
        )
    validity, *_ = [unraveler.validity() for unraveler in unravelers] or [None]
    return _from_buffers(arrow_type(field), num_slots, validity, None, members), unravelers


def _build_list(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    items, unravelers = _build(field.children[0], leaves)
    _require_levels(field, unravelers)
    (offsets, validity), *_ = [unraveler.offsets() for unraveler in unravelers]
    if int(offsets[-1]) != len(items):
        raise CorruptDataError(
            f"list {field.name!r}: found {len(items)} items, but the offsets end at {int(offsets[-1])}"
        )
    dtype = arrow_type(field)
    if not pa.types.is_large_list(dtype) and len(items) > _MAX_INT32:
        raise NotSupportedError(
            f"list {field.name!r}: {len(items)} items are too many for one array; read fewer rows at a time"
        )
    offsets = offsets.astype(np.int64 if pa.types.is_large_list(dtype) else np.int32, copy=False)
    return _from_buffers(dtype, len(offsets) - 1, validity, offsets, [items]), unravelers


def _build_fixed_size_list(field: Field, leaves: Iterator[LeafPage]) -> tuple[pa.Array, list[Unraveler]]:
    dtype = arrow_type(field)
    items, unravelers = _build(field.children[0], leaves)
    _require_levels(field, unravelers)
    for unraveler in unravelers:
        unraveler.keep_first_of(dtype.list_size)
    num_slots = unravelers[0].num_slots()
    validity, *_ = [unraveler.validity() for unraveler in unravelers]
    if len(items) != num_slots * dtype.list_size:
        raise CorruptDataError(
            f"field {field.name!r}: found {len(items)} items for {num_slots} lists of {dtype.list_size} items each"
        )
    return _from_buffers(dtype, num_slots, validity, None, [items]), unravelers


def _require_levels(field: Field, unravelers: list[Unraveler]) -> None:
    if not unravelers:
        raise NotSupportedError(f"field {field.name!r}: lists of structs without fields cannot be read")


def _from_buffers(
    dtype: pa.DataType,
    num_slots: int,
    validity: NDArray[np.bool_] | None,
    offsets: NDArray[np.signedinteger] | None,
    children: list[pa.Array],
) -> pa.Array:
    buffers = [bitmap_of(validity)]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(dtype, num_slots, buffers, children=children)
