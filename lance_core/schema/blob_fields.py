"""The shapes of a blob column: as declared in a table, as stored in files, as prepared descriptors, and as values.

===========  ==========================================  =====================================================
Generation   Declared in the schema of the table          Stored in data files, and returned by scans
===========  ==========================================  =====================================================
v1           large_binary, ``lance-encoding:blob``        struct of position, size
v2           struct of data, uri, position, size, with    packed struct of kind, position, size, blob_id,
             extension type ``lance.blob.v2``             blob_uri
===========  ==========================================  =====================================================

In both generations, the values are large_binary. The schema in a data file declares v1 blobs as large_binary, and v2
blobs in the stored shape. In that schema, the members of a v2 blob have neither ids nor parents.

Programs that write sidecar files themselves provide the descriptors for v2 columns in a fourth shape, the prepared
shape: a struct of kind, data, uri, blob_id, blob_size, and position, with the extension type of v2. This shape never
occurs in tables or files.

**Source:** files and scans of pylance 14.0.2; its ``BlobDescriptorArrayBuilder``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lance_core.schema.field import BLOB_KEY, EXTENSION_NAME_KEY, PACKED_KEYS, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.schema.field import Schema

__all__ = [
    "bytes_schema",
    "complete_schema",
    "declared_schema",
    "file_schema",
    "has_blobs",
    "is_blob_v1",
    "is_blob_v2",
    "is_described",
    "is_prepared",
    "prepared_field",
    "stored_field",
    "stored_schema",
]

_TRUE: Final = b"true"
_STORED_V1: Final = (
    Field(name="position", logical_type="uint64"),
    Field(name="size", logical_type="uint64"),
)
_STORED_V2: Final = (
    Field(name="kind", logical_type="uint8", nullable=False),
    Field(name="position", logical_type="uint64", nullable=False),
    Field(name="size", logical_type="uint64", nullable=False),
    Field(name="blob_id", logical_type="uint32", nullable=False),
    Field(name="blob_uri", logical_type="string", nullable=False),
)
_DECLARED_V2: Final = (
    Field(name="data", logical_type="large_binary"),
    Field(name="uri", logical_type="string"),
    Field(name="position", logical_type="uint64"),
    Field(name="size", logical_type="uint64"),
)
_PREPARED_V2: Final = (
    Field(name="kind", logical_type="uint8"),
    Field(name="data", logical_type="large_binary"),
    Field(name="uri", logical_type="string"),
    Field(name="blob_id", logical_type="uint32"),
    Field(name="blob_size", logical_type="uint64"),
    Field(name="position", logical_type="uint64"),
)


def has_blobs(schema: Schema) -> bool:
    """Return whether any leaf of the schema is a blob, in any shape."""
    return any(leaf.is_blob for leaf in schema.leaves())


def is_blob_v2(field: Field) -> bool:
    """Return whether a field has the shape in which table schemas declare v2 blobs."""
    return field.is_blob and field.is_struct and not is_described(field) and not is_prepared(field)


def is_blob_v1(field: Field) -> bool:
    """Return whether a field has the shape in which table schemas declare v1 blobs."""
    return field.is_blob and not field.is_struct


def is_described(field: Field) -> bool:
    """Return whether a field has the shape in which data files store the descriptors of v1 or v2 blobs."""
    names = tuple(child.name for child in field.children)
    return field.is_blob and names in (_names(_STORED_V1), _names(_STORED_V2))


def is_prepared(field: Field) -> bool:
    """Return whether a field has the prepared shape, in which programs provide v2 descriptors."""
    members = [(child.name, child.logical_type) for child in field.children]
    return field.is_blob and members == [(child.name, child.logical_type) for child in _PREPARED_V2]


def prepared_field(field: Field) -> Field:
    """Return a v2 field in the prepared shape, with the same id."""
    return field.with_children(_PREPARED_V2)


def declared_schema(schema: Schema) -> Schema:
    """Return the schema that a table needs for rows with this schema: prepared blobs get the declared shape."""
    declared = _schema_mapped(
        schema, lambda field: field.with_children(_DECLARED_V2[:2]) if is_prepared(field) else field
    )
    return schema if declared == schema else declared.with_ids()


def stored_field(field: Field) -> Field:
    """Return the field with all blobs in the stored shape; the blobs keep their ids."""
    return _mapped(field, _stored)


def stored_schema(schema: Schema) -> Schema:
    """Return the schema with all blobs in the stored shape; idempotent."""
    return _schema_mapped(schema, _stored)


def file_schema(schema: Schema) -> Schema:
    """Return the schema to record in a data file: v2 blobs in the stored shape, v1 blobs as declared."""
    return _schema_mapped(schema, lambda field: field if is_blob_v1(field) else _stored(field))


def bytes_schema(schema: Schema) -> Schema:
    """Return the schema with all blobs as large_binary: v1 blobs unchanged, v2 blobs without the extension type."""

    def as_bytes(field: Field) -> Field:
        if is_blob_v1(field):
            return field
        metadata = {key: value for key, value in field.metadata.items() if key != EXTENSION_NAME_KEY}
        return replace(field, logical_type="large_binary", children=(), metadata=metadata, extension_name="")

    return _schema_mapped(schema, as_bytes)


def complete_schema(schema: Schema) -> Schema:
    """Return the schema with all four members in every declared v2 blob; tables may declare only data and uri."""
    return _schema_mapped(schema, lambda field: field.with_children(_DECLARED_V2) if is_blob_v2(field) else field)


def _stored(field: Field) -> Field:
    if is_described(field):
        return field
    if is_blob_v1(field):
        return replace(field, logical_type="struct", children=_STORED_V1)
    metadata = {BLOB_KEY: _TRUE, PACKED_KEYS[0]: _TRUE}
    return replace(field, children=_STORED_V2, metadata=metadata, extension_name="")


def _schema_mapped(schema: Schema, change: Callable[[Field], Field]) -> Schema:
    if not has_blobs(schema):
        return schema
    return replace(schema, fields=tuple(_mapped(top, change) for top in schema.fields))


def _mapped(field: Field, change: Callable[[Field], Field]) -> Field:
    if field.is_blob:
        return change(field)
    if field.is_leaf:
        return field
    children = tuple(_mapped(child, change) for child in field.children)
    return field if children == field.children else replace(field, children=children)


def _names(fields: tuple[Field, ...]) -> tuple[str, ...]:
    return tuple(field.name for field in fields)
