"""Arrays that contradict themselves are refused before a byte of them is written.

Arrow checks such things only when it is asked to, and its thorough check takes longer than writing does. So offsets and
indices are looked at with a comparison each, and text only where it is not ASCII.

Source: Arrow columnar format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.encodings.leaf_arrays import bytes_of, is_variable_width
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["require_valid"]


def require_valid(array: pa.Array, where: str) -> None:
    """Check that an array is what it says.

    Raises:
        InvalidInputError: offsets or indices lead outside, text is not UTF-8, or a decimal has too many digits.
    """
    try:
        array.validate()
        _check(array)
    except pa.ArrowException as error:
        raise InvalidInputError(f"column {where!r} is malformed: {error}", column=where) from error


def _check(array: pa.Array) -> None:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    dtype = array.type
    if len(array) == 0:
        return
    if pa.types.is_dictionary(dtype):
        bounds = pc.min_max(array.indices).as_py()
        if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(array.dictionary):
            raise pa.ArrowInvalid(f"an index of a dictionary of {len(array.dictionary)} values leads outside")
        _check(array.dictionary)
    elif is_variable_width(dtype):
        _check_values(array)
    elif pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype):
        offsets = _ascending_offsets(array, pa.types.is_large_list(dtype))
        children = [array.keys, array.items] if pa.types.is_map(dtype) else [array.values]
        for child in children:
            _check(child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
    elif pa.types.is_struct(dtype):
        for index in range(dtype.num_fields):
            _check(array.field(index))
    elif pa.types.is_fixed_size_list(dtype):
        _check(array.values.slice(array.offset * dtype.list_size, len(array) * dtype.list_size))
    elif pa.types.is_decimal(dtype) or dtype in (pa.string_view(), pa.binary_view()):
        array.validate(full=True)


def _check_values(array: pa.Array) -> None:
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = _ascending_offsets(array, is_large)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        data = bytes_of(array.buffers()[2])[int(offsets[0]) : int(offsets[-1])]
        if len(data) and int(data.max()) > 127:
            array.validate(full=True)


def _ascending_offsets(array: pa.Array, is_large: bool) -> NDArray[Any]:
    words: NDArray[Any] = bytes_of(array.buffers()[1]).view("<i8" if is_large else "<i4")
    offsets = words[array.offset : array.offset + len(array) + 1]
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise pa.ArrowInvalid("the offsets of its values do not ascend")
    return offsets
