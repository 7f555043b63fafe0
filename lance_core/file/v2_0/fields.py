"""Reads the fields of a file in format 2.0.

The rows of a field are divided into segments at the page boundaries of its columns, ignoring columns that contain list
items. A segment therefore needs only one page of each of the other columns and can usually be decoded without a copy.
Large segments are split further. To decode individual rows, only the required bytes are read.

Source: ``lance.file.v2.ColumnMetadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import bits_per_row, is_variable_width
from lance_core.encodings.v2_0.registry import is_packed, selected_arm
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, LanceError
from lance_core.file.file_bytes import run_steps
from lance_core.file.v2_0.assignment import assigned_columns, first_arm
from lance_core.file.v2_0.blob_node import BlobNode
from lance_core.file.v2_0.column_pages import ColumnPages, joined
from lance_core.file.v2_0.fetch import first_ranges, on_file
from lance_core.file.v2_0.list_nodes import BytesNode, ListNode
from lance_core.file.v2_0.nodes import PackedNode, StructNode, ValueNode
from lance_core.file.v2_0.page_memory import dictionary_bytes_per_row, expansion
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.field_source import FieldSource, Pace, Segment
    from lance_core.file.file_bytes import Read, ReadSteps
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.file.v2_0.nodes import Node
    from lance_core.io.byte_range import ByteRange
    from lance_core.schema.field import Field

__all__ = ["v2_0_sources"]

_SEGMENT_BYTES: Final = 16 * 1024 * 1024
"""Approximate maximum encoded or decoded size of a segment in bytes."""

_SEGMENT_ROWS: Final = 1024 * 1024
"""Maximum number of rows per segment, needed because a page with few bytes can have any number of rows."""

_SOURCE_BYTES: Final = 150
_COLUMN_BYTES: Final = 330
_PAGE_BYTES: Final = 420
"""Approximate memory in bytes of a source without its columns, of a column without its pages, and of a page."""

_ROWS_UNIT: Final = 1024
"""If a page is split, its parts start at multiples of this number of rows, so that bitmaps start at whole bytes."""

_DESCRIPTOR_TYPE: Final = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])


def v2_0_sources(
    metadata: MetadataReader, fields: Sequence[Field], column_indices: Mapping[int, int] | None = None
) -> list[FieldSource]:
    """Return the sources of a projection.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned to some of their members.
        column_indices: maps field ids to columns, as recorded in a manifest; None to use the file's own schema.

    Raises:
        CorruptDataError: the columns do not match the schema or each other.
        UnsupportedEncodingError: the description of a page is not supported.
    """
    columns = assigned_columns(metadata, column_indices)
    wanted = {columns[node.id] for top in fields for node in top.walk() if node.id in columns}
    metadata.columns(sorted(wanted))
    tree = _Tree(metadata, columns)
    sources: list[FieldSource] = []
    for top in fields:
        node = tree.node(top)
        node.check_rows(metadata.num_rows)
        sources.append(_Source(top, node, metadata.is_mapped))
    return sources


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSegment:
    """Rows ``[start, stop)`` of the file, for one top-level field.

    Attributes:
        start: first row.
        stop: row after the last.
        num_bytes: estimated encoded size in bytes, proportional to the number of rows.
    """

    start: int
    stop: int
    num_bytes: int


class _Source:
    """See ``FieldSource``."""

    __slots__ = (
        "_bits_per_row",
        "_dictionary_bytes",
        "_expansion",
        "_is_mapped",
        "_node",
        "_reads_whole_pages",
        "field",
    )

    def __init__(self, field: Field, node: Node, is_mapped: bool) -> None:
        self.field = field
        self._node = node
        self._is_mapped = is_mapped
        self._bits_per_row = bits_per_row(arrow_type(field))
        columns = (*node.columns, *node.below)
        self._reads_whole_pages = any(_has_compression(column) for column in columns)
        self._expansion = expansion(columns)
        self._dictionary_bytes = 0.0 if field.is_dictionary else dictionary_bytes_per_row(columns)

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the source itself."""
        columns = (*self._node.columns, *self._node.below)
        return _SOURCE_BYTES + sum([_COLUMN_BYTES + _PAGE_BYTES * len(column.pages) for column in columns])

    def as_dictionary(self) -> FieldSource:
        """Return this source: only structural files are read as dictionaries."""
        return self

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> list[RowSegment]:
        """Divide rows into segments."""
        return self._segments(start, stop) if start < stop else []

    def memory_of(self, segment: Segment) -> int:
        """Estimate the memory of the decoded rows in bytes, including mapped memory."""
        num_rows = segment.stop - segment.start
        expanded = max(segment.num_bytes * self._expansion, num_rows * self._bits_per_row // 8)
        return max(expanded, int(num_rows * self._dictionary_bytes))

    def cut(self, segment: Segment, pace: Pace) -> list[RowSegment]:
        """Split a segment into segments of the requested size."""
        num_rows = segment.stop - segment.start
        num_pieces = -(-self.memory_of(segment) // pace.max_memory)
        return self._segments(segment.start, segment.stop, min(num_pieces, -(-num_rows // pace.batch_rows)))

    def _segments(self, start: int, stop: int, min_pieces: int = 1) -> list[RowSegment]:
        columns = self._node.columns
        within = [start, stop]
        if any(len(column.pages) > 1 for column in columns):
            edges = np.unique(np.concatenate([column.edges for column in columns] + [np.array(within)]))
            within = edges[(edges >= start) & (edges <= stop)].tolist()
        segments = []
        for first, last in itertools.pairwise(within):
            num_bytes = self._bytes_of(first, last)
            num_pieces = self._num_pieces(last - first, num_bytes, min_pieces)
            step = -(-(last - first) // num_pieces)
            step += -step % _ROWS_UNIT if num_pieces > 1 and step > _ROWS_UNIT else 0
            for at in range(first, last, step):
                end = min(at + step, last)
                share = num_bytes * (end - at) // (last - first)
                segments.append(RowSegment(start=at, stop=end, num_bytes=share))
        return segments

    def first_ranges(self, segment: Segment) -> list[ByteRange]:
        """Return the ranges that decoding the segment reads first."""
        steps = self._node.decode(Spans.single(segment.start, segment.stop))
        return first_ranges(steps, is_mapped=self._is_mapped)

    def guessed_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return nothing: pages have no directory that must be read before their values."""
        return ()

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Decode the rows of one segment."""
        steps = self._node.decode(Spans.single(segment.start, segment.stop))
        return joined(run_steps(on_file(steps, is_mapped=self._is_mapped), read))

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Read individual rows, in steps, so that several fields can share requests."""
        if not len(rows):
            return [pa.nulls(0, arrow_type(self.field))]
        steps = np.diff(rows)
        has_repetition = bool((steps == 0).any())
        points = rows[np.concatenate(([True], steps != 0))] if has_repetition else rows
        arrays = yield from on_file(self._node.decode(Spans.of_points(points)), is_mapped=self._is_mapped)
        if not has_repetition:
            return arrays
        return [joined(arrays).take(pa.array(np.cumsum(np.concatenate(([0], steps != 0)))))]

    def guessed_offsets(self, rows: NDArray[np.int64]) -> list[ByteRange]:
        """Return where the offsets of the rows' items would be if all lists of a page had the same length."""
        if not len(rows) or not self._node.below:
            return []
        guessed = self._node.guessed_offsets(Spans.of_points(np.unique(rows)))
        return [each for steps in guessed for each in first_ranges(steps, is_mapped=False) if each.holds_offsets]

    def _bytes_of(self, start: int, stop: int) -> int:
        rows = Spans.single(start, stop)
        own = sum(column.bytes_of(rows) for column in self._node.columns)
        total_rows = max((column.num_rows for column in self._node.columns), default=0)
        below = sum(column.num_bytes for column in self._node.below)
        return own + (below * (stop - start) // total_rows if total_rows else 0)

    def _num_pieces(self, num_rows: int, num_bytes: int, least: int) -> int:
        if self._reads_whole_pages:
            # Every piece would decompress the whole buffer again.
            return 1
        num_bytes = max(num_bytes, num_rows * self._bits_per_row // 8)
        return max(1, min(least, num_rows), -(-num_bytes // _SEGMENT_BYTES), -(-num_rows // _SEGMENT_ROWS))


class _Tree:
    """Builds the nodes of fields from the columns of one file."""

    def __init__(self, metadata: MetadataReader, columns: Mapping[int, int]) -> None:
        self._metadata = metadata
        self._columns = columns

    def node(self, field: Field) -> Node:
        """Build the node that reads a field.

        Raises:
            CorruptDataError: the file has no column for the field.
        """
        if field.is_struct and not (field.is_blob and field.id in self._columns):
            return self._struct(field)
        metadata, pages = self._column(field)
        if metadata.is_blob:
            return self._blob(field, pages)
        dtype = arrow_type(field)
        if field.is_list:
            return ListNode.of(dtype, pages, self.node(field.children[0]))
        if is_variable_width(dtype) and first_arm(metadata) == "list":
            return BytesNode(dtype, self._old_string(field, pages))
        return ValueNode(dtype, pages)

    def _struct(self, field: Field) -> Node:
        dtype = arrow_type(field)
        header: ColumnPages | None = None
        if field.id in self._columns:
            metadata, header = self._column(field)
            arm = first_arm(metadata)
            if arm == "packed_struct" or (arm is None and field.is_packed):
                return self._packed(field, header)
            if arm not in ("struct", None):
                raise CorruptDataError(
                    f"{header.where}: the header of struct {field.name!r} has encoding {arm}; expected struct"
                )
            if len(metadata.pages) != 1:
                raise CorruptDataError(
                    f"{header.where}: struct {field.name!r} has {len(metadata.pages)} header pages; expected 1"
                )
        return StructNode(dtype, header, tuple(self.node(child) for child in field.children))

    def _packed(self, field: Field, pages: ColumnPages) -> Node:
        full = self._metadata.schema.find(field.id) or field
        names = [child.id for child in full.children]
        missing = [child.name for child in field.children if child.id not in names]
        if missing:
            raise CorruptDataError(f"{pages.where}: packed struct {field.name!r} has no member {missing[0]!r}")
        chosen = tuple(names.index(child.id) for child in field.children)
        return PackedNode(arrow_type(field), ValueNode(arrow_type(full), pages), chosen)

    def _blob(self, field: Field, pages: ColumnPages) -> Node:
        descriptors = ValueNode(_DESCRIPTOR_TYPE, pages)
        dtype = arrow_type(field)
        if dtype == _DESCRIPTOR_TYPE:
            return descriptors
        if not is_variable_width(dtype):
            raise CorruptDataError(f"{pages.where}: a column of type {dtype} cannot contain blobs")
        return BlobNode(dtype, descriptors, self._metadata.num_bytes)

    def _old_string(self, field: Field, pages: ColumnPages) -> ListNode:
        index = self._columns[field.id] + 1
        if index >= self._metadata.footer.num_columns:
            raise CorruptDataError(f"{pages.where}: the column with the bytes of {field.name!r} is missing")
        _, values = self._pages(index)
        return ListNode.of(pa.list_(pa.uint8()), pages, ValueNode(pa.uint8(), values))

    def _column(self, field: Field) -> tuple[ColumnMetadata, ColumnPages]:
        index = self._columns.get(field.id)
        if index is None:
            raise CorruptDataError(f"{self._metadata.path}: field {field.name!r} (id {field.id}) has no column")
        return self._pages(index)

    def _pages(self, index: int) -> tuple[ColumnMetadata, ColumnPages]:
        where = f"{self._metadata.path}: column {index}"
        [metadata] = self._metadata.columns([index])
        try:
            for page in metadata.pages:
                selected_arm(page.array_encoding)
        except LanceError as error:
            raise type(error)(f"{where}: {error.message}", **error.context) from error
        return metadata, ColumnPages(metadata, where)


def _has_compression(column: ColumnPages) -> bool:
    """Return whether any page has a buffer that is compressed as a whole."""
    return any(is_packed(page.array_encoding) for page in column.pages)
