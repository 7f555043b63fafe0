"""Global buffers: byte strings that belong to the file as a whole. A table before the footer records their locations.

Buffer 0 contains the ``FileDescriptor`` message; the content of all other buffers is up to the writer.

**Source:** ``lance.file.FileDescriptor``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.buffers.alignment import BUFFER_ALIGNMENT
from lance_core.errors import CorruptDataError
from lance_core.file.layout import MAX_ROWS, TABLE_ENTRY_BYTES
from lance_core.file.map_entries import serialized
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb_file
from lance_core.schema.convert import schema_from_proto, schema_to_proto
from lance_core.schema.field import UNASSIGNED_ID
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from lance_core.file.footer import Footer
    from lance_core.schema.field import Schema

__all__ = ["FileDescriptor", "parse_global_buffer_table", "parse_table", "serialize_table"]

_ENTRY: Final = struct.Struct("<QQ")
_POSITION_BITS: Final = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDescriptor:
    """Content of global buffer 0.

    Attributes:
        schema: the fields stored in the file, with their table-wide ids.
        num_rows: number of rows in the file.
    """

    schema: Schema
    num_rows: int

    @classmethod
    def parse(cls, data: pa.Buffer | bytes, path: str, num_columns: int | None = None) -> Self:
        """Parse the message.

        Args:
            data: the bytes of the message.
            path: path of the file, for messages.
            num_columns: number of columns in the file, checked before the fields are parsed; None if unknown.

        Raises:
            CorruptDataError: the bytes are malformed, the fields do not form a tree, the schema has too many leaves,
                or the number of rows is too large.
            NotSupportedError: the schema has a field that this library does not support.
        """
        try:
            message = pb_file.FileDescriptor.FromString(bytes(data))
        except DecodeError as error:
            raise _corrupt(path, f"global buffer 0 is not a FileDescriptor: {error}") from error
        if message.length > MAX_ROWS:
            raise _corrupt(path, f"the file records {counted(message.length, 'row')}; expected at most {MAX_ROWS}")
        if num_columns is not None and len(message.schema.fields) > num_columns:
            num_leaves = _num_leaves(message.schema.fields)
            if num_leaves > num_columns:
                raise _corrupt(
                    path,
                    f"the schema has {counted(num_leaves, 'leaf', 'leaves')}, but the file has "
                    f"{counted(num_columns, 'column')}",
                )
        return cls(schema=_parsed_schema(message.schema.SerializeToString()), num_rows=message.length)

    def serialize(self, *, marks_dictionaries: bool = False) -> bytes:
        """Return the serialized message.

        Args:
            marks_dictionaries: whether dictionary fields get an empty ``dictionary`` message, as in files that belong
                to a table.
        """
        message = pb_file.FileDescriptor(schema=schema_to_proto(self.schema), length=self.num_rows)
        if marks_dictionaries:
            for field in message.schema.fields:
                if field.logical_type.startswith("dict:"):
                    field.dictionary.SetInParent()
        return serialized(message)


def parse_global_buffer_table(data: pa.Buffer, footer: Footer, path: str, data_stop: int) -> list[ByteRange]:
    """Parse the table of global buffers and return their ranges, ordered by index.

    Args:
        data: the bytes of the table.
        footer: footer of the file.
        path: path of the file, for messages.
        data_stop: end of the region that may contain buffers.

    Raises:
        CorruptDataError: a buffer ends after ``data_stop`` or, in format 2.1 and later, is not aligned.
    """
    ranges = parse_table(data, footer.num_global_buffers, path, "global buffer")
    for index, buffer in enumerate(ranges):
        if buffer.stop > data_stop:
            raise _corrupt(
                path,
                f"global buffer {index} is at [{buffer.start}, {buffer.stop}), but the data ends at {data_stop}",
            )
        if footer.version.is_structural and buffer.start % BUFFER_ALIGNMENT:
            raise _corrupt(
                path, f"global buffer {index} starts at {buffer.start}, not at a multiple of {BUFFER_ALIGNMENT}"
            )
    return ranges


def parse_table(data: pa.Buffer, num_entries: int, path: str, what: str) -> list[ByteRange]:
    """Parse the (position, size) pairs in the column metadata table or the global buffer table.

    Raises:
        CorruptDataError: the number of bytes does not match ``num_entries``, or a position or size is too large.
    """
    if len(data) != num_entries * TABLE_ENTRY_BYTES:
        raise _corrupt(
            path,
            f"the {what} table has {counted(len(data), 'byte')}, expected {num_entries * TABLE_ENTRY_BYTES} for "
            f"{counted(num_entries, 'entry', 'entries')}",
        )
    pairs = list(_ENTRY.iter_unpack(data))
    if any((start | size) >> _POSITION_BITS for start, size in pairs):
        raise _corrupt(path, f"an entry of the {what} table has a position or size of at least 2^{_POSITION_BITS}")
    return [ByteRange(start, start + size) for start, size in pairs]


def serialize_table(ranges: Sequence[ByteRange]) -> bytes:
    """Serialize the column metadata table or the global buffer table."""
    return np.array([(r.start, r.num_bytes) for r in ranges], "<u8").tobytes()


def _num_leaves(fields: Iterable[pb_file.Field]) -> int:
    """Count the fields that own a column in every format: fields without members, except inside packed fields."""
    parents: set[int] = set()
    leaves: set[int] = set()
    packed: set[int] = set()
    for field in fields:
        if field.id == UNASSIGNED_ID:
            continue
        if field.parent_id in packed:
            packed.add(field.id)
            continue
        parents.add(field.parent_id)
        leaves.add(field.id)
        if field.logical_type == "struct" and (field.metadata or field.extension_name):
            # Packed or a blob: in either case it owns at least one column.
            packed.add(field.id)
    return len(leaves - parents)


@lru_cache(maxsize=64)
def _parsed_schema(data: bytes) -> Schema:
    # The files of a table usually have the same schema.
    return schema_from_proto(pb_file.Schema.FromString(data))


def _corrupt(path: str, reason: str) -> CorruptDataError:
    return CorruptDataError(f"{path}: {reason}", path=path, section="global buffers")
