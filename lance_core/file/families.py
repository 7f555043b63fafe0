"""The families of data file formats, and functions that select the family of a file.

=========  ============================  ========================  ======================================
Versions   Metadata                      Fields                    Written by
=========  ============================  ========================  ======================================
0.1        ``v0_1/metadata_reader.py``   ``v0_1/fields.py``        ``v0_1/writer.py``
2.0        ``metadata_reader.py``        ``v2_0/fields.py``        ``writer.py`` with ``v2_0``'s fields
2.1, 2.2   ``metadata_reader.py``        ``structural/fields.py``  ``writer.py`` with ``structural``'s fields
=========  ============================  ========================  ======================================

Only this module selects readers, writers, statistics, and descriptions, and answers questions about the content of the
files of a family. Two groups of modules check properties of a version (``LanceFileVersion.is_legacy``,
``is_structural``) directly. The modules for the container of formats 2.0 and later do so because the container differs
slightly between 2.0 and 2.1. The modules for tables and commits do so because manifests and fragments record files of
format 0.1 differently: without column numbers, with dictionaries, and never beside files of other formats.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.file.structural import format as structural
from lance_core.file.v0_1 import format as v0_1
from lance_core.file.v2_0 import format as v2_0

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance_core.file.data_file_writer import DataFileWriter
    from lance_core.file.field_source import FieldSource, RowStatistics
    from lance_core.file.file_bytes import FileBytes
    from lance_core.file.file_format import FileFormat
    from lance_core.file.file_metadata import FileMetadata
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = [
    "FORMATS",
    "describe_family",
    "has_columns_of_inner_fields",
    "keeps_statistics",
    "open_metadata",
    "open_sources",
    "open_writer",
    "read_statistics",
    "requires_every_field",
]

FORMATS: Final[tuple[FileFormat[Any], ...]] = (v0_1.FORMAT, v2_0.FORMAT, structural.FORMAT)

_BY_VERSION: Final[Mapping[LanceFileVersion, FileFormat[Any]]] = MappingProxyType(
    {version: family for family in FORMATS for version in family.versions}
)


def open_metadata(
    tail: FileBytes, field_ids: Sequence[int] | None, page_states: PageCache[Any] | None = None
) -> FileMetadata:
    """Parse the metadata that is required to open a file of any version.

    Args:
        tail: the open file, with its last bytes already read.
        field_ids: ids of the file's fields as recorded in the manifest; required for files in format 0.1 that do not
            contain the first fields of their table.
        page_states: cache for page information found while reading rows; None for a cache used by this file only.

    Raises:
        CorruptDataError: the file is not a data file, or is damaged.
        UnsupportedVersionError: the version is not supported.
        NotSupportedError: the schema has a field that this library does not support.
    """
    metadata: FileMetadata = _BY_VERSION[tail.version.require_readable()].open(tail, field_ids, page_states)
    return metadata


def open_sources(
    metadata: FileMetadata, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    """Return one source per field of a projection.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned.
        column_indices: maps field ids to columns, as recorded in the manifest; None to use the file's own schema.

    Raises:
        InvalidInputError: one of the fields is not in the file.
        CorruptDataError: metadata is damaged.
        UnsupportedEncodingError: the description of a page is not supported.
    """
    return _BY_VERSION[metadata.version].sources(metadata, fields, column_indices)


def has_columns_of_inner_fields(version: LanceFileVersion) -> bool:
    """Return whether, in files of a version, fields with children have columns besides those of their leaves."""
    return _BY_VERSION[version].columns_of_inner_fields


def requires_every_field(version: LanceFileVersion) -> bool:
    """Return whether files of a version must contain every field of their table."""
    return _BY_VERSION[version].requires_every_field


def keeps_statistics(version: LanceFileVersion) -> bool:
    """Return whether files of a version contain statistics about ranges of their rows."""
    family = _BY_VERSION.get(version)
    return family is not None and family.statistics is not None


def read_statistics(metadata: FileMetadata, field_ids: Sequence[int]) -> RowStatistics | None:
    """Return the statistics of some fields of a file; None if files of its family have no statistics.

    Raises:
        CorruptDataError: the statistics are damaged.
    """
    statistics = _BY_VERSION[metadata.version].statistics
    return None if statistics is None else statistics(metadata, field_ids)


def open_writer(
    stream: WriteStream, schema: Schema, config: WriteConfig, table: TableContext | None = None
) -> DataFileWriter:
    """Return a writer for a data file of any version.

    Args:
        stream: output stream; aborted if the file cannot be written.
        schema: the fields of the file, with their table-wide ids.
        config: write settings.
        table: the table that the file is written for; None for a standalone file.

    Raises:
        UnsupportedVersionError: this library cannot write the version, or the version does not support a type.
        NotSupportedError: a type in the schema cannot be stored.
    """
    try:
        return _BY_VERSION[config.version.require_writable()].writer(stream, schema, config, table)
    except BaseException:
        stream.abort()
        raise


def describe_family(metadata: FileMetadata) -> Iterator[str]:
    """Return the lines that are specific to the file's family; see :mod:`lance_core.file.describe`."""
    return _BY_VERSION[metadata.version].describe(metadata)
