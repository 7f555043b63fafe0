"""Describes the parts that all files in format 2.0 and later have: global buffers, columns, and pages.

**Source:** byte map in :mod:`lance_core.file.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.describe_messages import describe_message
from lance_core.proto import pb21
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["container_lines"]


def container_lines(metadata: MetadataReader, owners: Mapping[int, Field]) -> Iterator[str]:
    """Yield the lines of the description that follow the schema.

    Args:
        metadata: the metadata of the open file.
        owners: maps each column to the field that owns it.
    """
    yield "global buffers"
    for index, buffer in enumerate(metadata.global_buffer_ranges):
        yield f"  {index} {_range(buffer)}"
    yield "columns"
    for index, column in enumerate(metadata.columns(range(metadata.footer.num_columns))):
        kind = ", blob" if column.is_blob else ""
        owner = _title(owners[index]) if index in owners else "without a field of its own"
        yield f"  {index} {owner}: {counted(len(column.pages), 'page')}{kind}"
        for number, buffer in enumerate(column.buffers):
            yield f"    column buffer {number} {_range(buffer)}"
        yield from _page_lines(column)


def _title(field: Field) -> str:
    return f"field {field.id} {field.name!r}"


def _page_lines(column: ColumnMetadata) -> Iterator[str]:
    for index, page in enumerate(column.pages):
        # Pages of 2.0 do not record the first row.
        first = f" from row {page.first_row}" if isinstance(page.encoding, pb21.PageLayout) else ""
        yield f"    page {index}{first}, length {page.length}: {describe_message(page.encoding)}"
        for number, buffer in enumerate(page.buffers):
            yield f"      buffer {number} {_range(buffer)}"


def _range(buffer: ByteRange) -> str:
    return f"[{buffer.start}, {buffer.stop})"
