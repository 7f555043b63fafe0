"""Rejects inconsistent arrays before any of their bytes are written.

Arrow checks consistency only on request, and its full check takes longer than writing. Offsets and indices are
therefore checked with a single comparison, and text only if it is not ASCII. Values that a null masks, in its
own slot or in child arrays, have no meaning and may be arbitrary, as long as their offsets do not decrease. For
example, pyarrow itself stores invalid dictionary indices in the slots of nulls.

Source: Arrow columnar format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import bytes_of, is_variable_width
from lance_core.errors import InvalidInputError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["require_valid"]


def require_valid(array: pa.Array, where: str) -> pa.Array:
    """Check that an array is valid.

    Returns:
        The array itself or, if a value that a null masks is invalid, a copy in which all masked values are null at
        every level.

    Raises:
        InvalidInputError: offsets or indices are out of range, text is not UTF-8, or a decimal or time value is out of
            range for its type.
    """
    try:
        array.validate()
        try:
            _check(array)
        except pa.ArrowInvalid:
            # Values can only be removed from arrays whose offsets are in order.
            _check(array, has_values=False)
            array = _without_hidden_values(array)
            _check(array)
    except pa.ArrowException as error:
        raise InvalidInputError(f"column {where!r} is malformed: {error}", column=where) from error
    return array


def _without_hidden_values(array: pa.Array) -> pa.Array:
    """Replace all values below nulls with nulls."""
    dtype = array.type
    if isinstance(array, pa.ExtensionArray):
        return dtype.wrap_array(_without_hidden_values(array.storage))
    if not array.null_count and not dtype.num_fields:
        return array
    # Taking a null index makes members and items null, and drops the items of lists.
    rows = pa.array(np.arange(len(array)), mask=np.asarray(array.is_null()))
    array = array.take(rows)
    if not dtype.num_fields:
        return array
    if pa.types.is_struct(dtype):
        children = [_without_hidden_values(array.field(index)) for index in range(dtype.num_fields)]
    elif pa.types.is_map(dtype):
        items = _without_hidden_values(array.items)
        children = [pa.StructArray.from_arrays([array.keys, items], fields=[dtype.key_field, dtype.item_field])]
    else:
        children = [_without_hidden_values(array.values)]
    buffers = array.buffers()[: 1 if pa.types.is_struct(dtype) or pa.types.is_fixed_size_list(dtype) else 2]
    return pa.Array.from_buffers(dtype, len(array), buffers, offset=array.offset, children=children)


def _check(array: pa.Array, *, has_values: bool = True) -> None:
    """Check offsets, and also values if ``has_values`` is True."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    dtype = array.type
    if len(array) == 0:
        return
    if pa.types.is_dictionary(dtype):
        _check_indices(array, has_values=has_values)
    elif is_variable_width(dtype):
        _check_text(array, has_values=has_values)
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype):
        offsets = _ascending_offsets(array, pa.types.is_large_list(dtype))
        children = [array.keys, array.items] if pa.types.is_map(dtype) else [array.values]
        for child in children:
            _check(child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])), has_values=has_values)
    elif pa.types.is_struct(dtype):
        for index in range(dtype.num_fields):
            _check(array.field(index), has_values=has_values)
    elif pa.types.is_fixed_size_list(dtype):
        _check(array.values.slice(array.offset * dtype.list_size, len(array) * dtype.list_size), has_values=has_values)
    elif has_values and (_has_limits(dtype) or dtype in (pa.string_view(), pa.binary_view())):
        array.validate(full=True)


def _has_limits(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(dtype) or pa.types.is_time(dtype))


def _check_indices(array: pa.DictionaryArray, *, has_values: bool) -> None:
    if not has_values:
        return
    bounds = pc.min_max(array.indices).as_py()
    if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(array.dictionary):
        raise pa.ArrowInvalid(
            f"a dictionary index is out of range; the dictionary has {counted(len(array.dictionary), 'value')}"
        )
    _check(array.dictionary)


def _check_text(array: pa.Array, *, has_values: bool) -> None:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = _ascending_offsets(array, is_large)
    if has_values and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        data = bytes_of(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
        if len(data) and int(data.max()) > 127:
            # Format 2.0 stores the bytes under nulls, and the reference reads them as text.
            buffers = [None, *array.buffers()[1:]]
            pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset).validate(full=True)


def _ascending_offsets(array: pa.Array, is_large: bool) -> NDArray[Any]:
    words: NDArray[Any] = bytes_of(array.buffers()[1]).view("<i8" if is_large else "<i4")
    offsets = words[array.offset : array.offset + len(array) + 1]
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise pa.ArrowInvalid("the offsets are not in ascending order")
    return offsets
