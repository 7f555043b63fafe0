"""The ``FileFormat`` of format 2.0; used by :mod:`lance_core.file.families`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_core.file.blob_values import with_blob_bytes
from lance_core.file.file_format import FileFormat
from lance_core.file.metadata_reader import MetadataReader
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.file.field_source import FieldSource
    from lance_core.file.file_bytes import FileBytes
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.file.writer import FileWriter
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema

__all__ = ["FORMAT"]


def _open(tail: FileBytes, _: Sequence[int] | None, page_states: PageCache[Any] | None) -> MetadataReader:
    return MetadataReader(tail, page_states)


def _sources(
    metadata: MetadataReader, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    from lance_core.file.v2_0.assignment import describes_blobs
    from lance_core.file.v2_0.fields import v2_0_sources

    return with_blob_bytes(
        metadata,
        fields,
        lambda stored: v2_0_sources(metadata, stored, column_indices),
        lambda blobs: describes_blobs(metadata, blobs, column_indices),
    )


def _writer(stream: WriteStream, schema: Schema, config: WriteConfig, table: TableContext | None) -> FileWriter:
    from lance_core.file.v2_0.field_writer import V20FieldWriter
    from lance_core.file.writer import FileWriter

    return FileWriter(stream, schema, config, V20FieldWriter, table)


def _describe(metadata: MetadataReader) -> Iterator[str]:
    from lance_core.file.describe_container import container_lines
    from lance_core.file.v2_0.assignment import assigned_columns

    fields = {field.id: field for field in metadata.schema.walk()}
    owners = {column: fields[field_id] for field_id, column in assigned_columns(metadata, None).items()}
    return container_lines(metadata, owners)


FORMAT: Final = FileFormat(
    versions=(LanceFileVersion.V2_0,),
    open=_open,
    sources=_sources,
    writer=_writer,
    describe=_describe,
    columns_of_inner_fields=True,
    requires_every_field=False,
)
