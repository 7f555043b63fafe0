"""Reads the top-level fields of files in format 2.1 and later.

A field is read in segments of rows. Decoders of pages request parts of buffers, which are converted to ranges of the
file. Parts that are close together are fetched as one extent. If the store maps files, an extent costs nothing until
its bytes are accessed, so one extent covers all parts of a buffer; otherwise, large gaps are skipped.

**Source:** ``lance.file.v2.ColumnMetadata``: one column per leaf, depth first; behavior of pylance 14.0.2. The way
pages are read is specific to this library; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from lance_core.encodings.leaf_arrays import bytes_of, joined
from lance_core.encodings.page_decoder import (
    assemble,
    merge_key,
    open_page,
    open_pages,
    open_pages_apart,
    read_leaf,
    run_in_memory,
)
from lance_core.encodings.structural import mini_block_pages
from lance_core.encodings.structural.page_requests import Fetched
from lance_core.errors import InvalidInputError, LanceError
from lance_core.file.file_bytes import run_steps, together
from lance_core.file.file_metadata import FileMetadata
from lance_core.file.structural.page_plan import PageSegment, leaf_columns, merge_segments, plan_segments
from lance_core.file.structural.row_split import split_rows
from lance_core.io.byte_range import ByteRange
from lance_core.schema.extension_types import has_extension

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.leaf_page import LeafPage
    from lance_core.encodings.structural.mini_block_pages import MiniBlockState
    from lance_core.encodings.structural.page_requests import PageState, PageSteps, Rows, Wanted
    from lance_core.file.column_metadata import ColumnMetadata, Page
    from lance_core.file.field_source import FieldSource, Pace, Segment
    from lance_core.file.file_bytes import Read, ReadSteps
    from lance_core.file.page_cache import PageCache
    from lance_core.file.structural.page_plan import LeafColumn, PageSlice
    from lance_core.schema.field import Field

__all__ = ["StructuralSource", "structural_sources"]

T = TypeVar("T")

_MAX_SEGMENT_ROWS: Final = 4 * 1024 * 1024
_MAX_SEGMENT_BYTES: Final = 8 * 1024 * 1024
"""Pages with more bytes than this are decoded in several segments."""

_MERGED_BYTES: Final = 4 * 1024 * 1024
"""Neighboring segments with fewer bytes than this are decoded together."""

_MAX_GAP_BYTES: Final = 16 * 1024
"""Parts of a buffer that are at most this many bytes apart are fetched together, which is faster than two requests."""

_GUESS_BYTES: Final = 64 * 1024
"""Number of bytes that are read before and after the estimated location of values; few chunks are larger."""

_DICTIONARY_VALUES: Final = frozenset({"string", "large_string", "binary", "large_binary"})
"""Logical types of fields that are read as dictionaries."""

_SOURCE_BYTES: Final = 180
_LEAF_BYTES: Final = 180
_PAGE_BYTES: Final = 100
"""Approximate memory in bytes of a source without its leaves, of a leaf without its pages, and of a page's key."""


class ColumnMetadatas(FileMetadata, Protocol):
    """The metadata of a file in which each leaf has a column, or of several such files that are read as one."""

    @property
    def page_states(self) -> PageCache[Any]:
        """Cache for page information found while reading rows."""

    @property
    def is_mapped(self) -> bool:
        """Whether the file is mapped into memory, so that only the accessed bytes of a range are loaded."""

    def columns(self, indices: Sequence[int]) -> list[ColumnMetadata]:
        """Return the metadata of some columns."""


