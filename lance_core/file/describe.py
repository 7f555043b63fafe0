"""Describes a data file as text, for golden tests and the command line. The same file always produces the same lines.

**Source:** byte maps in :mod:`lance_core.file.layout` and :mod:`lance_core.file.v0_1.layout`; field names of
the protobuf messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.describe_messages import describe_bytes, describe_message
from lance_core.file.families import describe_family
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.file.reader import FileReader
    from lance_core.proto import pb20, pb21
    from lance_core.schema.field import Field, Schema

__all__ = ["describe_fields", "describe_file", "describe_layout"]


def describe_file(reader: FileReader) -> str:
    """Return a description of the whole file, with one fact per line and a final newline.

    Raises:
        CorruptDataError: metadata that is not read when the file is opened is damaged.
        UnsupportedEncodingError: a page has an unknown kind of encoding.
    """
    return "\n".join(_lines(reader)) + "\n"


def describe_layout(layout: pb21.PageLayout | pb20.ArrayEncoding) -> str:
    """Describe the encoding of one page in one line.

    For example ``mini_block(value_compression=flat(bits_per_value=32), layers=[…], …)``, or
    ``nullable(no_nulls=(values=flat(…)))`` for a page in format 2.0.
    """
    return describe_message(layout)


def describe_fields(schema: Schema) -> Iterator[str]:
    """Yield one line per field and per metadata entry, indented by depth."""
    for top in schema.fields:
        yield from _field_lines(top, 1)
    yield from _metadata_lines(schema.metadata, 1)


def _lines(reader: FileReader) -> Iterator[str]:
    metadata = reader.any_metadata
    rows, num_bytes = counted(reader.num_rows, "row"), counted(metadata.num_bytes, "byte")
    yield f"data file in format {reader.version.value}: {rows}, {num_bytes}"
    yield "schema"
    yield from describe_fields(reader.schema)
    yield from describe_family(metadata)


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
