"""PageSpans: determines the byte ranges of whole pages without reading the pages.

The page table records only where the offsets of a binary page start, not the bytes before them. These bytes are assumed
to start where the preceding page ends. This guess saves a request and gives the size of the values before any of them
is read; the offsets confirm it when they are read.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import is_variable_width
from lance_core.encodings.v0_1.binary import OFFSET_BYTES
from lance_core.encodings.v0_1.list_offsets import offset_dtype
from lance_core.encodings.v0_1.plain import plain_layout
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from lance_core.file.v0_1.page_table import PageTable
    from lance_core.schema.field import Field, Schema

__all__ = ["PageSpans"]


class PageSpans:
    """The start and end positions of the pages of a file. Safe for concurrent use by several threads.

    Args:
        table: positions and lengths of the pages.
        schema: the fields of the file.
        file_bytes: size of the file in bytes.
    """

    def __init__(self, table: PageTable, schema: Schema, file_bytes: int) -> None:
        """See the class docstring."""
        self._table = table
        self._schema = schema
        self._file_bytes = file_bytes

    def of(self, field: Field) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the starts and ends of the pages of a field and its descendants.

        Both arrays have shape (num_fields, num_batches), where num_fields is the number of fields that have pages.

        The spans are always inside the file, even if the table is damaged; the page reader raises an error for pages
        outside the file.

        Raises:
            CorruptDataError: the page table has no entries for a field.
            NotSupportedError: this format does not support the type.
        """
        spans = [self._spans(node) for node in _with_pages(field)]
        if not spans:
            empty = np.zeros((0, self._table.positions.shape[1]), np.int64)
            return empty, empty
        return np.stack([start for start, _ in spans]), np.stack([stop for _, stop in spans])

    def _spans(self, field: Field) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        positions, stops = self._known(field)
        if not is_variable_width(arrow_type(field)):
            return positions, stops
        before = np.searchsorted(self._ends, positions, side="right") - 1
        return self._ends[np.maximum(before, 0)], stops

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """End positions of all pages of the file, ascending; the first element is 0, the start of the file."""
        ends = [np.zeros(1, np.int64)]
        for top in self._schema.fields:
            for node in _with_pages(top):
                try:
                    ends.append(self._known(node)[1])
                except (CorruptDataError, NotSupportedError):
                    # This field cannot be read; the error is raised when it is read.
                    continue
        return np.sort(np.concatenate(ends))

    def _known(self, field: Field) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the pages, and their ends."""
        positions, lengths = self._table.pages(field.id)
        dtype = arrow_type(field)
        if pa.types.is_null(dtype):
            return positions, positions
        if field.is_list:
            bits = 8 * offset_dtype(dtype).itemsize
        elif is_variable_width(dtype):
            bits = 8 * OFFSET_BYTES
            lengths = lengths + 1
        else:
            bits = plain_layout(dtype.index_type if field.is_dictionary else dtype).bits_per_row
        most = 8 * self._file_bytes // max(1, bits)
        num_bytes = -(-np.minimum(lengths, most) * min(bits, 8 * self._file_bytes) // 8)
        return positions, np.minimum(positions + num_bytes, self._file_bytes)


def _with_pages(field: Field) -> Iterator[Field]:
    return (node for node in field.walk() if not node.is_struct)
