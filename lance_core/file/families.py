"""The three families of data files, and the modules that read each; imported when a file of the family is opened.

===================  ===========================================  ==============================
Versions             Metadata                                     Fields
===================  ===========================================  ==============================
0.1                  ``v0_1/metadata_reader.py``                  ``v0_1/fields.py``
2.0                  ``metadata_reader.py``                       ``v2_0/fields.py``
2.1, 2.2             ``metadata_reader.py``                       ``structural/fields.py``
===================  ===========================================  ==============================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from lance_core.file.blob_values import BlobBytesSource
from lance_core.file.metadata_reader import MetadataReader
from lance_core.schema.blob_fields import is_blob_v1, stored_field
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.file.field_source import FieldSource
    from lance_core.file.file_metadata import FileMetadata
    from lance_core.file.tail import FileTail
    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.schema.field import Field

__all__ = ["open_metadata", "open_sources"]


def open_metadata(tail: FileTail, field_ids: Sequence[int] | None) -> FileMetadata:
    """Parse what is needed of a file of any version.

    Args:
        tail: the open file.
        field_ids: ids of the file's fields as the manifest records them; files of version 0.1 need the first of them.

    Raises:
        CorruptDataError: not a data file, or a damaged one.
        UnsupportedVersionError: a version that is not supported.
        NotSupportedError: the schema has a field that is not handled here.
    """
    version = tail.version.require_readable()
    if version is LanceFileVersion.V0_1:
        from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader

        return LegacyMetadataReader(tail, field_ids)
    return MetadataReader(tail)


def open_sources(
    metadata: FileMetadata, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    """Sources of a projection.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned.
        column_indices: field id → column, from the manifest; None = as the file's own schema says.

    Raises:
        InvalidInputError: a field that the file does not have.
        CorruptDataError: metadata is damaged.
        UnsupportedEncodingError: a page is described in a way that is not supported.
    """
    stored = [stored_field(top) if _has_values_outside(metadata, top, column_indices) else top for top in fields]
    sources = _family_sources(metadata, stored, column_indices)
    return [
        source if top is below else BlobBytesSource(source, top, metadata.num_bytes, metadata.path)
        for source, top, below in zip(sources, fields, stored, strict=True)
    ]


def _family_sources(
    metadata: FileMetadata, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    if metadata.version is LanceFileVersion.V0_1:
        from lance_core.file.v0_1.fields import v0_1_sources

        return list(v0_1_sources(cast("LegacyMetadataReader", metadata), fields))
    if metadata.version is LanceFileVersion.V2_0:
        from lance_core.file.v2_0.fields import v2_0_sources

        return list(v2_0_sources(cast("MetadataReader", metadata), fields, column_indices))
    from lance_core.file.structural.fields import structural_sources

    return structural_sources(cast("MetadataReader", metadata), fields, column_indices)


def _has_values_outside(metadata: FileMetadata, field: Field, column_indices: Mapping[int, int] | None) -> bool:
    """Whether bytes are wanted that the pages only describe."""
    blobs = [leaf for leaf in field.leaves() if is_blob_v1(leaf)]
    if not blobs or metadata.version is not LanceFileVersion.V2_0:
        return bool(blobs)
    # Releases before 0.20 do not know blobs and wrote the bytes into pages; the column says which it is.
    container = cast("MetadataReader", metadata)
    assigned = import_module("lance_core.file.v2_0.assignment").assigned_columns(container, column_indices)
    columns = container.columns([assigned[leaf.id] for leaf in blobs if leaf.id in assigned])
    return any(column.is_blob for column in columns)
