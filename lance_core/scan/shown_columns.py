"""ShownColumns: converts columns whose stored form is internal to their public form.

===============  =======================  ===========================================
Column           Stored                   Public
===============  =======================  ===========================================
blob             descriptors              descriptors, or the values if requested
JSON             ``lance.json``           ``arrow.json`` text
===============  =======================  ===========================================

Filters use the stored form. Blob values are loaded only for the rows that are returned.

**Source:** ``blob_handling`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Self

from lance_core.errors import InvalidInputError
from lance_core.file.blob_values import differing_leaves, with_leaves
from lance_core.scan.output_schema import OutputSchema
from lance_core.schema.blob_fields import bytes_schema, has_blobs, stored_schema
from lance_core.schema.extension_types import storage_array
from lance_core.schema.field import Schema
from lance_core.schema.json_columns import ARROW_JSON, decode_json, shown_json_schema
from lance_core.schema.projection import project_by_ids

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.scan.row_reader import RowReader
    from lance_core.schema.field import Field

__all__ = ["BlobHandling", "ShownColumns", "with_json_text"]


class BlobHandling(Enum):
    """Specifies what a scan returns for blob columns."""

    ALL_BINARY = "all_binary"
    """The values."""

    BLOBS_DESCRIPTIONS = "blobs_descriptions"
    """Descriptors of the values. The default."""

    ALL_DESCRIPTIONS = "all_descriptions"
    """Has the same effect as ``BLOBS_DESCRIPTIONS``, because only blob columns have descriptors."""

    @classmethod
    def parse(cls, name: str | None) -> Self:
        """Return the member with the given name, or the default for None.

        Raises:
            InvalidInputError: no member has this name.
        """
        text = cls.BLOBS_DESCRIPTIONS.value if name is None else name
        found = next((member for member in cls if member.value == text), None)
        if found is None:
            known = ", ".join(sorted(member.value for member in cls))
            raise InvalidInputError(f"Invalid blob_handling: {name!r}. Expected one of: {known}")
        return found


@dataclass(frozen=True, slots=True)
class ShownColumns:
    """The stored form and the public form of a projection.

    Attributes:
        stored: the fields in the form in which fragments are read.
        shown: the fields in the form that is returned to callers.
    """

    stored: Schema
    shown: Schema

    @property
    def loads_blobs(self) -> bool:
        """Whether the values of blobs are returned to callers."""
        blobs = [self.shown.find(leaf.id) for leaf in self.stored.leaves() if leaf.is_blob]
        return any(blob is not None and not blob.is_struct for blob in blobs)

    @classmethod
    def plan(cls, declared: Schema, handling: BlobHandling, *, json_as_text: bool = True) -> Self:
        """Return both forms of a table's schema.

        Args:
            declared: the schema.
            handling: what to return for blob columns.
            json_as_text: whether JSON columns are returned as text; SQL expressions need the stored form.
        """
        stored = stored_schema(declared)
        shown = bytes_schema(declared) if handling is BlobHandling.ALL_BINARY and has_blobs(declared) else stored
        return cls(stored, shown_json_schema(shown) if json_as_text else shown)

    def of(self, shown: Schema) -> ShownColumns:
        """Return both forms of a projection.

        Args:
            shown: the fields of :attr:`shown` to keep, possibly pruned.
        """
        if self.shown is self.stored:
            return ShownColumns(shown, shown)
        ids = {leaf.id for leaf in shown.leaves()}
        by_id = {top.id: top for top in project_by_ids(self.stored, ids).fields}
        return ShownColumns(Schema(fields=tuple(by_id[top.id] for top in shown.fields), metadata=shown.metadata), shown)

    def apply(self, batch: pa.RecordBatch, reader: RowReader) -> pa.RecordBatch:
        """Convert a batch to the form that is returned to callers.

        Args:
            batch: rows of one fragment with the schema of ``stored``; no row occurs twice.
            reader: reader for the fragment.
        """
        if self.shown is self.stored:
            return batch
        arrays = [
            _shown(storage_array(array), before, after, reader)
            for array, before, after in zip(batch.columns, self.stored.fields, self.shown.fields, strict=True)
        ]
        return OutputSchema(self.shown).batch(arrays, batch.num_rows)


def with_json_text(array: pa.Array, stored: Field) -> pa.Array:
    """Return an array with text in place of JSON in binary form; unchanged if there is no JSON.

    Args:
        array: an array of the field.
        stored: the field, possibly with JSON members.
    """
    shown = shown_json_schema(Schema(fields=(stored,)))
    if shown.fields[0] is stored:
        return array
    text = _shown(storage_array(array), stored, shown.fields[0], None)
    return OutputSchema(shown).batch([text], len(text)).column(0)


def _shown(array: pa.Array, stored: Field, shown: Field, reader: RowReader | None) -> pa.Array:
    """Return an array in public form; a reader is needed for the values of blobs."""
    leaves = [
        _json_text(each, leaf)
        if reader is None or leaf.extension_name == ARROW_JSON
        else reader.blobs(each, leaf.id).load()
        for each, leaf in differing_leaves(array, stored, shown)
    ]
    return with_leaves(array, stored, shown, iter(leaves))


def _json_text(stored: pa.Array, leaf: Field) -> pa.Array:
    return decode_json(storage_array(stored), leaf.name)
