"""FileFormat: the functions that open, read, write, and describe the data files of one family of format versions.

:mod:`lance_core.file.families` contains all families. A family's modules are imported when one of its functions is
first called, so that reading files of one family does not load the modules of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lance_core.file.file_metadata import FileMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance_core.file.data_file_writer import DataFileWriter
    from lance_core.file.field_source import FieldSource, RowStatistics
    from lance_core.file.file_bytes import FileBytes
    from lance_core.file.page_cache import PageCache
    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.object_store import WriteStream
    from lance_core.schema.field import Field, Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["FileFormat"]

M = TypeVar("M", bound=FileMetadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat(Generic[M]):
    """One family of data file formats; ``M`` is the type of its file metadata.

    Attributes:
        versions: format versions that belong to the family.
        open: returns the metadata of an open file. The second argument is the ids of the file's fields as recorded in
            the manifest, and the third a cache for page information; either may be None.
        sources: returns one source for each top-level field; the last argument maps field ids to columns, or is None to
            use the file's own schema.
        writer: returns a writer for a file; the last argument is None for a standalone file.
        describe: yields the lines of a file description that are specific to this family.
        columns_of_inner_fields: whether fields with children have columns of their own, besides those of their leaves.
        requires_every_field: whether a file must contain every field of its table, because a missing column cannot be
            distinguished from damage.
        statistics: returns the recorded statistics of the fields with the given ids; None if files of this family have
            no statistics.
    """

    versions: tuple[LanceFileVersion, ...]
    open: Callable[[FileBytes, Sequence[int] | None, PageCache[Any] | None], M]
    sources: Callable[[M, Sequence[Field], Mapping[int, int] | None], list[FieldSource]]
    writer: Callable[[WriteStream, Schema, WriteConfig, TableContext | None], DataFileWriter]
    describe: Callable[[M], Iterator[str]]
    columns_of_inner_fields: bool
    requires_every_field: bool
    statistics: Callable[[M, Sequence[int]], RowStatistics] | None = None
