"""PreparedInput: converts rows from the types that callers provide to the types that tables store.

========================================  ==========================================================
Given                                     Declared
========================================  ==========================================================
``arrow.json`` strings                    ``lance.json``: binary JSON
binary with ``lance-encoding:blob``       ``lance.blob.v2``, for tables in format 2.2 and for
                                          existing columns of that type
========================================  ==========================================================

The same applies inside structs and lists. All other types are unchanged.

**Source:** ``write_dataset`` of pylance 14.0.2 converts such columns in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.encodings.nested_arrays import list_items, with_items
from lance_core.schema.blob_fields import is_blob_v2
from lance_core.schema.declared_columns import UPGRADED_BLOB, declared_column
from lance_core.schema.json_columns import encode_json, is_json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_core.schema.field import Schema

__all__ = ["PreparedInput"]


class PreparedInput:
    """Converts the batches of one stream to the declared types.

    Args:
        given: schema of the stream.
        table: schema of the table to which the rows are appended; None if the write creates the table.
        upgrades_blobs: whether blob columns of a new table are declared as ``lance.blob.v2``.
    """

    def __init__(self, given: pa.Schema, *, table: Schema | None = None, upgrades_blobs: bool = False) -> None:
        """See the class docstring."""
        self._given = given
        # Every iteration over a schema creates new fields; changes are detected by identity.
        columns, fields = list(given), []
        tops = {} if table is None else {top.name: top for top in table.fields}
        for column in columns:
            known = tops.get(column.name)
            upgrades = upgrades_blobs if known is None else any(map(is_blob_v2, known.leaves()))
            fields.append(declared_column(column, upgrades_blobs=upgrades))
        self.schema: pa.Schema = pa.schema(fields, metadata=given.metadata)
        self._changes = [before is not after for before, after in zip(columns, fields, strict=True)]

    def reader(self, stream: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return a stream of the converted batches."""
        if not any(self._changes):
            return stream
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(stream))

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert one batch of the stream to the declared types."""
        if not any(self._changes):
            return batch
        arrays = [
            _converted(array, before, after) if changes else array
            for array, before, after, changes in zip(
                batch.columns, self._given, self.schema, self._changes, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _batches(self, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in stream:
            yield self.batch(batch)


def _converted(array: pa.Array, given: pa.Field, declared: pa.Field) -> pa.Array:
    if given is declared or given.equals(declared):
        return array
    if is_json_text(given):
        return encode_json(array, given.name)
    if declared.type == UPGRADED_BLOB:
        data = array.cast(pa.large_binary())
        members = [data, pa.nulls(len(data), pa.string())]
        mask = data.is_null() if data.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(UPGRADED_BLOB), mask=mask)
    if pa.types.is_struct(given.type):
        members = [
            _converted(array.field(index), before, after)
            for index, (before, after) in enumerate(zip(given.type, declared.type, strict=True))
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(declared.type), mask=mask)
    items = _converted(list_items(array), given.type.field(0), declared.type.field(0))
    return with_items(array, items, declared.type)
