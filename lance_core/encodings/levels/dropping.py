"""Dropping slots: removes values that Arrow stores for null lists, before levels are built.

This module rebuilds nested arrays from their children and uses ``pa.Array.filter`` only for leaves: for nested
fixed-size lists with an offset, pyarrow 26 selects the wrong rows.

Source: Arrow columnar format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bitmap_of, validity_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["keep_slots"]


def keep_slots(array: pa.Array, mask: NDArray[np.bool_]) -> pa.Array:
    """Return the slots where ``mask`` is True, with everything nested in them; null slots are kept like others.

    Args:
        array: an array of any type and any offset.
        mask: (len(array),) bool, True for the slots to keep.
    """
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    dtype, num_kept = array.type, int(np.count_nonzero(mask))
    if not pa.types.is_nested(dtype) or pa.types.is_dictionary(dtype):
        return array.filter(pa.array(mask))
    validity = validity_of(array)
    bitmap = None if validity is None else bitmap_of(validity[mask])
    if pa.types.is_struct(dtype):
        members = [keep_slots(array.field(index), mask) for index in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, num_kept, [bitmap], children=members)
    if pa.types.is_fixed_size_list(dtype):
        size = dtype.list_size
        items = keep_slots(array.values.slice(array.offset * size, len(array) * size), np.repeat(mask, size))
        return pa.Array.from_buffers(dtype, num_kept, [bitmap], children=[items])
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    items = keep_slots(items, np.repeat(mask, lengths))
    kept_offsets = np.zeros(num_kept + 1, offsets.dtype)
    np.cumsum(lengths[mask], out=kept_offsets[1:])
    return pa.Array.from_buffers(dtype, num_kept, [bitmap, pa.py_buffer(kept_offsets)], children=[items])
