"""Scan: planned segments → arrays → record batches of exactly the wanted size.

Segments are fetched and decoded by a few threads (numpy and Arrow release the interpreter lock in their loops), in the
order in which the consumer will need them and only a bounded number of bytes ahead of it. A small scan does without
threads and fetches all of its bytes with one request. Batches are slices of decoded segments; only a batch that crosses
the end of a segment is copied.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import pyarrow as pa

from lance_core.encodings.page_decoder import assemble, decode_leaf
from lance_core.errors import InvalidInputError, LanceError
from lance_core.file.page_fetch import PageFetcher
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from lance_core.encodings.api import LeafPage
    from lance_core.file.page_fetch import Fetch
    from lance_core.file.page_plan import PageSlice, Segment
    from lance_core.schema.field import Field

__all__ = ["FieldPlan", "decode_segment", "scan_arrays", "scan_batches"]

_READ_AHEAD_BYTES: Final = 64 * 1024 * 1024
"""Encoded bytes of segments that may be fetched and decoded before the consumer asks for them."""

_SEGMENTS_AHEAD: Final = 8
"""Segments that may be ahead: what a few encoded bytes decode to, perhaps a thousandfold, is known only afterwards."""

_INLINE_BYTES: Final = 1024 * 1024
"""Encoded bytes up to which threads cost more than they save, and one request is better than several."""

_MAX_THREADS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPlan:
    """What is to be read of one top-level field.

    Attributes:
        field: the field, possibly pruned.
        segments: in row order, covering the wanted rows.
    """

    field: Field
    segments: Sequence[Segment]


def scan_batches(plans: Sequence[FieldPlan], num_rows: int, batch_rows: int, fetch: Fetch) -> Iterator[list[pa.Array]]:
    """Columns of one batch after the other.

    Args:
        plans: one per column; all cover the same rows.
        num_rows: number of those rows.
        batch_rows: rows of every batch but the last.
        fetch: reads ranges of the file; called from several threads.

    Yields:
        One array per plan, all of the same length.
    """
    with _decoder_of(plans, fetch) as segments:
        cursors = [_Cursor(segments, index, plan.field) for index, plan in enumerate(plans)]
        for start in range(0, num_rows, batch_rows):
            wanted = min(batch_rows, num_rows - start)
            yield [cursor.take(wanted) for cursor in cursors]


def scan_arrays(plans: Sequence[FieldPlan], fetch: Fetch) -> list[list[pa.Array]]:
    """All segments of every plan, decoded; see :func:`scan_batches`."""
    with _decoder_of(plans, fetch) as segments:
        return [[segments.next(index) for _ in plan.segments] for index, plan in enumerate(plans)]


def decode_segment(field: Field, segment: Segment, fetcher: PageFetcher) -> pa.Array:
    """Fetch and decode the rows of one segment.

    Raises:
        CorruptDataError: the pages contradict themselves.
        UnsupportedEncodingError: a page uses an encoding that is not read here.
    """
    buffers = fetcher.buffers(segment.slices)
    leaves = [_decode_slice(part, each) for part, each in zip(segment.slices, buffers, strict=True)]
    return assemble(field, leaves)


def _decode_slice(part: PageSlice, buffers: list[pa.Buffer]) -> LeafPage:
    page = part.page
    try:
        return decode_leaf(part.column.field, page.layout, buffers, page.length, rows=(part.start, part.stop))
    except LanceError as error:
        where = f"{part.column.where}, page {part.page_index}"
        raise type(error)(f"{where}: {error.message}", **error.context) from error


class _Inline:
    """Decodes the segments of a small scan when they are asked for; all of its bytes come with one request."""

    def __init__(self, plans: Sequence[FieldPlan], fetch: Fetch) -> None:
        self._fetcher = PageFetcher(fetch)
        self._fetcher.prefetch([part for plan in plans for segment in plan.segments for part in segment.slices])
        self._jobs = [(plan.field, iter(plan.segments)) for plan in plans]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def next(self, index: int) -> pa.Array:
        """The next segment of a plan."""
        field, segments = self._jobs[index]
        return decode_segment(field, next(segments), self._fetcher)


class _ReadAhead:
    """Decodes the segments of several plans in the order of their first rows, in threads of its own."""

    def __init__(self, plans: Sequence[FieldPlan], fetch: Fetch) -> None:
        self._plans = plans
        self._fetcher = PageFetcher(fetch)
        self._jobs = sorted(
            ((index, segment) for index, plan in enumerate(plans) for segment in plan.segments),
            key=lambda job: job[1].start,
        )
        self._next_job = 0
        self._ahead_bytes = 0
        self._ahead_segments = 0
        self._pending: list[deque[tuple[int, Future[pa.Array]]]] = [deque() for _ in plans]
        self._executor = ThreadPoolExecutor(max_workers=min(_MAX_THREADS, os.cpu_count() or 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def next(self, index: int) -> pa.Array:
        """The next segment of a plan."""
        while not self._pending[index]:
            self._submit()
        num_bytes, future = self._pending[index].popleft()
        self._ahead_bytes -= num_bytes
        self._ahead_segments -= 1
        while self._may_submit():
            self._submit()
        return future.result()

    def _may_submit(self) -> bool:
        return (
            self._next_job < len(self._jobs)
            and self._ahead_bytes < _READ_AHEAD_BYTES
            and self._ahead_segments < _SEGMENTS_AHEAD
        )

    def _submit(self) -> None:
        index, segment = self._jobs[self._next_job]
        self._next_job += 1
        num_bytes = segment.num_bytes
        self._ahead_bytes += num_bytes
        self._ahead_segments += 1
        future = self._executor.submit(decode_segment, self._plans[index].field, segment, self._fetcher)
        self._pending[index].append((num_bytes, future))


def _decoder_of(plans: Sequence[FieldPlan], fetch: Fetch) -> _Inline | _ReadAhead:
    num_bytes = sum(part.page.num_bytes for plan in plans for segment in plan.segments for part in segment.slices)
    return _Inline(plans, fetch) if num_bytes <= _INLINE_BYTES else _ReadAhead(plans, fetch)


class _Cursor:
    """Cuts the segments of one plan into pieces of any size."""

    __slots__ = ("_array", "_index", "_must_copy", "_position", "_segments")

    def __init__(self, segments: _Inline | _ReadAhead, index: int, field: Field) -> None:
        self._segments = segments
        self._index = index
        self._must_copy = _has_nested_fixed_size_list(arrow_type(field))
        self._array: pa.Array | None = None
        self._position = 0

    def take(self, num_rows: int) -> pa.Array:
        """The next ``num_rows`` rows; a copy only when they lie in several segments."""
        pieces = []
        missing = num_rows
        while missing:
            if self._array is None or self._position == len(self._array):
                self._array = self._segments.next(self._index)
                self._position = 0
            piece = self._array.slice(self._position, missing)
            self._position += len(piece)
            missing -= len(piece)
            pieces.append(piece)
        if len(pieces) == 1:
            if not (self._must_copy and pieces[0].offset):
                return pieces[0]
            pieces.append(pieces[0].slice(0, 0))
        try:
            return pa.concat_arrays(pieces)
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"a batch of {num_rows} rows does not fit into one array; ask for fewer rows per batch: {error}"
            ) from error


def _has_nested_fixed_size_list(dtype: pa.DataType) -> bool:
    # pyarrow 26.0: take() and filter() of a slice of nested fixed-size lists return other rows than the slice has.
    children = [dtype.field(index).type for index in range(dtype.num_fields)]
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_fixed_size_list(dtype.value_type):
        return True
    return any(_has_nested_fixed_size_list(child) for child in children)
