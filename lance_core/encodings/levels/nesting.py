"""Nesting: splits a column's Arrow array into its leaves, each with the layers above it.

The arrays are also normalized to the one form that levels can express:

* array offsets are applied, so that every layer starts at its first slot, and view types are replaced by types with
  offsets;
* null lists have no items: any items that Arrow stores for them are dropped;
* a null struct makes its members null. Readers depend on this: pylance 14.0.2 misreads a list without nulls of its own
  below a nullable struct.

If ``keep_nullable`` is True, some layers are declared nullable in every page, even in pages without nulls: nullable
structs that contain a list, the lists below them, and nullable fixed-size lists of structs. pylance 14.0.2 cannot read
such a column if the layers of its pages differ.

Source: Arrow columnar format; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import validity_of
from lance_core.encodings.levels.build import FixedSizeListSlots, ItemSlots, ListSlots, Slots
from lance_core.encodings.levels.dropping import keep_slots
from lance_core.errors import NotSupportedError, SchemaMismatchError
from lance_core.schema.logical_types import plain_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.schema.field import Field

__all__ = ["NestedLeaf", "leaves_of"]


@dataclass(frozen=True, slots=True)
class NestedLeaf:
    """One leaf of a column.

    Attributes:
        field: the leaf's field.
        slots: the layers of the leaf, outermost first, ending with the leaf's own layer.
        array: the values of the leaf, one per slot of the last layer.
    """

    field: Field
    slots: tuple[Slots, ...]
    array: pa.Array

    @property
    def num_page_rows(self) -> int:
        """Value of ``Page.length``: number of rows or, inside fixed-size lists of structs, number of slots."""
        dimensions = (layer.dimension for layer in self.slots if isinstance(layer, FixedSizeListSlots))
        return self.slots[0].num_slots * prod(dimensions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Position in the tree of fields: the layers above it, and the constraints that they impose on the next layer.

    Attributes:
        slots: layers above, outermost first.
        validity: validity of the struct directly above; None = all valid, or no struct.
        keep_nullable: see the module docstring.
        under_kept: whether the layer directly above is nullable in every page, and its nulls also apply to this layer.
        inside_kept: whether some layer above is nullable in every page.
    """

    slots: tuple[Slots, ...] = ()
    validity: NDArray[np.bool_] | None = None
    keep_nullable: bool
    under_kept: bool = False
    inside_kept: bool = False

    def below_struct(self, layer: Slots, validity: NDArray[np.bool_] | None, *, is_kept: bool) -> _Place:
        """Return the position of the members of a struct, or of the struct in a fixed-size list."""
        return _Place(
            slots=(*self.slots, layer),
            validity=validity,
            keep_nullable=self.keep_nullable,
            under_kept=is_kept,
            inside_kept=self.inside_kept or is_kept,
        )

    def below_list(self, layer: ListSlots) -> _Place:
        """Return the position of the items of a list."""
        return _Place(slots=(*self.slots, layer), keep_nullable=self.keep_nullable, inside_kept=self.inside_kept)


def leaves_of(field: Field, array: pa.Array, *, keep_nullable: bool) -> list[NestedLeaf]:
    """Return the leaves of a column, depth first.

    Args:
        field: the column's field.
        array: the values of the column; the array may have any offset and any values under nulls.
        keep_nullable: see the module docstring.

    Raises:
        SchemaMismatchError: the array and the field have different nesting.
        NotSupportedError: pylance 14.0.2 could not read back this nesting.
    """
    return _walk(field, array, _Place(keep_nullable=keep_nullable))


def _walk(field: Field, array: pa.Array, place: _Place) -> list[NestedLeaf]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    validity = _both(validity_of(array), place.validity)
    if field.is_packed or field.is_blob:
        # Stored row by row in one column; for values outside the pages, the rows are descriptors.
        _require(pa.types.is_struct(array.type), field, array)
        return [NestedLeaf(field, (*place.slots, ItemSlots(validity, len(array))), array)]
    if field.is_struct:
        _require(pa.types.is_struct(array.type), field, array)
        return _walk_struct(field, array, validity, place)
    if field.is_list or field.is_map:
        is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
        _require(pa.types.is_map(array.type) if field.is_map else is_list, field, array)
        return _walk_list(field, array, validity, place)
    if field.is_structural_fixed_size_list:
        _require(pa.types.is_fixed_size_list(array.type), field, array)
        return _walk_fixed_size_list(field, array, validity, place)
    _require(not pa.types.is_nested(array.type) or pa.types.is_fixed_size_list(array.type), field, array)
    stored_type = plain_type(array.type)
    if stored_type != array.type:
        array = array.cast(stored_type)
    return [NestedLeaf(field, (*place.slots, ItemSlots(validity, len(array))), array)]


