"""FileFormat: one family of data files, as the functions that open, read, write and describe its files.

:mod:`lance_core.file.families` is the table of them. A family's functions import its modules when they are first
called: who reads files of one family does not pay for the others.
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
    """One family of data files; ``M`` is what it knows of an open file.

    Attributes:
        versions: the versions that belong to it.
        open: (the open file, ids of its fields as the manifest records them or None, where to keep what is known of its
            pages or None) → its metadata.
        sources: (metadata, top-level fields, field id → column or None for the file's own) → a source for each field.
        writer: (stream, schema, config, the table or None) → the writer of a file.
        describe: metadata → the lines about the file that only this family has.
        statistics: (metadata, field ids) → what is recorded of their values; None = files keep no statistics.
    """

    versions: tuple[LanceFileVersion, ...]
    open: Callable[[FileTail, Sequence[int] | None, PageCache[Any] | None], M]
    sources: Callable[[M, Sequence[Field], Mapping[int, int] | None], list[FieldSource]]
    writer: Callable[[WriteStream, Schema, WriteConfig, TableContext | None], DataFileWriter]
    describe: Callable[[M], Iterator[str]]
    statistics: Callable[[M, Sequence[int]], RowStatistics] | None = None
