"""The families of data files: a table, and the functions that look a file's family up in it.

=========  ============================  ========================  ======================================
Versions   Metadata                      Fields                    Written by
=========  ============================  ========================  ======================================
0.1        ``v0_1/metadata_reader.py``   ``v0_1/fields.py``        ``v0_1/writer.py``
2.0        ``metadata_reader.py``        ``v2_0/fields.py``        ``writer.py`` with ``v2_0``'s fields
2.1, 2.2   ``metadata_reader.py``        ``structural/fields.py``  ``writer.py`` with ``structural``'s fields
=========  ============================  ========================  ======================================

No other module asks which family a file is of.
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
    from lance_core.file.file_format import FileFormat
    from lance_core.file.file_metadata import FileMetadata
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.tail import FileTail
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = [
    "FORMATS",
    "describe_family",
    "keeps_statistics",
    "open_metadata",
    "open_sources",
    "open_writer",
    "read_statistics",
]

FORMATS: Final[tuple[FileFormat[Any], ...]] = (v0_1.FORMAT, v2_0.FORMAT, structural.FORMAT)

_BY_VERSION: Final[Mapping[LanceFileVersion, FileFormat[Any]]] = MappingProxyType(
    {version: family for family in FORMATS for version in family.versions}
)


def open_metadata(
    tail: FileTail, field_ids: Sequence[int] | None, page_states: PageCache[Any] | None = None
) -> FileMetadata:
    """Parse what is needed of a file of any version.

    Args:
        tail: the open file.
        field_ids: ids of the file's fields as the manifest records them; files of version 0.1 need the first of them.
        page_states: where it is kept what reading rows tells about pages; None for a place of the file's own.

    Raises:
        CorruptDataError: not a data file, or a damaged one.
        UnsupportedVersionError: a version that is not supported.
        NotSupportedError: the schema has a field that is not handled here.
    """
    metadata: FileMetadata = _BY_VERSION[tail.version.require_readable()].open(tail, field_ids, page_states)
    return metadata


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
    return _BY_VERSION[metadata.version].sources(metadata, fields, column_indices)


def keeps_statistics(version: LanceFileVersion) -> bool:
    """Whether files of a version say which values stretches of their rows have."""
    family = _BY_VERSION.get(version)
    return family is not None and family.statistics is not None


def read_statistics(metadata: FileMetadata, field_ids: Sequence[int]) -> RowStatistics | None:
    """What a file says of the values of some fields; None where its family keeps no statistics.

    Raises:
        CorruptDataError: the statistics are damaged.
    """
    statistics = _BY_VERSION[metadata.version].statistics
    return None if statistics is None else statistics(metadata, field_ids)


def open_writer(
    stream: WriteStream, schema: Schema, config: WriteConfig, table: TableContext | None = None
) -> DataFileWriter:
    """The writer of a data file of any version.

    Args:
        stream: where the bytes go; aborted when the file cannot be written.
        schema: the fields of the file, with their table-wide ids.
        config: how the file is written.
        table: the table that the file is written for; None for a file that is written alone.

    Raises:
        UnsupportedVersionError: the version is not written here, or cannot hold a type of the schema.
        NotSupportedError: the schema has a type that the version cannot hold.
    """
    try:
        return _BY_VERSION[config.version.require_writable()].writer(stream, schema, config, table)
    except BaseException:
        stream.abort()
        raise


def describe_family(metadata: FileMetadata) -> Iterator[str]:
    """The lines about a file that only its family has; see :mod:`lance_core.file.describe`."""
    return _BY_VERSION[metadata.version].describe(metadata)