def _walk_struct(
    field: Field, array: pa.StructArray, validity: NDArray[np.bool_] | None, place: _Place
) -> list[NestedLeaf]:
    if not field.children:
        return [_fieldless_struct(field, array, validity, place)]
    if array.type.num_fields != len(field.children):
        raise SchemaMismatchError(
            f"struct {field.name!r} has {counted(array.type.num_fields, 'member')}, expected {len(field.children)}"
        )
    follows_fixed_size_list = bool(place.slots) and isinstance(place.slots[-1], FixedSizeListSlots)
    is_kept = place.under_kept if follows_fixed_size_list else _is_kept(field, place)
    layer = ItemSlots(_named_nullable(validity, len(array)) if is_kept else validity, len(array))
    below = place.below_struct(layer, validity, is_kept=is_kept)
    leaves = []
    for index, child in enumerate(field.children):
        leaves += _walk(child, array.field(index), below)
    return leaves


def _fieldless_struct(
    field: Field, array: pa.StructArray, validity: NDArray[np.bool_] | None, place: _Place
) -> NestedLeaf:
    if validity is not None or place.slots:
        # pylance 14.0.2 loses the values of the siblings of a nested struct without fields.
        raise NotSupportedError(
            f"struct {field.name!r}: a struct without fields must be a top-level column without nulls", field=field.name
        )
    nothing = np.zeros(len(array), np.bool_)
    return NestedLeaf(field, (ItemSlots(nothing, len(array)),), pa.nulls(len(array)))


def _walk_list(
    field: Field, array: pa.ListArray, validity: NDArray[np.bool_] | None, place: _Place
) -> list[NestedLeaf]:
    offsets = array.offsets.to_numpy()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    lengths = np.diff(offsets).astype(np.int64)
    items = array.values.slice(first, last - first)
    if validity is not None and bool(lengths[~validity].any()):
        items = keep_slots(items, np.repeat(validity, lengths))
        lengths = np.where(validity, lengths, 0)
    kept = _named_nullable(validity, len(array)) if place.inside_kept else validity
    return _walk(field.children[0], items, place.below_list(ListSlots(kept, lengths)))


def _walk_fixed_size_list(
    field: Field, array: pa.FixedSizeListArray, validity: NDArray[np.bool_] | None, place: _Place
) -> list[NestedLeaf]:
    struct = field.children[0]
    in_list = any(isinstance(layer, ListSlots) for layer in place.slots)
    if in_list or any(node.is_list or node.is_map for node in struct.walk()):
        # pylance 14.0.2 fails to write or read these; see docs/concepts/levels.md.
        raise NotSupportedError(
            f"field {field.name!r}: a fixed-size list of structs cannot be nested in a list, and cannot contain lists "
            "or maps",
            field=field.name,
        )
    dimension = array.type.list_size
    items = array.values.slice(array.offset * dimension, len(array) * dimension)
    is_kept = place.keep_nullable and (field.nullable or place.under_kept)
    kept = _named_nullable(validity, len(array)) if is_kept else validity
    item_validity = None if validity is None else np.repeat(validity, dimension)
    below = place.below_struct(FixedSizeListSlots(kept, len(array), dimension), item_validity, is_kept=is_kept)
    return _walk(struct, items, below)


def _is_kept(field: Field, place: _Place) -> bool:
    contains_list = any(
        node.is_list or node.is_map or node.is_structural_fixed_size_list
        for child in field.children
        for node in child.walk()
    )
    return place.keep_nullable and contains_list and (field.nullable or place.under_kept)


def _both(first: NDArray[np.bool_] | None, second: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _named_nullable(validity: NDArray[np.bool_] | None, num_slots: int) -> NDArray[np.bool_]:
    return np.ones(num_slots, np.bool_) if validity is None else validity


def _require(matches: bool, field: Field, array: pa.Array) -> None:
    if not matches:
        raise SchemaMismatchError(
            f"field {field.name!r} of type {field.logical_type!r} does not match an array of type {array.type}",
            field=field.name,
        )
