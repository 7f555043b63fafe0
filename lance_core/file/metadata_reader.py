"""MetadataReader: everything in a data file that is not rows.

Opening takes one read of the file's tail (two or three when the metadata is larger than that); the metadata of a column
is parsed when it is first asked for.

**Source:** byte map in :mod:`lance_core.file.layout`; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.file.column_metadata import ColumnMetadata
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, parse_global_buffer_table, parse_table
from lance_core.file.layout import FOOTER_BYTES, TAIL_BYTES
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore

__all__ = ["MetadataReader"]


class MetadataReader:
    """The metadata of one file, read as it is needed. Safe for use by several threads.

    Args:
        store: where the file is.
        path: its path in the store.
        num_bytes: its size when known (manifests record it): saves a request.

    Attributes:
        path: the file's path in its store.
        num_bytes: the file's size.
        footer: the parsed footer.
        descriptor: schema and number of rows.
        global_buffer_ranges: where the global buffers are, by index.
        column_ranges: where the metadata of each column is.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError: the file is not a data file, or is damaged.
        UnsupportedVersionError: a version that is not read here.
        NotSupportedError: the schema has a field that is not handled here.
    """

    def __init__(self, store: ObjectStore, path: str, num_bytes: int | None = None) -> None:
        """See the class."""
        self.path = path
        self.num_bytes = store.head(path).num_bytes if num_bytes is None else num_bytes
        self._store = store
        self._columns: dict[int, ColumnMetadata] = {}
        self._fetch_tail(max(0, self.num_bytes - TAIL_BYTES))
        footer_start = max(0, self.num_bytes - FOOTER_BYTES)
        [footer] = self.read([ByteRange(footer_start, self.num_bytes)])
        self.footer = Footer.parse(footer, self.num_bytes, path)
        if self.footer.column_table_offset < self._tail_start:
            self._fetch_tail(self.footer.column_table_offset)
        self.global_buffer_ranges = self._read_global_buffer_table(footer_start)
        self.column_ranges = self._read_column_table()
        self.descriptor = FileDescriptor.parse(self.global_buffer(0), path)
        num_leaves = len(self.descriptor.schema.leaves())
        if num_leaves != self.footer.num_columns:
            raise self._corrupt(f"the schema has {num_leaves} leaves, the file has {self.footer.num_columns} columns")

    def columns(self, indices: Sequence[int]) -> list[ColumnMetadata]:
        """Pages of some columns.

        Raises:
            InvalidInputError: there is no such column.
            CorruptDataError: the metadata is damaged.
            UnsupportedEncodingError: a page is described in a way that is not read here.
        """
        wrong = [index for index in indices if not 0 <= index < self.footer.num_columns]
        if wrong:
            raise InvalidInputError(f"{self.path}: column {wrong[0]} of {self.footer.num_columns} does not exist")
        missing = [index for index in indices if index not in self._columns]
        messages = self.read([self.column_ranges[index] for index in missing])
        for index, message in zip(missing, messages, strict=True):
            self._columns[index] = ColumnMetadata.parse(
                message, self.footer.column_metadata_offset, f"{self.path}: column {index}"
            )
        return [self._columns[index] for index in indices]

    def global_buffer(self, index: int) -> pa.Buffer:
        """Content of a global buffer; index 0 is the file descriptor.

        Raises:
            InvalidInputError: there is no such buffer.
        """
        if not 0 <= index < len(self.global_buffer_ranges):
            raise InvalidInputError(
                f"{self.path}: global buffer {index} does not exist, the file has {len(self.global_buffer_ranges)}"
            )
        return self.read([self.global_buffer_ranges[index]])[0]

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Bytes of the file; no request when the tail that was read on opening has them all."""
        if all(wanted.start >= self._tail_start for wanted in ranges):
            return [self._tail.slice(wanted.start - self._tail_start, wanted.num_bytes) for wanted in ranges]
        return self._store.get_ranges(self.path, ranges)

    def _fetch_tail(self, start: int) -> None:
        self._tail_start = start
        [self._tail] = self._store.get_ranges(self.path, [ByteRange(start, self.num_bytes)])

    def _read_global_buffer_table(self, footer_start: int) -> list[ByteRange]:
        [table] = self.read([ByteRange(self.footer.global_buffer_table_offset, footer_start)])
        return parse_global_buffer_table(table, self.footer, self.path)

    def _read_column_table(self) -> list[ByteRange]:
        footer = self.footer
        [table] = self.read([ByteRange(footer.column_table_offset, footer.global_buffer_table_offset)])
        ranges = parse_table(table, footer.num_columns, self.path, "column metadata")
        position = footer.column_metadata_offset
        for index, column in enumerate(ranges):
            if column.start != position:
                raise self._corrupt(
                    f"metadata of column {index} starts at {column.start}, the one before it ends at {position}"
                )
            position = column.stop
        if position != footer.column_table_offset:
            raise self._corrupt(f"column metadata ends at {position}, its table starts at {footer.column_table_offset}")
        return ranges

    def _corrupt(self, reason: str) -> CorruptDataError:
        return CorruptDataError(f"{self.path}: {reason}", path=self.path, section="column metadata table")
