"""FieldWriter: writes one top-level field to a data file in format 2.0 or later.

For every top-level field, ``writer.py`` creates a field writer of the kind that the file's format requires, passes it
the arrays of each batch, and writes the returned column metadata near the end of the file. Structural formats (2.1 and
later) have one column per leaf; format 2.0 also has one per struct and list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.file.page_queue import PageQueue
    from lance_core.file.table_context import TableContext
    from lance_core.file.write_config import WriteConfig
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["BufferSink", "FieldWriter", "FieldWriters", "FileInProgress", "FinishedColumn"]


class BufferSink(Protocol):
    """Destination of page buffers: the data region of one file."""

    def write_aligned(self, buffer: pa.Buffer) -> ByteRange:
        """Write a buffer, followed by padding.

        Returns:
            The byte range of the buffer in the file, without padding. An empty buffer takes no space.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedColumn:
    """One complete column of a file.

    Attributes:
        field_id: id of the field that owns the column.
        metadata: the serialized ``lance.file.v2.ColumnMetadata`` of the column.
    """

    field_id: int
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInProgress:
    """The settings and objects that the field writers of one file share.

    Attributes:
        config: write settings.
        cache_bytes: number of bytes that a column collects before it writes a page.
        queue: encodes pages; pending pages are written before the columns are finished.
        table: the table that the file is written for; None for a standalone file.
    """

    config: WriteConfig
    cache_bytes: int
    queue: PageQueue
    table: TableContext | None = None


class FieldWriter(Protocol):
    """Writes the columns of one top-level field. Not safe for concurrent use by several threads."""

    @property
    def num_bytes(self) -> int:
        """In-memory size in bytes of the data that has been collected but not yet written."""

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Write those values of a batch that are stored outside the pages.

        This method is called for all fields before :meth:`write` is called for any field.
        """

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Add the rows of a batch and write the pages that are ready.

        The array stays in memory until all its rows are written.
        """

    def flush(self, sink: BufferSink) -> None:
        """Write the collected data; called once for every field before the first :meth:`finish`."""

    def finish(self, sink: BufferSink) -> list[FinishedColumn]:
        """Return the completed columns of the field, in file order. Called once, after :meth:`flush`."""


class FieldWriters(Protocol):
    """Creates the field writers for one format."""

    def __call__(self, field: Field, file: FileInProgress) -> FieldWriter:
        """Return a writer for a top-level field."""