def structural_sources(
    metadata: ColumnMetadatas, fields: Sequence[Field], column_indices: Mapping[int, int] | None
) -> list[FieldSource]:
    """Return the sources of some top-level fields.

    Args:
        metadata: the open file, or a group of files.
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
        self._planned: tuple[tuple[int, int, int | None], Sequence[PageSegment]] | None = None
        self._dictionary: StructuralSource | None = None

    @property
    def field(self) -> Field:
        """The field that the source reads; its arrays have the type ``arrow_type(field)``."""
        return self._field

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the source itself."""
        return _SOURCE_BYTES + sum([_LEAF_BYTES + _PAGE_BYTES * len(column.pages) for column in self._columns])

    def as_dictionary(self) -> FieldSource:
        """Return a source that reads the field as an Arrow dictionary if all pages have one; otherwise, this source."""
        field = self._field
        if field.logical_type not in _DICTIONARY_VALUES or has_extension(field):
            return self
        if self._dictionary is None and all(map(_have_dictionaries, self._columns)):
            field = replace(field, logical_type=f"dict:{field.logical_type}:int32:false")
            columns = [replace(column, field=field) for column in self._columns]
            self._dictionary = StructuralSource(field, columns, self._states, is_mapped=self._is_mapped)
        return self._dictionary or self

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[PageSegment]:
        """Divide rows at the page boundaries of every leaf; split large segments and join small ones.

        The last result is kept, because the same rows are often read again.
        """
        wanted = (start, stop, batch_rows)
        planned = self._planned
        if planned is None or planned[0] != wanted:
            segments = plan_segments(
                self._columns,
                start,
                stop,
                max_rows=_MAX_SEGMENT_ROWS,
                max_bytes=_MAX_SEGMENT_BYTES,
                batch_rows=batch_rows,
            )
            planned = self._planned = (wanted, merge_segments(segments, self._merge_keys, _MERGED_BYTES))
        return planned[1]

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
        """Return all byte ranges of pages that are completely in the segment, and the first ranges of other pages."""
        ranges: list[ByteRange] = []
        for part in cast("PageSegment", segment).slices:
            if part.is_whole:
                ranges += [buffer for page in part.pages for buffer in page.buffers]
            else:
                # An error is raised when the segment is decoded.
                with suppress(LanceError, StopIteration):
                    ranges += next(self._part(part))
        return ranges

    def guessed_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the ranges that may contain the requested parts of pages that are read for the first time."""
        return [
            _share(buffer, part.start, part.stop, part.num_slots)
            for part in cast("PageSegment", segment).slices
            if part.num_pages == 1 and not part.is_whole
            if self._states.get((part.column.index, part.page_index)) is None
            for buffer in part.pages[0].buffers
            if buffer.num_bytes > _GUESS_BYTES
        ]

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment."""
        pages = [self._part(part) for part in cast("PageSegment", segment).slices]
        return assemble(self._field, run_steps(together(pages), read))

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Read individual rows, given in ascending order, in steps, so that several fields can share requests."""
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

    def guessed_offsets(self, rows: NDArray[np.int64]) -> Sequence[ByteRange]:
        """Return nothing: no offsets depend on other offsets."""
        return ()

    def _merge_keys(self, column: LeafColumn) -> list[bytes | None]:
        """Return the merge keys of all pages of a leaf, which are computed only once."""
        if column.index not in self._keys:
            # The pages of small files often share their layout.
            layouts = {id(page.layout): page.layout for page in column.pages}
            keys = {identity: merge_key(layout) for identity, layout in layouts.items()}
            self._keys[column.index] = [keys[id(page.layout)] for page in column.pages]
        return self._keys[column.index]

    def _part(self, part: PageSlice) -> ReadSteps[LeafPage]:
        pages = range(part.page_index, part.page_index + part.num_pages)
        return self._read_pages(part.column, pages, (part.start, part.stop))

    def _read_pages(self, column: LeafColumn, pages: Sequence[int], rows: Rows) -> ReadSteps[LeafPage]:
        if len(pages) == 1:
            return _read_page(column, pages[0], rows, self._states, is_mapped=self._is_mapped)
        return _read_pages_as_one(column, pages, rows, self._states, is_mapped=self._is_mapped)


def _share(buffer: ByteRange, start: int, stop: int, num_slots: int) -> ByteRange:
    """Return the part of a buffer that contains some slots if all slots have the same size, plus a margin."""
    first = buffer.num_bytes * start // num_slots - _GUESS_BYTES
    last = buffer.num_bytes * stop // num_slots + _GUESS_BYTES
    return ByteRange(buffer.start + max(first, 0), min(buffer.start + last, buffer.stop))


def _have_dictionaries(column: LeafColumn) -> bool:
    """Return whether every page has a dictionary, or the same value in all rows."""
    layouts = {id(page.layout): page.layout for page in column.pages}
    return all(
        layout.HasField("constant") or (layout.HasField("mini_block") and layout.mini_block.HasField("dictionary"))
        for layout in layouts.values()
    )


def _read_page(
    column: LeafColumn, page_index: int, rows: Rows, states: PageCache[PageState], *, is_mapped: bool
) -> ReadSteps[LeafPage]:
    """Read rows of one page of a leaf.

    Args:
        column: the leaf.
        page_index: index of the page; pages of the leaf that have no rows are not counted.
        rows: the rows to read, relative to the start of the page, in units of ``Page.length``.
        states: cached information about pages of this file.
        is_mapped: whether the file is mapped into memory, so that only the accessed bytes of a range are loaded.

    Raises:
        CorruptDataError: the page is inconsistent.
        UnsupportedEncodingError: the page uses an unsupported encoding.
    """
    page = column.pages[page_index]
    with _Located(column, page_index):
        if isinstance(rows, tuple) and rows == (0, page.length):
            found = yield page.buffers
            views = [bytes_of(buffer) for buffer in found]
            sizes = [buffer.num_bytes for buffer in page.buffers]
            state = run_in_memory(open_page(column.field, page.layout, sizes, page.length), views)
            return run_in_memory(read_leaf(column.field, state, rows), views)
        state = yield from _opened(column, page_index, states, is_mapped=is_mapped)
        return (yield from _on_file(read_leaf(column.field, state, rows), page.buffers, is_mapped=is_mapped))


def _read_pages_as_one(
    column: LeafColumn,
    page_indices: Sequence[int],
    rows: Rows,
    states: PageCache[PageState],
    *,
    is_mapped: bool,
) -> ReadSteps[LeafPage]:
    """Read rows of several pages with the same :func:`merge_key`, in the same way as :func:`_read_page`.

    Args:
        column: the leaf.
        page_indices: the pages, ascending.
        rows: the rows to read, numbered across these pages as if they were consecutive.
        states: cached information about pages of this file.
        is_mapped: whether the file is mapped into memory, so that only the accessed bytes of a range are loaded.
    """
    pages = [column.pages[page] for page in page_indices]
    with _Located(column, page_indices[0]):
        if isinstance(rows, tuple) and rows == (0, sum(page.length for page in pages)):
            found = yield [buffer for page in pages for buffer in page.buffers]
            return _decoded_as_one(column, pages, found, rows)
        opened = yield from _opened_together(column, page_indices, states, is_mapped=is_mapped)
        starts = [page.buffers[1].start for page in pages]
        state = mini_block_pages.merged(cast("list[MiniBlockState]", opened), starts)
        # The parts of the extent are given by positions in the file.
        whole = ByteRange(0, max(page.buffers[1].stop for page in pages))
        return (yield from _on_file(read_leaf(column.field, state, rows), (whole, whole), is_mapped=is_mapped))


def _decoded_as_one(column: LeafColumn, pages: Sequence[Page], buffers: Sequence[pa.Buffer], rows: Rows) -> LeafPage:
    """Decode all rows of several pages; ``buffers`` are the buffers of all pages."""
    rest = iter(buffers)
    of_pages = [list(itertools.islice(rest, len(page.buffers))) for page in pages]
    data, starts = joined([of_page[1] for of_page in of_pages])
    views = [list(map(bytes_of, of_page)) for of_page in of_pages]
    lengths = [page.length for page in pages]
    state = open_pages(column.field, [page.layout for page in pages], views, lengths, starts)
    return run_in_memory(read_leaf(column.field, state, rows), (data, data))


def _opened_together(
    column: LeafColumn, page_indices: Sequence[int], states: PageCache[PageState], *, is_mapped: bool
) -> ReadSteps[list[PageState]]:
    """Return the states of several pages with the same :func:`merge_key`; see :func:`_opened`."""
    known = {page: states.get((column.index, page)) for page in page_indices}
    missing = [page for page, state in known.items() if state is None]
    pages = [column.pages[page] for page in missing]
    if len(missing) > 1 and mini_block_pages.opens_as_one(pages[0].layout.mini_block):
        found = yield [page.buffers[0] for page in pages]
        opened = open_pages_apart(
            column.field,
            [page.layout for page in pages],
            list(map(bytes_of, found)),
            [[buffer.num_bytes for buffer in page.buffers] for page in pages],
            [page.length for page in pages],
        )
        for page, state in zip(missing, opened, strict=True):
            states.put((column.index, page), state, state.num_bytes)
            known[page] = state
    steps = [_opened(column, page, states, is_mapped=is_mapped) for page, state in known.items() if state is None]
    rest = iter((yield from together(steps)) if steps else ())
    return [next(rest) if state is None else state for state in known.values()]


def _opened(
    column: LeafColumn, page_index: int, states: PageCache[PageState], *, is_mapped: bool
) -> ReadSteps[PageState]:
    """Return the state of a page, which is read on first use."""
    key = (column.index, page_index)
    state = states.get(key)
    if state is None:
        page = column.pages[page_index]
        opening = open_page(column.field, page.layout, [buffer.num_bytes for buffer in page.buffers], page.length)
        # Cached data must not keep a mapping of the file alive.
        state = yield from _on_file(opening, page.buffers, is_mapped=is_mapped, copies=True)
        states.put(key, state, state.num_bytes)
    return state


def _on_file(
    steps: PageSteps[T], buffers: Sequence[ByteRange], *, is_mapped: bool, copies: bool = False
) -> ReadSteps[T]:
    """Convert a page's read steps to read steps of the file that contains the page."""
    try:
        wanted = next(steps)
        while True:
            extents = [_extents(part, buffers[part.buffer], is_mapped=is_mapped) for part in wanted]
            ranges = [extent for part, _ in extents for extent in part]
            found = iter((yield ranges))
            answers = []
            for part, starts in extents:
                views = [bytes_of(next(found)) for _ in part]
                data = views[0] if len(views) == 1 else np.concatenate(views)
                answers.append(Fetched(data.copy() if copies and len(views) == 1 else data, starts))
            wanted = steps.send(answers)
    except StopIteration as finished:
        result: T = finished.value
        return result


