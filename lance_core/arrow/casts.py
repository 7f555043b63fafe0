"""Casts of Arrow arrays, including casts to and from bfloat16.

**Source:** ``lance.arrow.cast`` of pylance 14.0.2, which refuses nulls, ignores the bounds of slices, and drops the
nulls of lists. This function handles all of these correctly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.arrow.bfloat16 import (
    BFloat16Type,
    array_of_bits,
    bits_of_array,
    bits_of_floats,
    floats_of_bits,
)
from lance_core.errors import InvalidInputError
from lance_core.schema.logical_types import BFLOAT16

__all__ = ["cast"]

_ALIASES: Final = ("bfloat16", "bf16")


def cast(arr: pa.Array, target_type: pa.DataType | str, *args: Any, **kwargs: Any) -> pa.Array:
    """Cast an array to another type, like :func:`pyarrow.compute.cast`, but also to and from bfloat16.

    Args:
        arr: the array, or a chunked array.
        target_type: a type or its name. ``"bfloat16"`` and ``"bf16"`` stand for :class:`BFloat16Type`. Floating-point
            numbers can be cast to bfloat16 and back, and so can fixed-size lists of them.
        *args: further arguments of :func:`pyarrow.compute.cast`, for casts that Arrow performs.
        **kwargs: further keyword arguments of that function.

    Raises:
        InvalidInputError: one of the types is bfloat16 and the other one is not a floating-point type, or two
            fixed-size lists differ in their sizes.
    """
    target = _resolved(target_type)
    if isinstance(arr, pa.ChunkedArray):
        return pa.chunked_array([cast(chunk, target, *args, **kwargs) for chunk in arr.chunks], type=target)
    if _is_bfloat16(arr.type) or _is_bfloat16(target):
        return _cast_bfloat16(arr, target)
    if pa.types.is_fixed_size_list(arr.type) and pa.types.is_fixed_size_list(target):
        return _cast_list(arr, target, *args, **kwargs)
    return pc.cast(arr, target, *args, **kwargs)


def _resolved(target: pa.DataType | str) -> pa.DataType:
    if isinstance(target, str):
        return BFloat16Type() if target in _ALIASES else pa.type_for_alias(target)
    return target


def _is_bfloat16(dtype: pa.DataType) -> bool:
    # The type may be that of another library with the same name.
    return isinstance(dtype, pa.BaseExtensionType) and dtype.extension_name == BFLOAT16


def _cast_bfloat16(arr: pa.Array, target: pa.DataType) -> pa.Array:
    if _is_bfloat16(arr.type) and _is_bfloat16(target):
        return arr
    other = target if _is_bfloat16(arr.type) else arr.type
    if not pa.types.is_floating(other):
        raise InvalidInputError(f"cannot cast {arr.type} to {target}: {other} is not a floating-point type")
    is_null = np.asarray(arr.is_null())
    if other is target:
        floats = floats_of_bits(bits_of_array(arr))
        valid = pa.array(~is_null).buffers()[1] if arr.null_count else None
        return pa.Array.from_buffers(pa.float32(), len(arr), [valid, pa.py_buffer(floats)]).cast(target)
    return array_of_bits(bits_of_floats(arr.cast(pa.float32()).to_numpy(zero_copy_only=False)), is_null)


def _cast_list(arr: pa.FixedSizeListArray, target: pa.FixedSizeListType, *args: Any, **kwargs: Any) -> pa.Array:
    size = target.list_size
    if arr.type.list_size != size:
        raise InvalidInputError(f"cannot cast {arr.type} to {target}: the sizes of the lists differ")
    items = cast(arr.values.slice(arr.offset * size, len(arr) * size), target.value_type, *args, **kwargs)
    mask = arr.is_null() if arr.null_count else None
    return pa.FixedSizeListArray.from_arrays(items, type=target, mask=mask)
