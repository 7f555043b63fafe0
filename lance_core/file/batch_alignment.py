"""Converts a caller's record batch to the form that the page encoder expects.

Columns and struct members are put into schema order; missing members become null. Extension arrays are replaced by
their storage arrays, and view arrays by arrays without views. A null in a non-nullable field is rejected, unless it is
hidden below a null struct or list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.nested_arrays import with_members
from lance_core.errors import NotSupportedError, SchemaMismatchError
from lance_core.file.valid_input import require_valid
from lance_core.schema.extension_types import storage_array
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.projection import check_compatible

if TYPE_CHECKING:
    from lance_core.schema.field import Field, Schema

__all__ = ["BatchAlignment"]


class BatchAlignment:
    """Checks record batches against one schema and reorders their columns.

    The schema of a batch is not checked again if it equals the schema of the last accepted batch; the values of every
    batch are checked.

    Args:
        schema: schema of the file; every batch must have all columns of this schema.
    """

    __slots__ = ("_accepted", "_as_is", "_has_required", "_order", "_schema", "_types")

    def __init__(self, schema: Schema) -> None:
        """See the class docstring."""
        self._schema = schema
        self._types = [arrow_type(top) for top in schema.fields]
        self._has_required = [any(not node.nullable for node in top.walk()) for top in schema.fields]
        self._accepted: pa.Schema | None = None
        self._order: list[int] = []
        self._as_is: list[bool] = []

    def align(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns in schema order, as arrays of the file's types.

        Nothing is copied, except for view types and missing members.

        Raises:
            SchemaMismatchError: a column is missing, is unknown, has the wrong type, or is not nullable but has nulls.
            InvalidInputError: an array is inconsistent: offsets or indices are out of range, or text is not UTF-8.
            NotSupportedError: Arrow cannot convert a nested view type.
        """
        if self._accepted is None or not batch.schema.equals(self._accepted):
            self._accept(batch.schema)
        aligned = []
        for index, top in enumerate(self._schema.fields):
            given = require_valid(batch.column(self._order[index]), top.name)
            array = given if self._as_is[index] else _stored(given, self._types[index], top.name)
            if self._has_required[index]:
                _refuse_nulls(top, array, None, top.name)
            aligned.append(array)
        return aligned

    def _accept(self, found: pa.Schema) -> None:
        check_compatible(self._schema, found)
        names = set(found.names)
        missing = [name for name in self._schema.names if name not in names]
        if missing:
            raise SchemaMismatchError(
                f"column {missing[0]!r} of the file is missing from the batch; found {found.names}", column=missing[0]
            )
        self._order = [found.get_field_index(name) for name in self._schema.names]
        given = [found.field(index).type for index in self._order]
        self._as_is = [
            not dtype.num_fields and dtype == expected and not _contains_view(dtype)
            for dtype, expected in zip(given, self._types, strict=True)
        ]
        self._accepted = found


def _stored(array: pa.Array, expected: pa.DataType, where: str) -> pa.Array:
    array = with_members(storage_array(array), expected)
    if not _contains_view(array.type):
        return array
    try:
        return array.cast(expected)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise NotSupportedError(
            f"column {where!r} of type {array.type} cannot be converted to {expected}: {error}", column=where
        ) from error


def _contains_view(dtype: pa.DataType) -> bool:
    if dtype in (pa.string_view(), pa.binary_view()):
        return True
    return any(_contains_view(dtype.field(index).type) for index in range(dtype.num_fields))


def _refuse_nulls(field: Field, array: pa.Array, visible: pa.BooleanArray | None, where: str) -> None:
    """Raise an error for a null that is not hidden below another null.

    Args:
        field: the field that ``array`` belongs to.
        array: the values of the field.
        visible: mask of the slots without a null ancestor, shape (len(array),); None if no slot has one.
        where: path of the field, for messages.
    """
    if not field.nullable and array.null_count:
        nulls = array.is_null() if visible is None else pc.and_(array.is_null(), visible)
        if pc.any(nulls).as_py():
            raise SchemaMismatchError(f"field {where!r} is not nullable, but the data contains nulls", field=where)
    if field.is_leaf and not field.is_packed:
        return
    if not any(not node.nullable for child in field.children for node in child.walk()):
        return
    if field.is_struct:
        if array.null_count:
            visible = array.is_valid() if visible is None else pc.and_(array.is_valid(), visible)
        for index, child in enumerate(field.children):
            _refuse_nulls(child, array.field(index), visible, f"{where}.{child.name}")
        return
    if visible is not None:
        array = array.filter(visible)
    if field.is_map:
        array = _as_list(array)
    item = field.children[0]
    # flatten() omits the items of null lists.
    _refuse_nulls(item, array.flatten(), None, f"{where}.{item.name}")


def _as_list(array: pa.MapArray) -> pa.ListArray:
    """Return a map array as an array of lists of its entries, zero-copy."""
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    return pa.ListArray.from_buffers(
        pa.list_(entries.type), len(array), array.buffers()[:2], offset=array.offset, children=[entries]
    )