def _extents(wanted: Wanted, buffer: ByteRange, *, is_mapped: bool) -> tuple[list[ByteRange], np.ndarray]:
    """Return the ranges to fetch from one buffer, and the start of each requested part in the joined bytes."""
    base, starts, stops = buffer.start, wanted.starts, wanted.stops
    if len(starts) == 1 or is_mapped:
        first = int(starts[0])
        return [ByteRange(base + first, base + int(stops[-1]), wanted.are_offsets)], starts - first
    is_new = starts[1:] - stops[:-1] > _MAX_GAP_BYTES
    first_parts = np.append(0, np.flatnonzero(is_new) + 1)
    extent_starts = starts[first_parts]
    extent_stops = stops[np.append(first_parts[1:], len(starts)) - 1]
    sizes = extent_stops - extent_starts
    shifts = np.cumsum(sizes) - sizes - extent_starts
    ranges = [
        ByteRange(base + start, base + stop, wanted.are_offsets)
        for start, stop in zip(extent_starts.tolist(), extent_stops.tolist(), strict=True)
    ]
    return ranges, starts + np.repeat(shifts, np.diff(np.append(first_parts, len(starts))))


class _Located:
    """Adds the location of the page to the message of an error."""

    __slots__ = ("_column", "_page_index")

    def __init__(self, column: LeafColumn, page_index: int) -> None:
        self._column = column
        self._page_index = page_index

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LanceError):
            where = f"{self._column.where}, page {self._page_index}"
            raise type(error)(f"{where}: {error.message}", **error.context) from error
