"""The ``FileFormat`` of format 0.1; used by :mod:`lance_core.file.families`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_core.file.blob_values import with_blob_bytes
from lance_core.file.field_source import RowStatistics
from lance_core.file.file_format import FileFormat
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.file.field_source import FieldSource
    from lance_core.file.file_bytes import FileBytes
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.file.v0_1.writer import LegacyFileWriter
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema

__all__ = ["FORMAT"]


def _open(tail: FileBytes, field_ids: Sequence[int] | None, _: PageCache[Any] | None) -> LegacyMetadataReader:
    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader

    return LegacyMetadataReader(tail, field_ids)


def _sources(metadata: LegacyMetadataReader, fields: Sequence[Field], _: Mapping[int, int] | None) -> list[FieldSource]:
    from lance_core.file.v0_1.fields import v0_1_sources

    return with_blob_bytes(metadata, fields, lambda stored: v0_1_sources(metadata, stored))


def _writer(stream: WriteStream, schema: Schema, config: WriteConfig, table: TableContext | None) -> LegacyFileWriter:
    from lance_core.file.v0_1.writer import LegacyFileWriter

    return LegacyFileWriter(stream, schema, config, table)


def _describe(metadata: LegacyMetadataReader) -> Iterator[str]:
    from lance_core.file.v0_1.describe import legacy_lines

    return legacy_lines(metadata)


def _statistics(metadata: LegacyMetadataReader, field_ids: Sequence[int]) -> RowStatistics:
    from lance_core.file.v0_1.statistics import batch_statistics

    return RowStatistics(metadata.batch_offsets, batch_statistics(metadata, field_ids))


FORMAT: Final = FileFormat(
    versions=(LanceFileVersion.V0_1,),
    open=_open,
    sources=_sources,
    writer=_writer,
    describe=_describe,
    columns_of_inner_fields=True,
    requires_every_field=True,
    statistics=_statistics,
)
