"""Reading the top-level fields of files of version 2.1 and later.

**Source:** ``lance.file.v2.ColumnMetadata``: one column per leaf, depth first; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from lance_core.encodings.page_decoder import assemble, decode_leaf
from lance_core.errors import InvalidInputError, LanceError
from lance_core.file.page_plan import PageSegment, leaf_columns, plan_segments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.api import LeafPage
    from lance_core.file.field_source import FieldSource, Read, Segment
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.file.page_plan import LeafColumn, PageSlice
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["StructuralSource", "structural_sources"]

_MAX_SEGMENT_ROWS: Final = 4 * 1024 * 1024
_MAX_SEGMENT_BYTES: Final = 32 * 1024 * 1024
"""Larger pages are decoded piece by piece."""

_MAX_TAKE_GAP_ROWS: Final = 16 * 1024
"""Wanted rows that are farther apart than this are decoded separately."""


def structural_sources(
    metadata: MetadataReader, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    """Sources of some top-level fields.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned.
        column_indices: field id → column, for every leaf of ``fields``; None = as the file's own schema says.

    Raises:
        InvalidInputError: a leaf without a column.
        CorruptDataError: the metadata of a column is damaged.
        UnsupportedEncodingError: a page is described in a way that is not read here.
    """
    if column_indices is None:
        column_indices = {leaf.id: index for index, leaf in enumerate(metadata.schema.leaves())}
    indices = []
    for top in fields:
        leaves = top.leaves()
        absent = [leaf for leaf in leaves if leaf.id not in column_indices]
        if absent:
            raise InvalidInputError(
                f"{metadata.path}: field {absent[0].name!r} (id {absent[0].id}) has no column in this file"
            )
        indices.append([column_indices[leaf.id] for leaf in leaves])
    # One request for the metadata of all columns.
    metadata.columns([index for group in indices for index in group])
    return [
        StructuralSource(top, leaf_columns(top, group, metadata.columns(group), metadata.num_rows, metadata.path))
        for top, group in zip(fields, indices, strict=True)
    ]


class StructuralSource:
    """A :class:`~lance_core.file.field_source.FieldSource` of a structural file.

    Args:
        field: the field.
        columns: its leaves, depth first.
    """

    def __init__(self, field: Field, columns: Sequence[LeafColumn]) -> None:
        """See the class."""
        self._field = field
        self._columns = columns

    @property
    def field(self) -> Field:
        """The field; arrays are of ``arrow_type(field)``."""
        return self._field

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[PageSegment]:
        """Cut rows into segments at the page boundaries of every leaf, and large pages into pieces."""
        return plan_segments(
            self._columns,
            start,
            stop,
            max_rows=_MAX_SEGMENT_ROWS,
            max_bytes=_MAX_SEGMENT_BYTES,
            batch_rows=batch_rows,
        )

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """The buffers of all pages of the segment."""
        return [buffer for part in cast("PageSegment", segment).slices for buffer in part.page.buffers]

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """The rows of one segment."""
        slices = cast("PageSegment", segment).slices
        buffers = iter(read(self.first_ranges(segment)))
        leaves = [_decode_slice(part, [next(buffers) for _ in part.page.buffers]) for part in slices]
        return assemble(self._field, leaves)

    def take(self, rows: NDArray[np.int64], read: Read) -> list[pa.Array]:
        """Single rows, ascending."""
        chunks = []
        for near in np.split(rows, np.flatnonzero(np.diff(rows) > _MAX_TAKE_GAP_ROWS) + 1):
            if not len(near):
                continue
            for segment in self.plan(int(near[0]), int(near[-1]) + 1):
                first, last = np.searchsorted(near, [segment.start, segment.stop])
                chunks.append(self.decode(segment, read).take(pa.array(near[first:last] - segment.start)))
        return chunks


def _decode_slice(part: PageSlice, buffers: list[pa.Buffer]) -> LeafPage:
    page = part.page
    try:
        return decode_leaf(part.column.field, page.layout, buffers, page.length, rows=(part.start, part.stop))
    except LanceError as error:
        where = f"{part.column.where}, page {part.page_index}"
        raise type(error)(f"{where}: {error.message}", **error.context) from error
