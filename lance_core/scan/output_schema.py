"""OutputSchema: the Arrow schema of a projection, and batches with this schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.schema.convert import schema_to_arrow
from lance_core.schema.extension_types import has_extension, restore_batch, restore_schema
from lance_core.schema.json_columns import shown_json_schema
from lance_core.schema.logical_types import arrow_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.schema.field import Schema

__all__ = ["OutputSchema", "batch_without_columns", "decoded", "shown_schema"]


class OutputSchema:
    """The schema of the batches that a read with a projection returns.

    Args:
        wanted: the projection.

    Attributes:
        schema: the Arrow schema, including registered extension types.
    """

    def __init__(self, wanted: Schema) -> None:
        """Convert the projection."""
        self._stored = schema_to_arrow(wanted)
        self._types = self._stored.types
        restores = any(has_extension(top) for top in wanted.fields)
        self.schema: pa.Schema = restore_schema(self._stored) if restores else self._stored

    def batch(self, arrays: Sequence[pa.Array], num_rows: int) -> pa.RecordBatch:
        """Combine columns into a batch. The type of each is its stored type, its extension type, or a dictionary."""
        if not arrays:
            return batch_without_columns(num_rows)
        if self.schema is self._stored and [array.type for array in arrays] == self._types:
            return pa.RecordBatch.from_arrays(list(arrays), schema=self._stored)
        fields = list(map(_field_of, arrays, self._stored, self.schema))
        batch = pa.RecordBatch.from_arrays(list(arrays), schema=pa.schema(fields, metadata=self.schema.metadata))
        return batch if self.schema is self._stored else restore_batch(batch, self.schema)


def _field_of(array: pa.Array, stored: pa.Field, restored: pa.Field) -> pa.Field:
    """Return ``stored`` if it has the array's type, else ``restored``; for a dictionary, ``stored`` with its type."""
    if pa.types.is_dictionary(array.type):
        return stored.with_type(array.type)
    return stored if array.type == stored.type else restored


def decoded(batch: pa.RecordBatch, wanted: Schema) -> pa.RecordBatch:
    """Return the batch with plain values in columns that were read as dictionaries but are declared otherwise."""
    for index, (top, column) in enumerate(zip(wanted.fields, batch.columns, strict=True)):
        if pa.types.is_dictionary(column.type) and not top.is_dictionary:
            batch = batch.set_column(index, arrow_field(top), column.dictionary_decode())
    return batch


def shown_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table as users see it."""
    return OutputSchema(shown_json_schema(schema)).schema


def batch_without_columns(num_rows: int) -> pa.RecordBatch:
    """Return a batch that has a number of rows but no columns."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), num_rows, [None]))
