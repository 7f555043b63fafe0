"""A data file as text: the same file always gives the same lines, for golden tests and the command line.

**Source:** byte maps in :mod:`lance_core.file.layout` and :mod:`lance_core.file.v0_1.layout`; names of the messages'
own fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.describe_messages import describe_bytes, describe_message
from lance_core.file.metadata_reader import MetadataReader
from lance_core.file.v2_0.assignment import assigned_columns
from lance_core.proto import pb21
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.reader import FileReader
    from lance_core.io.byte_range import ByteRange
    from lance_core.proto import pb20
    from lance_core.schema.field import Field, Schema

__all__ = ["describe_fields", "describe_file", "describe_layout"]


def describe_file(reader: FileReader) -> str:
    """The whole file, one fact per line, ending with a newline.

    Raises:
        CorruptDataError: metadata that only this looks at is damaged.
        UnsupportedEncodingError: a page is described in a way that is not known here.
    """
    return "\n".join(_lines(reader)) + "\n"


def describe_layout(layout: pb21.PageLayout | pb20.ArrayEncoding) -> str:
    """How one page is encoded, on one line.

    ``mini_block(value_compression=flat(bits_per_value=32), layers=[…], …)``, or for a page of format 2.0
    ``nullable(no_nulls=(values=flat(…)))``.
    """
    return describe_message(layout)


def describe_fields(schema: Schema) -> Iterator[str]:
    """A line per field and per entry of metadata, indented by their depth."""
    for top in schema.fields:
        yield from _field_lines(top, 1)
    yield from _metadata_lines(schema.metadata, 1)


def _lines(reader: FileReader) -> Iterator[str]:
    metadata = reader.any_metadata
    yield f"data file {reader.version.value}, {reader.num_rows} rows, {metadata.num_bytes} bytes"
    yield "schema"
    yield from describe_fields(reader.schema)
    if isinstance(metadata, MetadataReader):
        yield from _container_lines(metadata)
    else:
        from lance_core.file.v0_1.describe import legacy_lines  # a family is imported when a file of it is there

        yield from legacy_lines(metadata)


def _field_lines(field: Field, depth: int) -> Iterator[str]:
    indent = "  " * depth
    nullable = "" if field.nullable else " not null"
    yield f"{indent}{field.id} {field.name!r}: {field.logical_type}{nullable}"
    yield from _metadata_lines(field.metadata, depth + 1)
    for child in field.children:
        yield from _field_lines(child, depth + 1)


def _metadata_lines(metadata: Mapping[str, bytes], depth: int) -> Iterator[str]:
    for key in sorted(metadata):
        yield f"{'  ' * depth}metadata {key!r} = {describe_bytes(metadata[key])}"


def _container_lines(metadata: MetadataReader) -> Iterator[str]:
    """What 2.0 and later files have in common."""
    yield "global buffers"
    for index, buffer in enumerate(metadata.global_buffer_ranges):
        yield f"  {index} {_range(buffer)}"
    yield "columns"
    owners = _owners(metadata)
    for index, column in enumerate(metadata.columns(range(metadata.footer.num_columns))):
        kind = ", blob" if column.is_blob else ""
        yield f"  {index} {owners.get(index, 'without a field of its own')}: {len(column.pages)} pages{kind}"
        for number, buffer in enumerate(column.buffers):
            yield f"    column buffer {number} {_range(buffer)}"
        yield from _page_lines(column)


def _owners(metadata: MetadataReader) -> dict[int, str]:
    """What to call each column: by the leaves of a structural file, by the walk of a 2.0 file."""
    if metadata.version is LanceFileVersion.V2_0:
        fields = {field.id: field for top in metadata.schema.fields for field in top.walk()}
        assigned = assigned_columns(metadata, None)
        return {column: _title(fields[field_id]) for field_id, column in assigned.items()}
    return {column: _title(leaf) for column, leaf in enumerate(metadata.schema.leaves())}


def _title(field: Field) -> str:
    return f"field {field.id} {field.name!r}"


def _page_lines(column: ColumnMetadata) -> Iterator[str]:
    for index, page in enumerate(column.pages):
        # Pages of 2.0 do not record it.
        first = f" from row {page.first_row}" if isinstance(page.encoding, pb21.PageLayout) else ""
        yield f"    page {index}{first}, length {page.length}: {describe_layout(page.encoding)}"
        for number, buffer in enumerate(page.buffers):
            yield f"      buffer {number} {_range(buffer)}"


def _range(buffer: ByteRange) -> str:
    return f"[{buffer.start}, {buffer.stop})"
