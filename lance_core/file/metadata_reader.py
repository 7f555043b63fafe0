"""MetadataReader: reads everything except the rows of a data file in format 2.0 or later.

Opening a file takes one read of its end, or two or three reads if the metadata is large. The metadata of a column is
parsed on first use.

**Source:** byte map in :mod:`lance_core.file.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError, InvalidInputError
from lance_core.file.column_metadata import ColumnMetadata
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, parse_global_buffer_table, parse_table
from lance_core.file.layout import FOOTER_BYTES, TABLE_ENTRY_BYTES
from lance_core.file.page_cache import PageCache
from lance_core.io.byte_range import ByteRange
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lance_core.file.file_bytes import FileBytes
    from lance_core.schema.field import Schema
    from lance_core.versions import LanceFileVersion

__all__ = ["MetadataReader"]

_RANGE_BYTES: Final = 120
"""Approximate memory in bytes of the location of a column or global buffer."""

_PARSED: Final = 4
"""Approximate ratio of the size of a column's metadata in memory to the size of the encoded message."""


class MetadataReader:
    """The metadata of one file, read on demand. Safe for concurrent use by several threads.

    Args:
        tail: the open file, which must be in format 2.0 or later.
        page_states: cache for page information found while reading rows; None for a cache used by this file only.

    Attributes:
        path: the file's path in its store.
        num_bytes: size of the file in bytes.
        file_bytes: the open file.
        footer: the parsed footer.
        descriptor: the schema and the number of rows.
        global_buffer_ranges: locations of the global buffers, ordered by index.
        column_ranges: location of each column's metadata.
        page_states: cache for page information found while reading rows; the type of the information depends on the
            version.

    Raises:
        CorruptDataError: the file is not a data file, or is damaged.
        UnsupportedVersionError: the version is not supported.
        NotSupportedError: the schema has a field that this library does not support.
    """

    def __init__(self, tail: FileBytes, page_states: PageCache[Any] | None = None) -> None:
        """See the class docstring."""
        self.path = tail.path
        self.num_bytes = tail.num_bytes
        self.file_bytes = tail
        self._columns: dict[int, ColumnMetadata] = {}
        self.page_states: PageCache[Any] = PageCache() if page_states is None else page_states
        footer_start = max(0, self.num_bytes - FOOTER_BYTES)
        [footer] = self.read([ByteRange(footer_start, self.num_bytes)])
        self.footer = Footer.parse(footer, self.num_bytes, self.path)
        tail.extend(min(self.footer.column_table_offset, self.footer.global_buffer_table_offset))
        self.global_buffer_ranges = self._read_global_buffer_table()
        self.column_ranges = self._read_column_table()
        self.descriptor = FileDescriptor.parse(self.global_buffer(0), self.path, self.footer.num_columns)
        num_leaves = len(self.descriptor.schema.leaves())
        if self.version.is_structural and num_leaves != self.footer.num_columns:
            raise self._corrupt(
                f"the schema has {counted(num_leaves, 'leaf', 'leaves')}, but the file has "
                f"{counted(self.footer.num_columns, 'column')}"
            )

    @property
    def version(self) -> LanceFileVersion:
        """Format version of the file."""
        return self.footer.version

    @property
    def schema(self) -> Schema:
        """The fields stored in the file, with their table-wide ids, and the schema metadata."""
        return self.descriptor.schema

    @property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return self.descriptor.num_rows

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the metadata that has been parsed so far."""
        parsed = sum([self.column_ranges[index].num_bytes for index in list(self._columns)])
        return _RANGE_BYTES * (len(self.column_ranges) + len(self.global_buffer_ranges)) + _PARSED * parsed

    @property
    def is_mapped(self) -> bool:
        """Whether the file is mapped into memory, so that only the accessed bytes of a range are loaded."""
        return self.file_bytes.is_mapped

    def columns(self, indices: Sequence[int]) -> list[ColumnMetadata]:
        """Return the metadata of some columns.

        Raises:
            InvalidInputError: a column does not exist.
            CorruptDataError: the metadata is damaged.
            UnsupportedEncodingError: the description of a page is not supported.
        """
        wrong = [index for index in indices if not 0 <= index < self.footer.num_columns]
        if wrong:
            raise InvalidInputError(
                f"{self.path}: column index {wrong[0]} does not exist; the file has "
                f"{counted(self.footer.num_columns, 'column')}"
            )
        missing = [index for index in indices if index not in self._columns]
        if missing:
            messages = self.read([self.column_ranges[index] for index in missing])
            for index, message in zip(missing, messages, strict=True):
                where = f"{self.path}: column {index}"
                self._columns[index] = ColumnMetadata.parse(message, self.data_stop, where, self.version)
        return [self._columns[index] for index in indices]

    def has_columns(self, indices: Iterable[int]) -> bool:
        """Return whether the metadata of some columns has been read."""
        return all(index in self._columns for index in indices)

    @property
    def metadata_start(self) -> int:
        """Position after the last page of the file; the metadata is between it and the end of the file."""
        footer = self.footer
        return min(footer.column_metadata_offset, footer.column_table_offset, footer.global_buffer_table_offset)

    @property
    def data_stop(self) -> int:
        """End of the region that contains page buffers and global buffers."""
        # spec: the sections of a 2.0 file may be in any order.
        return self.footer.column_metadata_offset if self.version.is_structural else self.num_bytes

    def global_buffer(self, index: int) -> pa.Buffer:
        """Read the content of a global buffer; index 0 is the file descriptor.

        Raises:
            InvalidInputError: the buffer does not exist.
        """
        if not 0 <= index < len(self.global_buffer_ranges):
            raise InvalidInputError(
                f"{self.path}: global buffer {index} does not exist; "
                f"the number of global buffers is {len(self.global_buffer_ranges)}"
            )
        return self.read([self.global_buffer_ranges[index]])[0]

    def check_columns(self, columns: Mapping[int, int]) -> None:
        """Check that the columns listed in a manifest exist.

        Raises:
            CorruptDataError: a column is missing.
        """
        outside = [column for column in columns.values() if column >= self.footer.num_columns]
        if outside:
            raise CorruptDataError(
                f"{self.path}: the manifest lists column index {outside[0]}, but the file has "
                f"{counted(self.footer.num_columns, 'column')}",
                path=self.path,
            )

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the file; this makes no request if the file's tail, which is in memory, contains them."""
        return self.file_bytes.read(ranges)

    def _read_global_buffer_table(self) -> list[ByteRange]:
        start = self.footer.global_buffer_table_offset
        [table] = self.read([ByteRange(start, start + self.footer.num_global_buffers * TABLE_ENTRY_BYTES)])
        return parse_global_buffer_table(table, self.footer, self.path, self.data_stop)

    def _read_column_table(self) -> list[ByteRange]:
        footer = self.footer
        start = footer.column_table_offset
        [table] = self.read([ByteRange(start, start + footer.num_columns * TABLE_ENTRY_BYTES)])
        ranges = parse_table(table, footer.num_columns, self.path, "column metadata")
        if self.version.is_structural:
            self._check_adjacent(ranges)
        elif ranges and max(column.stop for column in ranges) > self.num_bytes:
            raise self._corrupt(
                f"the metadata of a column extends past the end of the file ({counted(self.num_bytes, 'byte')})"
            )
        return ranges

    def _check_adjacent(self, ranges: list[ByteRange]) -> None:
        """Check that the messages exactly fill the space between the data and the column metadata table."""
        position = self.footer.column_metadata_offset
        for index, column in enumerate(ranges):
            if column.start != position:
                raise self._corrupt(f"metadata of column {index} starts at {column.start}; expected {position}")
            position = column.stop
        if position != self.footer.column_table_offset:
            table = self.footer.column_table_offset
            raise self._corrupt(f"column metadata ends at {position}, but the column metadata table starts at {table}")

    def _corrupt(self, reason: str) -> CorruptDataError:
        return CorruptDataError(f"{self.path}: {reason}", path=self.path, section="column metadata table")
