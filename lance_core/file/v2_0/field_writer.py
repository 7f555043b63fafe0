"""V20FieldWriter: writes the columns of one top-level field to a file in format 2.0.

The field is written by a tree of column writers; see :mod:`lance_core.file.v2_0.column_writers`. A batch is checked
before any part of it is written.

Source: ``lance.file.v2.ColumnMetadata``; behavior of pylance 14.0.2, which writes the same bytes if the rows are given
as a single batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.encodings.v2_0.packed_struct import is_packable
from lance_core.errors import NotSupportedError, UnsupportedVersionError
from lance_core.file.v2_0.column_writers import BlobWriter, StructWriter, ValueWriter
from lance_core.file.v2_0.list_writer import ListWriter
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from lance_core.file.field_writer import BufferSink, FileInProgress, FinishedColumn
    from lance_core.file.v2_0.column_writers import ColumnWriter
    from lance_core.schema.field import Field

__all__ = ["V20FieldWriter"]


class V20FieldWriter:
    """See ``FieldWriter``.

    Args:
        field: the top-level field.
        file: settings and objects shared by the field writers of the file.

    Raises:
        UnsupportedVersionError: format 2.0 does not support a type.
        InvalidInputError: the encoding metadata is invalid.
    """

    def __init__(self, field: Field, file: FileInProgress) -> None:
        """See the class docstring."""
        self._column = _column_writer(field, file.cache_bytes, file.config.max_page_bytes, field.name)

    @property
    def num_bytes(self) -> int:
        """In-memory size in bytes of the data that has been collected but not yet written."""
        return self._column.num_bytes

    def write_blobs(self, array: pa.Array, sink: BufferSink) -> None:
        """Check the rows of a batch, then write the values that are stored outside the pages.

        Raises:
            UnsupportedVersionError: the rows have nulls that format 2.0 does not support; nothing was written.
        """
        self._column.check(array)
        self._column.write_blobs(array, sink)

    def write(self, array: pa.Array, sink: BufferSink) -> None:
        """Add the rows of a batch and write the pages that are ready."""
        self._column.write(array, sink)

    def flush(self, sink: BufferSink) -> None:
        """Write the collected data."""
        self._column.flush(sink)

    def finish(self, sink: BufferSink) -> list[FinishedColumn]:
        """Return the columns, one per value field, list, and struct, depth first."""
        return list(self._column.finish())


def _column_writer(field: Field, cache_bytes: int, max_page_bytes: int, path: str) -> ColumnWriter:
    dtype = arrow_type(field)
    if field.is_blob:
        if not pa.types.is_large_binary(dtype):
            raise NotSupportedError(
                f"column {path!r} of type {dtype} cannot contain blobs in format 2.0; use large_binary"
            )
        return BlobWriter(field, cache_bytes, max_page_bytes)
    if field.is_packed:
        for member in field.children:
            if not is_packable(arrow_type(member)):
                raise UnsupportedVersionError(
                    f"column {path!r}: format 2.0 cannot store member {member.name!r} of type {arrow_type(member)} in "
                    "a packed struct",
                    column=f"{path}.{member.name}",
                    version="2.0",
                )
        return ValueWriter(field, cache_bytes, max_page_bytes, path)
    if field.is_struct:
        members = [
            _column_writer(child, cache_bytes, max_page_bytes, f"{path}.{child.name}") for child in field.children
        ]
        return StructWriter(field, members, path)
    if field.is_list:
        [item] = field.children
        return ListWriter(field, _column_writer(item, cache_bytes, max_page_bytes, f"{path}.{item.name}"), cache_bytes)
    if field.is_map:
        raise UnsupportedVersionError(f"column {path!r}: maps need data storage version 2.2, found 2.0", column=path)
    if field.is_structural_fixed_size_list:
        raise UnsupportedVersionError(
            f"column {path!r}: fixed-size lists of structs need data storage version 2.2, found 2.0", column=path
        )
    return ValueWriter(field, cache_bytes, max_page_bytes, path)
