"""Converts one Arrow batch, from Spark or for Spark, to the target schema. Buffers are shared where possible.

A list column becomes a fixed-size list by dropping its offsets::

    offsets  0   n   2n  3n        every list must be n long
    values   [n][n][n]             shared, not copied

A null list takes no space in a list column, but it takes the space of n values in a fixed-size list column. Therefore,
a column with null lists is copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import SchemaMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["conform_batch", "detach_small_columns"]

_SMALL_PART: Final = 8


def conform_batch(batch: pa.RecordBatch, target: pa.Schema, *, first_row: int = 0) -> pa.RecordBatch:
    """Convert a batch to the target's columns, order, and types.

    Args:
        batch: must contain every column of the target by name; other columns are dropped.
        target: the target schema, from :func:`~lance_pipelines.spark.schema.plan_target_schema`.
        first_row: position of the batch's first row among the task's rows, for messages.

    Returns:
        A batch that shares the buffers of ``batch``, except those of lists with null entries that become fixed-size
        lists and of values that are widened.

    Raises:
        SchemaMismatchError: a column is missing, cannot be converted, contains a list of the wrong length, or contains
            a null where the target does not allow nulls.
    """
    columns = []
    for field in target:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise SchemaMismatchError(
                f"column {field.name!r} is missing from the batch, which has "
                f"{', '.join(batch.schema.names) or 'no columns'}",
                column=field.name,
            )
        columns.append(_conform(batch.column(index), field, field.name, first_row))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def detach_small_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch, with copies of the columns that take up less than an eighth of its bytes.

    A batch from a stream is one block of memory, and every column is a view into it. A writer that collects a column
    until a page is full would keep the whole block in memory for that column::

        block   [id 80 KB][score 80 KB][vector 5 MB]       a hundred blocks for 8 MiB of ids: 540 MB

    A large column remains a view, because its page is soon full.
    """
    limit = batch.nbytes / _SMALL_PART
    columns = [column if column.nbytes >= limit else pa.concat_arrays([column]) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _conform(array: pa.Array, field: pa.Field, path: str, first_row: int | None) -> pa.Array:
    """Convert an array, or a child of one, to the field's type; ``first_row`` is None for the items of lists."""
    if not field.nullable and array.null_count:
        if first_row is None:
            raise SchemaMismatchError(f"column {path!r} is not nullable, but contains a null", column=path)
        row = first_row + _first_true(array.is_null())
        raise SchemaMismatchError(
            f"column {path!r}: row {row} is null, but the column is not nullable", column=path, row=row
        )
    expected = field.type
    if array.type.equals(expected):
        return array
    if isinstance(expected, pa.BaseExtensionType) and isinstance(array, pa.ExtensionArray):
        storage = _conform(array.storage, field.with_type(expected.storage_type), path, first_row)
        return pa.ExtensionArray.from_storage(expected, storage)
    if isinstance(array, pa.ExtensionArray):
        return _conform(array.storage, field, path, first_row)
    if isinstance(expected, pa.BaseExtensionType) and _is_binary(array.type):
        return _blobs(array, expected)
    if isinstance(expected, pa.BaseExtensionType):
        storage = _conform(array, field.with_type(expected.storage_type), path, first_row)
        return pa.ExtensionArray.from_storage(expected, storage)
    if pa.types.is_fixed_size_list(expected) and pa.types.is_list(array.type):
        return _fixed_size_lists(array, expected, path, first_row)
    if pa.types.is_struct(expected) and pa.types.is_struct(array.type):
        return _structs(array, expected, path, first_row)
    if _is_variable_list(expected) and pa.types.is_list(array.type):
        return _lists(array, expected, path)
    try:
        return array.cast(expected)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"column {path!r}: {array.type} cannot be converted to {expected}: {error}",
            column=path,
            expected=str(expected),
            found=str(array.type),
        ) from error


