"""Reads the top-level fields of files of version 2.1 and later.

**Source:** ``lance.file.v2.ColumnMetadata``: one column per leaf, depth first; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from lance_core.encodings.page_decoder import assemble
from lance_core.errors import InvalidInputError
from lance_core.file.read_steps import run_steps, together
from lance_core.file.structural.page_plan import PageSegment, leaf_columns, merge_segments, plan_segments
from lance_core.file.structural.page_reading import merge_key, read_page, read_pages_as_one
from lance_core.file.structural.row_split import split_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.leaf_page import LeafPage
    from lance_core.encodings.structural.page_steps import PageState, Rows
    from lance_core.file.field_source import FieldSource, Pace, Segment
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.file.page_cache import PageCache
    from lance_core.file.read_steps import Read, ReadSteps
    from lance_core.file.structural.page_plan import LeafColumn
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["StructuralSource", "structural_sources"]

_MAX_SEGMENT_ROWS: Final = 4 * 1024 * 1024
_MAX_SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Pages with more bytes than this are decoded in several segments."""

_MERGED_BYTES: Final = 2 * 1024 * 1024
"""Neighboring segments with fewer bytes than this are decoded together."""


def structural_sources(
    metadata: MetadataReader, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    """Return the sources of some top-level fields.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned.
        column_indices: maps the field id of every leaf of ``fields`` to its column; None to use the file's own schema.

    Raises:
        InvalidInputError: a leaf has no column.
        CorruptDataError: the metadata of a column is damaged.
        UnsupportedEncodingError: the description of a page is not supported.
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
    metadatas = iter(metadata.columns([index for group in indices for index in group]))
    sources: list[FieldSource] = []
    for top, group in zip(fields, indices, strict=True):
        of_group = list(itertools.islice(metadatas, len(group)))
        columns = leaf_columns(top, group, of_group, metadata.num_rows, metadata.path)
        sources.append(StructuralSource(top, columns, metadata.page_states, is_mapped=metadata.is_mapped))
    return sources


class StructuralSource:
    """A :class:`~lance_core.file.field_source.FieldSource` of a structural file.

    Args:
        field: the field.
        columns: the leaves of the field, depth first.
        states: cached information about pages of the file.
        is_mapped: whether the file is mapped into memory, so that only the accessed bytes of a range are loaded.
    """

    def __init__(
        self, field: Field, columns: Sequence[LeafColumn], states: PageCache[PageState], *, is_mapped: bool
    ) -> None:
        """See the class docstring."""
        self._field = field
        self._columns = columns
        self._states = states
        self._is_mapped = is_mapped
        self._keys: dict[int, list[bytes | None]] = {}

    @property
    def field(self) -> Field:
        """The field that the source reads; its arrays have the type ``arrow_type(field)``."""
        return self._field

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[PageSegment]:
        """Divide rows at the page boundaries of every leaf; split large segments and join small ones."""
        segments = plan_segments(
            self._columns,
            start,
            stop,
            max_rows=_MAX_SEGMENT_ROWS,
            max_bytes=_MAX_SEGMENT_BYTES,
            batch_rows=batch_rows,
        )
        return merge_segments(segments, self._merge_keys, _MERGED_BYTES)

    def memory_of(self, segment: Segment) -> int:
        """Estimate the memory of the decoded rows in bytes."""
        return cast("PageSegment", segment).memory

    def cut(self, segment: Segment, pace: Pace) -> Sequence[PageSegment]:
        """Split a segment into segments of the requested size, each a part of a page or several small pages."""
        pieces = plan_segments(
            self._columns,
            segment.start,
            segment.stop,
            max_rows=_MAX_SEGMENT_ROWS,
            max_bytes=_MAX_SEGMENT_BYTES,
            batch_rows=pace.batch_rows,
            pace=pace,
        )
        in_proportion = segment.num_bytes * pace.max_memory // max(1, self.memory_of(segment))
        return merge_segments(pieces, self._merge_keys, min(_MERGED_BYTES, in_proportion))

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the byte ranges of the buffers in those pages that the segment contains completely."""
        return [
            buffer
            for part in cast("PageSegment", segment).slices
            if part.is_whole
            for page in part.pages
            for buffer in page.buffers
        ]

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment."""
        slices = cast("PageSegment", segment).slices
        pages = [
            self._read_pages(
                part.column,
                range(part.page_index, part.page_index + part.num_pages),
                (part.start, part.stop),
            )
            for part in slices
        ]
        return assemble(self._field, run_steps(together(pages), read))

    def take(self, rows: NDArray[np.int64], read: Read) -> list[pa.Array]:
        """Read individual rows, given in ascending order."""
        return run_steps(self.take_steps(rows), read)

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Like :meth:`take`, but in steps, so that several fields can share requests."""
        if bool((rows[1:] == rows[:-1]).any()):
            distinct, places = np.unique(rows, return_inverse=True)
            arrays = yield from self.take_steps(distinct)
            return [pa.concat_arrays(arrays).take(pa.array(places))]
        readings = []
        for part in split_rows(self._columns, rows, self._merge_keys):
            readings += [
                self._read_pages(column, pages, each) for column, (pages, each) in zip(self._columns, part, strict=True)
            ]
        leaves = yield from together(readings)
        step = len(self._columns)
        return [assemble(self._field, leaves[at : at + step]) for at in range(0, len(leaves), step)]

    def _merge_keys(self, column: LeafColumn) -> list[bytes | None]:
        """Return the merge keys of all pages of a leaf, which are computed only once."""
        if column.index not in self._keys:
            self._keys[column.index] = [merge_key(page) for page in column.pages]
        return self._keys[column.index]

    def _read_pages(self, column: LeafColumn, pages: Sequence[int], rows: Rows) -> ReadSteps[LeafPage]:
        if len(pages) == 1:
            return read_page(column, pages[0], rows, self._states, is_mapped=self._is_mapped)
        return read_pages_as_one(column, pages, rows, self._states, is_mapped=self._is_mapped)
