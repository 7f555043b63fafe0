"""Converts the rows of dictionary columns to keys. Each key is an index into the single dictionary of its field.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of, validity_of
from lance_core.encodings.v0_1.dictionary import DictionaryUnion, can_be_dictionary_value
from lance_core.encodings.v0_1.list_offsets import encode_lists
from lance_core.errors import UnsupportedVersionError
from lance_core.schema.logical_types import arrow_type
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lance_core.schema.field import Field, Schema

__all__ = ["DictionaryKeys"]


class DictionaryKeys:
    """Collects the dictionaries of all fields in one file, or in several files that share them.

    Args:
        schema: schema of the files.
        values: maps field ids to the initial values of their dictionaries.

    Raises:
        UnsupportedVersionError: the format does not support the value type of a dictionary.
    """

    def __init__(self, schema: Schema, values: Mapping[int, pa.Array] | None = None) -> None:
        """See the class docstring."""
        given = values or {}
        self._unions: dict[int, DictionaryUnion] = {}
        for top in schema.fields:
            for node in top.walk():
                if not node.is_dictionary:
                    continue
                dtype = arrow_type(node)
                _require_storable(node, dtype)
                self._unions[node.id] = DictionaryUnion(dtype, node.name, given.get(node.id))

    @property
    def values(self) -> dict[int, pa.Array]:
        """The dictionary values of each field so far, keyed by field id in ascending order."""
        return {field_id: self._unions[field_id].values for field_id in sorted(self._unions)}

    def replaced(self, field: Field, array: pa.Array) -> pa.Array:
        """Replace dictionary values with keys at every nesting level; an array without dictionaries is returned as is.

        Raises:
            SchemaMismatchError: a dictionary column contains a null.
            InvalidInputError: a dictionary would have too many values.
        """
        if not any(node.id in self._unions for node in field.walk()):
            return array
        return self._replaced(field, array, None)

    def _replaced(self, field: Field, array: pa.Array, visible: NDArray[np.bool_] | None) -> pa.Array:
        if field.is_dictionary:
            return self._unions[field.id].keys(array, visible)
        validity = validity_of(array)
        if visible is not None:
            validity = visible if validity is None else validity & visible
        if field.is_struct:
            members = [
                self._replaced(child, array.field(index), validity) for index, child in enumerate(field.children)
            ]
            fields = [pa.field(child.name, member.type) for child, member in zip(field.children, members, strict=True)]
            return pa.Array.from_buffers(pa.struct(fields), len(array), [bitmap_of(validity)], children=members)
        if field.is_list:
            offsets, items = encode_lists(array, validity)
            items = self._replaced(field.children[0], items, None)
            make = pa.large_list if pa.types.is_large_list(array.type) else pa.list_
            buffers = [bitmap_of(validity), pa.py_buffer(np.ascontiguousarray(offsets))]
            return pa.Array.from_buffers(make(items.type), len(array), buffers, children=[items])
        return array


def _require_storable(field: Field, dtype: pa.DictionaryType) -> None:
    if not can_be_dictionary_value(dtype.value_type):
        could = LanceFileVersion.V2_0.value
        raise UnsupportedVersionError(
            f"column {field.name!r}: a dictionary of {dtype.value_type} values needs data storage version {could} or "
            f"later; format {LanceFileVersion.V0_1.value} supports only dictionaries of integer, string, and binary "
            "values",
            column=field.name,
            version=LanceFileVersion.V0_1.value,
        )
