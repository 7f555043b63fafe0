"""The metadata of a data file, in the classes of pylance's ``lance.file``.

**Source:** behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.file.describe import describe_layout
from lance_core.schema.convert import schema_to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.file.reader import FileReader

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileStatistics",
    "LancePageMetadata",
    "file_metadata",
    "file_statistics",
]


@dataclass(frozen=True, slots=True)
class LanceBufferDescriptor:
    """Position and size of a buffer in the file, in bytes."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """The buffers of one page and a description of its layout."""

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """The pages of one column, and its column buffers, which exist only in blob columns in format 2.0."""

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """The metadata of a file.

    Attributes:
        schema: Arrow schema of the file.
        num_rows: number of rows in the file.
        num_data_bytes: size of everything before the column metadata in bytes, excluding global buffers.
        num_column_metadata_bytes: total size of the column metadata messages and their table in bytes.
        num_global_buffer_bytes: total size of the global buffers in bytes.
        global_buffers: locations of the global buffers, ordered by index.
        columns: the pages of every column.
        major_version: major version recorded in the footer.
        minor_version: minor version recorded in the footer.
    """

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    major_version: int
    minor_version: int


@dataclass(frozen=True, slots=True)
class LanceColumnStatistics:
    """Size of one column: number of pages, and total size of their buffers in bytes."""

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LanceFileStatistics:
    """Sizes of all columns."""

    columns: list[LanceColumnStatistics]


def file_metadata(reader: FileReader) -> LanceFileMetadata:
    """Return all metadata of a file.

    Raises:
        NotSupportedError: the file is in format 0.1, which has neither columns nor global buffers.
    """
    file = reader.metadata
    buffers = [LanceBufferDescriptor(buffer.start, buffer.num_bytes) for buffer in file.global_buffer_ranges]
    columns = []
    for column in reader.column_metadatas:
        pages = [
            LancePageMetadata(
                [LanceBufferDescriptor(buffer.start, buffer.num_bytes) for buffer in page.buffers],
                describe_layout(page.encoding),
            )
            for page in column.pages
        ]
        column_buffers = [LanceBufferDescriptor(buffer.start, buffer.num_bytes) for buffer in column.buffers]
        columns.append(LanceColumnMetadata(column_buffers, pages))
    major, minor = reader.version.footer_pair
    global_bytes = sum(buffer.size for buffer in buffers)
    return LanceFileMetadata(
        schema=schema_to_arrow(reader.schema),
        num_rows=reader.num_rows,
        num_data_bytes=file.footer.column_metadata_offset - global_bytes,
        num_column_metadata_bytes=file.footer.global_buffer_table_offset - file.footer.column_metadata_offset,
        num_global_buffer_bytes=global_bytes,
        global_buffers=buffers,
        columns=columns,
        major_version=major,
        minor_version=minor,
    )


def file_statistics(reader: FileReader) -> LanceFileStatistics:
    """Return the sizes of the columns.

    Raises:
        NotSupportedError: the file is in format 0.1, which has no columns.
    """
    return LanceFileStatistics(
        [
            LanceColumnStatistics(len(column.pages), sum(page.num_bytes for page in column.pages))
            for column in reader.column_metadatas
        ]
    )