def _blobs(array: pa.Array, expected: pa.BaseExtensionType) -> pa.Array:
    """Convert binary values to blobs of a type whose storage is a struct with these values as ``data``."""
    children = [
        array.cast(child.type) if child.name == "data" else pa.nulls(len(array), child.type)
        for child in expected.storage_type
    ]
    mask = array.is_null() if array.null_count else None
    storage = pa.StructArray.from_arrays(children, fields=list(expected.storage_type), mask=mask)
    return pa.ExtensionArray.from_storage(expected, storage)


def _fixed_size_lists(
    array: pa.ListArray, expected: pa.FixedSizeListType, path: str, first_row: int | None
) -> pa.Array:
    size = expected.list_size
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    wrong = lengths != size
    if not wrong.any():
        values = array.values.slice(int(offsets[0]), len(array) * size)
        mask = array.is_null() if array.null_count else None
    else:
        if array.null_count:
            wrong &= array.is_valid().to_numpy(zero_copy_only=False)
        if wrong.any():
            found = int(lengths[np.argmax(wrong)])
            row = None if first_row is None else first_row + int(np.argmax(wrong))
            place = "" if row is None else f"row {row} has "
            raise SchemaMismatchError(
                f"column {path!r}: {place}a list of length {found}, expected {size}",
                column=path,
                row=row,
                expected=size,
                found=found,
            )
        values = array.values.take(_padded_indices(array, offsets, size))
        mask = array.is_null()
    values = _conform(values, expected.value_field, f"{path}.item", None)
    return pa.FixedSizeListArray.from_arrays(values, type=expected, mask=mask)


def _padded_indices(array: pa.ListArray, offsets: NDArray[np.int32], size: int) -> pa.Array:
    """Return the position in ``array.values`` of every slot; those of null lists are 0, and the mask hides them."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    starts = np.where(valid, offsets[:-1], 0).astype(np.int64)
    steps = np.where(valid, 1, 0).astype(np.int64)
    indices = starts[:, None] + steps[:, None] * np.arange(size, dtype=np.int64)
    if valid.any():
        return pa.array(indices.ravel())
    # Position 0 may not exist.
    return pa.nulls(len(array) * size, pa.int64())


def _structs(array: pa.StructArray, expected: pa.StructType, path: str, first_row: int | None) -> pa.Array:
    if not array.null_count:
        children = [_conform(array.field(child.name), child, f"{path}.{child.name}", first_row) for child in expected]
        return pa.StructArray.from_arrays(children, fields=list(expected))
    # Values under a null parent are meaningless: flatten makes them null, and such nulls are always allowed.
    flattened = dict(zip([child.name for child in array.type], array.flatten(), strict=True))
    children = []
    for child in expected:
        values, name = flattened[child.name], f"{path}.{child.name}"
        num_nulls = values.null_count - array.null_count
        if num_nulls and not child.nullable:
            raise SchemaMismatchError(
                f"column {name!r} is not nullable, but contains {num_nulls} null value{'s' * (num_nulls != 1)}",
                column=name,
                found=num_nulls,
            )
        children.append(_conform(values, child.with_nullable(True), name, first_row))
    return pa.StructArray.from_arrays(children, fields=list(expected), mask=array.is_null())


def _lists(array: pa.ListArray, expected: pa.DataType, path: str) -> pa.Array:
    start = array.offsets[0].as_py()
    values = array.values.slice(start, array.offsets[-1].as_py() - start)
    items = _conform(values, expected.value_field, f"{path}.item", None)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_large_list(expected):
        return pa.LargeListArray.from_arrays(_rebased(array, start).cast(pa.int64()), items, type=expected, mask=mask)
    return pa.ListArray.from_arrays(_rebased(array, start), items, type=expected, mask=mask)


def _rebased(array: pa.ListArray, start: int) -> pa.Array:
    """Return offsets that start at 0 in a separate buffer; the array's own offsets if they already start at 0."""
    return array.offsets if array.offset == 0 and start == 0 else pc.subtract(array.offsets, start)


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def _is_variable_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _first_true(mask: pa.Array) -> int:
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))
