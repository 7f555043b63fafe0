"""Loads the values of blobs into batches, in the form in which rows are rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.blobs.batch_splitting import blob_pieces
from lance_core.file.blob_values import differing_leaves, with_leaves
from lance_core.schema.blob_fields import complete_schema, has_blobs, is_blob_v1, stored_schema
from lance_core.schema.convert import schema_to_arrow
from lance_core.schema.extension_types import storage_array, storage_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_core.scan.row_reader import RowReader
    from lance_core.schema.field import Field, Schema

__all__ = ["with_loaded_blobs"]

_VALUES_BYTES: Final = 64 * 1024 * 1024
"""Maximum number of bytes of blob values that are loaded at a time, unless a single row is larger."""


def with_loaded_blobs(batches: Iterator[pa.RecordBatch], reader: RowReader, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batches with blob values in place of descriptors; a batch may be split into smaller batches.

    Args:
        batches: rows that ``reader`` returned.
        reader: the reader of the rows; if there are blob columns, it must read a single fragment.
        schema: schema of the table; if it has no blob columns, the batches are not changed.
    """
    if not has_blobs(schema):
        yield from batches
        return
    stored, declared = stored_schema(schema), complete_schema(schema)
    arrow = schema_to_arrow(declared)
    arrow = pa.schema([column.with_type(storage_type(column.type)) for column in arrow])
    for batch in batches:
        for start, stop in blob_pieces(batch, stored, _VALUES_BYTES):
            part = batch.slice(start, stop - start)
            arrays = [
                _loaded(storage_array(array), before, after, reader)
                for array, before, after in zip(part.columns, stored.fields, declared.fields, strict=True)
            ]
            fields = [column.with_type(array.type) for column, array in zip(arrow, arrays, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _loaded(array: pa.Array, stored: Field, declared: Field, reader: RowReader) -> pa.Array:
    found = [(reader.blobs(each, leaf.id), leaf) for each, leaf in differing_leaves(array, stored, declared)]
    values = [blobs.load() if is_blob_v1(leaf) else blobs.declared() for blobs, leaf in found]
    return with_leaves(array, stored, declared, iter(values))
