"""A data file as text: the same file always gives the same lines, for golden tests and the command line.

**Source:** byte map in :mod:`lance_core.file.layout`; names of the messages' own fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.message import Message

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.reader import FileReader
    from lance_core.io.byte_range import ByteRange
    from lance_core.proto import pb21
    from lance_core.schema.field import Field

__all__ = ["describe_file", "describe_layout"]

_MAX_TEXT_BYTES: Final = 40
_ENUM_PREFIX: Final = {"RepDefLayer": "REPDEF_", "CompressionScheme": "COMPRESSION_ALGORITHM_"}


def describe_file(reader: FileReader) -> str:
    """The whole file, one fact per line, ending with a newline."""
    return "\n".join(_lines(reader)) + "\n"


def describe_layout(layout: pb21.PageLayout) -> str:
    """One page layout on one line: ``mini_block(value_compression=flat(bits_per_value=32), layers=[…], …)``."""
    return _message(layout)


def _lines(reader: FileReader) -> Iterator[str]:
    metadata = reader.metadata
    yield f"data file {reader.version.value}, {reader.num_rows} rows, {metadata.num_bytes} bytes"
    yield "schema"
    for top in reader.schema.fields:
        yield from _field_lines(top, 1)
    yield from _metadata_lines(reader.schema.metadata, 1)
    yield "global buffers"
    for index, buffer in enumerate(metadata.global_buffer_ranges):
        yield f"  {index} {_range(buffer)}"
    yield "columns"
    for index, (leaf, column) in enumerate(zip(reader.schema.leaves(), reader.column_metadatas, strict=True)):
        yield f"  {index} field {leaf.id} {leaf.name!r}: {len(column.pages)} pages"
        yield from _page_lines(column)


def _field_lines(field: Field, depth: int) -> Iterator[str]:
    indent = "  " * depth
    nullable = "" if field.nullable else " not null"
    yield f"{indent}{field.id} {field.name!r}: {field.logical_type}{nullable}"
    yield from _metadata_lines(field.metadata, depth + 1)
    for child in field.children:
        yield from _field_lines(child, depth + 1)


def _metadata_lines(metadata: Mapping[str, bytes], depth: int) -> Iterator[str]:
    for key in sorted(metadata):
        yield f"{'  ' * depth}metadata {key!r} = {_bytes(metadata[key])}"


def _page_lines(column: ColumnMetadata) -> Iterator[str]:
    for index, page in enumerate(column.pages):
        yield f"    page {index} from row {page.first_row}, length {page.length}: {describe_layout(page.layout)}"
        for number, buffer in enumerate(page.buffers):
            yield f"      buffer {number} {_range(buffer)}"


def _range(buffer: ByteRange) -> str:
    return f"[{buffer.start}, {buffer.stop})"


def _message(message: Message) -> str:
    """``name=value`` of every field that is set; a message that is only a choice shows what was chosen."""
    descriptor = message.DESCRIPTOR
    if len(descriptor.oneofs) == 1 and len(descriptor.oneofs[0].fields) == len(descriptor.fields) > 1:
        arm = message.WhichOneof(descriptor.oneofs[0].name)
        if arm is None:
            return "unset"
        return f"{arm}({_members(getattr(message, arm))})"
    return f"({_members(message)})"


def _members(message: Message) -> str:
    # ListFields() goes by field number.
    return ", ".join(f"{field.name}={_values(field, value)}" for field, value in message.ListFields())


def _values(field: FieldDescriptor, value: object) -> str:
    if isinstance(value, int | bytes | bool | str | float) or hasattr(value, "DESCRIPTOR"):
        return _value(field, value)
    return "[" + ", ".join(_value(field, item) for item in value) + "]"  # type: ignore[attr-defined]  # repeated field


def _value(field: FieldDescriptor, value: object) -> str:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return _message(value)  # type: ignore[arg-type]  # the descriptor says what it is
    if field.enum_type is not None and isinstance(value, int):
        known = field.enum_type.values_by_number.get(value)
        name = str(value) if known is None else known.name
        return name.removeprefix(_ENUM_PREFIX.get(field.enum_type.name, "")).lower()
    if isinstance(value, bytes):
        return _bytes(value)
    return str(value)


def _bytes(value: bytes) -> str:
    return repr(value)[1:] if len(value) <= _MAX_TEXT_BYTES else f"<{len(value)} bytes>"
