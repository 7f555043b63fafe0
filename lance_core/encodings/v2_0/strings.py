"""Strings of format 2.0 in memory: bytes, offsets and validity, converted to and from Arrow arrays.

Offsets are 64 bits wide on disk for all types; in memory, the type determines the width.

Source: Arrow columnar format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_core.encodings.kernels.bits import pack_mask
from lance_core.encodings.v2_0.api import MAX_INT32, checked_values, is_variable_width, wrong_type
from lance_core.errors import NotSupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Strings", "array_from_strings", "strings_from_array"]


@dataclass(frozen=True, slots=True)
class Strings:
    """Byte strings in memory, with their validity.

    Attributes:
        offsets: (num_rows + 1,) int32 or int64, ascending, positions in ``data``.
        data: the bytes of the strings, possibly with other bytes before and after.
        validity: (num_rows,) mask, True = valid; None = no nulls.
    """

    offsets: NDArray[Any]
    data: pa.Buffer
    validity: NDArray[np.bool_] | None


def strings_from_array(array: pa.Array) -> Strings:
    """Return the strings of an Arrow array, zero-copy except for the mask; bytes under nulls are kept."""
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    dtype = np.dtype("<i8" if is_large else "<i4")
    _, offsets, data = array.buffers()
    if offsets is None or not offsets.size:
        bounds = np.zeros(len(array) + 1, dtype)
    else:
        bounds = np.frombuffer(offsets, dtype, len(array) + 1, array.offset * dtype.itemsize)
    validity = np.asarray(array.is_valid()) if array.null_count else None
    return Strings(bounds, data if data is not None else pa.py_buffer(b""), validity)


def array_from_strings(strings: Strings, dtype: pa.DataType, arm: str) -> pa.Array:
    """Build an Arrow array from the bytes.

    Raises:
        CorruptDataError: the type does not match, offsets do not ascend, or a string is not valid UTF-8.
        NotSupportedError: a type with 32-bit offsets would need more than 2 GiB.
    """
    if not is_variable_width(dtype):
        raise wrong_type(arm, dtype)
    offsets = strings.offsets
    if pa.types.is_large_string(dtype) or pa.types.is_large_binary(dtype):
        offsets = offsets.astype(np.int64, copy=False)
    else:
        if int(offsets[-1]) > MAX_INT32:
            raise NotSupportedError(
                f"{int(offsets[-1])} bytes are too many for one array of type {dtype}; read fewer rows at a time"
            )
        offsets = offsets.astype(np.int32, copy=False)
    bitmap = None if strings.validity is None else pa.py_buffer(pack_mask(strings.validity))
    array = pa.Array.from_buffers(dtype, len(offsets) - 1, [bitmap, pa.py_buffer(offsets), strings.data])
    # Offsets that do not ascend would cause crashes when the array is used.
    return checked_values(array)
