"""FileFormat: one family of data files, represented by the functions that open, read, write and describe its files.

:mod:`lance_core.file.families` is the table of all families. A family's functions import its modules when they are
first called, so that reading files of one family does not load the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lance_core.file.file_metadata import FileMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance_core.file.data_file_writer import DataFileWriter
    from lance_core.file.field_source import FieldSource, RowStatistics
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.tail import FileTail
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileFormat"]

M = TypeVar("M", bound=FileMetadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat(Generic[M]):
    """One family of data files; ``M`` is its type of metadata of an open file.

    Attributes:
        versions: the versions of the family.
        open: (the open file, ids of its fields as recorded in the manifest or None, cache for page information or None)
            → its metadata.
        sources: (metadata, top-level fields, field id → column or None for the file's own) → one source per field.
        writer: (stream, schema, config, the table or None) → the writer of a file.
        describe: metadata → the lines of a file description that are specific to this family.
        statistics: (metadata, field ids) → their recorded statistics; None if files keep no statistics.
    """

    versions: tuple[LanceFileVersion, ...]
    open: Callable[[FileTail, Sequence[int] | None, PageCache[Any] | None], M]
    sources: Callable[[M, Sequence[Field], Mapping[int, int] | None], list[FieldSource]]
    writer: Callable[[WriteStream, Schema, WriteConfig, TableContext | None], DataFileWriter]
    describe: Callable[[M], Iterator[str]]
    statistics: Callable[[M, Sequence[int]], RowStatistics] | None = None
