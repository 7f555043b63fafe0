"""Splits rows with blob descriptors into pieces whose values fit in a limited number of bytes.

The schema determines which leaf fields are blobs, including leaf fields inside structs, lists, and maps. External
values are not counted: either they remain references, or their size is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import validity_of
from lance_core.encodings.nested_arrays import list_items
from lance_core.schema.extension_types import storage_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lance_core.schema.field import Field, Schema

__all__ = ["blob_pieces"]

_EXTERNAL: Final = 3


def blob_pieces(batch: pa.RecordBatch, stored: Schema, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive ranges of rows whose blob values fit in ``max_bytes``; rows are not split.

    Args:
        batch: a batch with descriptors in place of blob values.
        stored: the schema of the batch.
        max_bytes: the maximum total size of the values in a piece; exceeded only if a single row is larger.

    Yields:
        The bounds (start, stop) of each piece, as row indices; ``stop`` is exclusive. Nothing for an empty batch.
    """
    sizes = np.zeros(batch.num_rows, np.float64)
    for array, top in zip(batch.columns, stored.fields, strict=True):
        sizes += _row_bytes(storage_array(array), top)
    # Descriptors are untrusted: sums of 64-bit sizes must not wrap.
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = float(ends[start - 1]) if start else 0.0
        stop = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        yield start, stop
        start = stop


def _row_bytes(array: pa.Array, field: Field) -> NDArray[np.float64]:
    """Return the total size of the blob values in each entry, in bytes; the shape is (len(array),)."""
    if field.is_blob:
        return _value_bytes(array)
    total = np.zeros(len(array), np.float64)
    if not any(leaf.is_blob for leaf in field.leaves()):
        return total
    if field.is_struct:
        # flatten() hides values below null structs.
        members = zip(array.flatten(), field.children, strict=True)
        for member, child in members:
            total += _row_bytes(storage_array(member), child)
        return total
    items = _row_bytes(storage_array(list_items(array)), field.children[0])
    before = np.concatenate([np.zeros(1), np.cumsum(items)])
    if pa.types.is_fixed_size_list(array.type):
        bounds = np.arange(len(array) + 1) * array.type.list_size
    else:
        bounds = array.offsets.to_numpy().astype(np.int64)
        bounds = bounds - bounds[0]
    ended: NDArray[np.float64] = before[bounds[1:]] - before[bounds[:-1]]
    return ended


def _value_bytes(descriptors: pa.StructArray) -> NDArray[np.float64]:
    sizes: NDArray[np.float64] = descriptors.field("size").fill_null(0).to_numpy().astype(np.float64)
    valid = validity_of(descriptors)
    if valid is not None:
        sizes[~valid] = 0
    if descriptors.type.get_field_index("kind") >= 0:
        sizes[descriptors.field("kind").fill_null(0).to_numpy() == _EXTERNAL] = 0
    return sizes
