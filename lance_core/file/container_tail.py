"""The end of a 2.x data file: everything after the page buffers and global buffers, as one byte string.

**Source:** the byte map in :mod:`lance_core.file.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.footer import Footer
from lance_core.file.global_buffers import serialize_table
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.versions import LanceFileVersion

__all__ = ["container_tail"]


def container_tail(
    start: int,
    descriptor: bytes,
    metadata: Sequence[bytes],
    global_buffers: Sequence[ByteRange],
    version: LanceFileVersion,
) -> bytes:
    """Serialize the descriptor, the column metadata, both tables and the footer.

    Args:
        start: position of the first byte.
        descriptor: the file's own descriptor, global buffer 0.
        metadata: the serialized metadata of every column.
        global_buffers: locations of the remaining global buffers.
        version: format version of the file.
    """
    metadata_start = start + len(descriptor)
    columns = list(_back_to_back(metadata_start, metadata))
    column_table_start = columns[-1].stop if columns else metadata_start
    column_table = serialize_table(columns)
    buffer_table = serialize_table([ByteRange(start, metadata_start), *global_buffers])
    footer = Footer(
        column_metadata_offset=metadata_start,
        column_table_offset=column_table_start,
        global_buffer_table_offset=column_table_start + len(column_table),
        num_global_buffers=1 + len(global_buffers),
        num_columns=len(columns),
        version=version,
    )
    return b"".join([descriptor, *metadata, column_table, buffer_table, footer.serialize()])


def _back_to_back(start: int, parts: Sequence[bytes]) -> Iterator[ByteRange]:
    for part in parts:
        yield ByteRange(start, start + len(part))
        start += len(part)
