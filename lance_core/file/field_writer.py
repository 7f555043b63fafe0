"""FieldWriter: writes one top-level field as columns of a 2.x data file, for all format versions.

``writer.py`` makes one for every top-level field, of the kind that the file's format has, hands it the arrays of each
batch, and places what it returns in the file's tail. Structural versions (2.1 and later) own a column per leaf, 2.0
also one per struct and list.
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
    """Where page buffers go: the data region of one file."""

    def write_aligned(self, buffer: pa.Buffer) -> ByteRange:
        """Write a buffer and the padding behind it.

        Returns:
            Where the buffer is, padding excluded. An empty buffer takes no space.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedColumn:
    """One column of the file, complete.

    Attributes:
        field_id: the field that owns it.
        metadata: its serialized ``lance.file.v2.ColumnMetadata``.
    """

    field_id: int
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInProgress:
    """What the field writers of one file have in common.

    Attributes:
        config: how the file is written.
        cache_bytes: what a column collects before it writes a page.
        queue: encodes pages; those under way are written before the columns are finished.
        table: the table that the file is written for; None for a file that is written alone.
    """

    config: WriteConfig
    cache_bytes: int
    queue: PageQueue
    table: TableContext | None = None


class FieldWriter(Protocol):
    """The columns of one top-level field. Not safe for use by several threads at once."""

    @property
    def num_bytes(self) -> int:
        """Bytes (in memory) that are collected and not yet written."""

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Write the values of a batch that lie outside the pages; called for every field before :meth:`write` is."""

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Take the rows of a batch; writes the pages that are now due. The array's memory is referenced until then."""

    def flush(self, sink: BufferSink) -> None:
        """Write what is collected; called once for every field before the first :meth:`finish`."""

    def finish(self, sink: BufferSink) -> list[FinishedColumn]:
        """Return the columns of the field, complete, in the order of the file. Called once, after :meth:`flush`."""


class FieldWriters(Protocol):
    """Makes the field writers of one format."""

    def __call__(self, field: Field, file: FileInProgress) -> FieldWriter:
        """Return the writer of a top-level field."""
