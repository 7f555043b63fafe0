"""Decodes the segments of a scan and slices the resulting arrays into record batches of exactly the requested size.

A few threads fetch and decode segments in the order in which the consumer needs them (numpy and Arrow release the
interpreter lock in their loops). The number of bytes read ahead of the consumer is limited. A small scan uses no
threads and fetches all of its bytes with one request. In object stores, other threads fetch the bytes ahead of the
decoding threads (:mod:`~lance_core.file.fetch_ahead`). Batches are slices of decoded segments; only a batch that
extends across the end of a segment is copied.

The columns share a memory budget. Every column decodes one range of its rows at a time and keeps it until the batches
have consumed it, so one range per column is in memory at any time. If each range is a whole page, ten columns take
little memory, but a thousand columns take a gigabyte. If the ranges that are best for speed exceed the budget, the
largest of them are reduced to a common size such that all ranges fit, but never to less than one batch of rows.

Ranges are split while the stream is being read, because a plan that lists every part would grow with the file.

Source: specific to this library; see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from concurrent.futures import wait
from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from lance_core.errors import InternalError, InvalidInputError
from lance_core.file.decode_pool import decode_pool
from lance_core.file.fetch_ahead import FetchAhead
from lance_core.file.field_source import Pace
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from lance_core.file.field_source import FieldSource, Segment
    from lance_core.file.file_bytes import Read, ReadableBytes
    from lance_core.file.read_config import ReadConfig
    from lance_core.io.byte_range import ByteRange

__all__ = ["FieldPlan", "fair_share", "scan_arrays", "scan_batches", "stream_plans"]

_LEAST_BYTES: Final = 16 * 1024
"""Minimum share of the memory budget that each column receives, in bytes. Decoding a range has a fixed cost, which is
about the cost of decoding 16 KiB."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """The read plan of one top-level field.

    Attributes:
        source: the source of the field.
        segments: the segments that cover the requested rows, in row order.
        pace: limits for splitting large segments; None to decode every segment as a whole.
    """

    source: FieldSource
    segments: Sequence[Segment]
    pace: Pace | None = None

    @property
    def is_one_array(self) -> bool:
        """Whether all rows are decoded into a single array that can be returned unchanged."""
        return len(self.segments) == 1 and self.pace is None and not _needs_copies(arrow_type(self.source.field))

    def pieces(self) -> Iterator[Segment]:
        """Yield the segments; a segment that exceeds the limits is split into smaller ones."""
        source, pace = self.source, self.pace
        for segment in self.segments:
            if pace is None or source.memory_of(segment) <= pace.max_memory:
                yield segment
            else:
                yield from source.cut(segment, pace)


def stream_plans(sources: Sequence[FieldSource], start: int, stop: int, config: ReadConfig) -> list[FieldPlan]:
    """Plan how to read rows ``[start, stop)`` of some fields as a stream.

    Args:
        sources: the sources of the fields, one per field.
        start: first row.
        stop: row after the last.
        config: sets the number of rows per batch and the maximum decoded size of all fields together.
    """
    batch_rows, budget = config.batch_rows, config.decoded_bytes
    plans = [source.plan(start, stop, batch_rows=batch_rows) for source in sources]
    if stop - start <= batch_rows:
        # A single batch contains all the rows.
        return list(map(FieldPlan, sources, plans))
    demands = [max(map(source.memory_of, segments), default=0) for source, segments in zip(sources, plans, strict=True)]
    if sum(demands) <= budget:
        return list(map(FieldPlan, sources, plans))
    pace = Pace(max(_LEAST_BYTES, fair_share(demands, budget)), batch_rows, start)
    return [
        FieldPlan(source, segments, pace if demand > pace.max_memory else None)
        for source, segments, demand in zip(sources, plans, demands, strict=True)
    ]


def fair_share(demands: Sequence[int], budget: int) -> int:
    """Return the largest share such that the demands, each capped at the share, add up to no more than the budget."""
    left = budget
    for index, demand in enumerate(sorted(demands)):
        num_others = len(demands) - index
        if demand * num_others > left:
            return left // num_others
        left -= demand
    return max(demands, default=0)


def scan_batches(
    plans: Sequence[FieldPlan],
    schema: pa.Schema,
    num_rows: int,
    config: ReadConfig,
    read: Read,
    finish: Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    in_runs: bool = False,
    in_memory: bool = False,
    in_many_files: bool = False,
    remote: ReadableBytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches in row order.

    Args:
        plans: one plan per column, at least one; all cover the same rows.
        schema: schema of the arrays that the plans' sources decode.
        num_rows: number of rows that each plan covers.
        config: number of rows per batch, and limits for reading ahead.
        read: reads ranges of the file; called from several threads.
        finish: a row-wise function that is applied to the decoded rows; several batches may be slices of one result.
        in_runs: whether batches that are slices of the same arrays are joined into one batch, whose size is a
            multiple of the batch size, unless it contains the last rows.
        in_memory: whether the file is in memory, so that ``read`` makes no requests.
        in_many_files: whether every call of ``read`` opens several files, so that as few calls as possible are made.
        remote: the bytes that ``read`` reads if they are in an object store, so that many requests are in flight at
            once; None otherwise.
    """
    batch_rows = config.batch_rows
    if num_rows <= batch_rows and all(plan.is_one_array for plan in plans):
        # A small file or few rows: nothing has to be cut or joined.
        columns = [array for [array] in scan_arrays(plans, read, config, in_memory=in_memory, remote=remote)]
        yield finish(pa.RecordBatch.from_arrays(columns, schema=schema))
        return
    with _decoder_of(plans, read, config, in_memory=in_memory, in_many_files=in_many_files, remote=remote) as segments:
        cursors = [_Cursor(segments, index, dtype) for index, dtype in enumerate(schema.types)]
        start = 0
        while start < num_rows:
            wanted = min(batch_rows, num_rows - start)
            # If every column has several batches in one array, they are created together.
            at_hand = min(cursor.num_at_hand() for cursor in cursors)
            run_rows = num_rows - start
            if at_hand < run_rows:
                run_rows = max(wanted, at_hand - at_hand % batch_rows)
            run = finish(pa.RecordBatch.from_arrays([cursor.take(run_rows) for cursor in cursors], schema=schema))
            start += run_rows
            if in_runs or run_rows == wanted:
                yield run
            else:
                for at in range(0, run_rows, batch_rows):
                    yield run.slice(at, batch_rows)
            # Release these before the next pages are decoded.
            del run


def scan_arrays(
    plans: Sequence[FieldPlan],
    read: Read,
    config: ReadConfig,
    *,
    in_memory: bool = False,
    remote: ReadableBytes | None = None,
) -> list[list[pa.Array]]:
    """Decode all segments of every plan; see :func:`scan_batches`."""
    with _decoder_of(plans, read, config, in_memory=in_memory, remote=remote) as segments:
        return [[segments.next(index) for _ in plan.segments] for index, plan in enumerate(plans)]


class _Inline:
    """Decodes the segments of a small scan when they are requested."""

    def __init__(self, plans: Sequence[FieldPlan], read: Read) -> None:
        self._read = read
        self._jobs = [(plan.source, plan.pieces()) for plan in plans]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def next(self, index: int) -> pa.Array:
        """Return the next segment of a plan."""
        source, segments = self._jobs[index]
        return source.decode(next(segments), self._read)


class _Prefetched:
    """A ``Read`` for which some ranges are already in memory."""

    @classmethod
    def of(cls, plans: Sequence[FieldPlan], read: Read) -> Self:
        """Fetch the ranges that the segments of some plans read first, with one request."""
        jobs = [(plan.source, piece) for plan in plans for piece in plan.pieces()]
        return cls(read, [extent for source, piece in jobs for extent in source.first_ranges(piece)])

    def __init__(self, read: Read, ranges: Sequence[ByteRange]) -> None:
        self._read = read
        wanted = list(dict.fromkeys(ranges))
        self._known = dict(zip(wanted, read(wanted) if wanted else [], strict=True))

    def __call__(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        if all(extent in self._known for extent in ranges):
            return [self._known[extent] for extent in ranges]
        return self._read(ranges)


class _ReadAhead:
    """Decodes the segments of several plans in the order of their first rows, using the thread pool of the process.

    Args:
        plans: the plans.
        read: reads ranges of the file.
        config: limits for reading ahead.
        remote: the bytes that ``read`` reads if they are fetched before the decoding threads need them; None
            otherwise.
    """

    def __init__(
        self, plans: Sequence[FieldPlan], read: Read, config: ReadConfig, remote: ReadableBytes | None = None
    ) -> None:
        self._plans = plans
        self._config = config
        self._ahead_bytes = 0
        self._ahead_segments = 0
        self._pending: list[deque[tuple[Segment, Read, Future[pa.Array]]]] = [deque() for _ in plans]
        self._pool = decode_pool()
        self._process = os.getpid()
        jobs = merge(*(_numbered(index, plan) for index, plan in enumerate(plans)), key=lambda job: job[1].start)
        self._fetching: FetchAhead | None = None
        self._jobs: Iterator[tuple[int, Segment, Read]] = ((index, segment, read) for index, segment in jobs)
        if remote is not None:
            self._fetching = FetchAhead(
                jobs,
                [plan.source for plan in plans],
                remote,
                max_bytes=config.remote_ahead_bytes,
                num_decoding=lambda: self._ahead_bytes,
            )
            self._jobs = iter(self._fetching)
        self._next_job = next(self._jobs, None)
        # The garbage collector clears references with callbacks before it closes generators.
        self._in_use = weakref.ref(self, lambda _: None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process != os.getpid():
            return
        running: list[Future[Any]] = [
            future for pending in self._pending for _, _, future in pending if not future.cancel()
        ]
        if self._fetching is not None:
            running += self._fetching.stop()
        # Running tasks still read the file, and the caller may remove it after closing the scan. Nobody waits for an
        # abandoned scan that is closed by the garbage collector. It may run in the thread of one of the tasks, or
        # while this thread holds a lock that the tasks need.
        if self._in_use() is not None:
            wait(running)

    def next(self, index: int) -> pa.Array:
        """Return the next segment of a plan."""
        if self._process != os.getpid():
            self._restart()
        while not self._pending[index]:
            self._submit()
        segment, read, future = self._pending[index][0]
        self._ahead_bytes -= segment.num_bytes
        self._ahead_segments -= 1
        while self._may_submit():
            self._submit()
        # If no thread has started the task yet, decode here instead of waiting.
        inline = future.cancel()
        array = self._plans[index].source.decode(segment, read) if inline else future.result()
        # Not earlier: if an interrupt ends the wait, __exit__ waits for the task.
        self._pending[index].popleft()
        return array

    def _restart(self) -> None:
        """Resubmit pending tasks in a forked process, which does not have the threads that work on them."""
        self._process, self._pool = os.getpid(), decode_pool()
        self._pending = [
            deque((segment, read, self._pool.submit(plan.source.decode, segment, read)) for segment, read, _ in pending)
            for plan, pending in zip(self._plans, self._pending, strict=True)
        ]

    def _may_submit(self) -> bool:
        return (
            self._next_job is not None
            and self._ahead_bytes < self._config.ahead_bytes
            and self._ahead_segments < self._config.ahead_segments
        )

    def _submit(self) -> None:
        if self._next_job is None:
            raise InternalError("a scan requested more segments than were planned")
        index, segment, read = self._next_job
        self._next_job = next(self._jobs, None)
        self._ahead_bytes += segment.num_bytes
        self._ahead_segments += 1
        future = self._pool.submit(self._plans[index].source.decode, segment, read)
        self._pending[index].append((segment, read, future))


def _numbered(index: int, plan: FieldPlan) -> Iterator[tuple[int, Segment]]:
    return ((index, piece) for piece in plan.pieces())


def _decoder_of(
    plans: Sequence[FieldPlan],
    read: Read,
    config: ReadConfig,
    *,
    in_memory: bool,
    in_many_files: bool = False,
    remote: ReadableBytes | None = None,
) -> _Inline | _ReadAhead:
    num_bytes = sum(segment.num_bytes for plan in plans for segment in plan.segments)
    if num_bytes > config.inline_bytes:
        reads_at_once = in_many_files and num_bytes <= config.ahead_bytes and remote is None
        return _ReadAhead(plans, _Prefetched.of(plans, read) if reads_at_once else read, config, remote)
    return _Inline(plans, read if in_memory else _Prefetched.of(plans, read))


class _Cursor:
    """Reads any number of rows at a time from the segments of one plan."""

    __slots__ = ("_array", "_index", "_must_copy", "_position", "_segments")

    def __init__(self, segments: _Inline | _ReadAhead, index: int, dtype: pa.DataType) -> None:
        self._segments = segments
        self._index = index
        self._must_copy = _needs_copies(dtype)
        self._array: pa.Array | None = None
        self._position = 0

    def num_at_hand(self) -> int:
        """Return the number of remaining rows in the current segment that can be returned as slices of one array."""
        self._load()
        return 0 if self._must_copy or self._array is None else len(self._array) - self._position

    def take(self, num_rows: int) -> pa.Array:
        """Return the next ``num_rows`` rows, which are copied only if they span several segments."""
        pieces = []
        missing = num_rows
        while missing:
            array = self._load()
            piece = array.slice(self._position, missing)
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
                f"a batch of {counted(num_rows, 'row')} does not fit in one array; request fewer rows per "
                f"batch: {error}"
            ) from error

    def _load(self) -> pa.Array:
        """Return the current segment, or the next one if all its rows have been returned."""
        if self._array is None or self._position == len(self._array):
            self._array = None
            self._array = self._segments.next(self._index)
            self._position = 0
        return self._array


def _needs_copies(dtype: pa.DataType) -> bool:
    """Return whether slices of a type must be copied: this is the case for nested fixed-size lists."""
    # pyarrow 26.0: take() and filter() of such a slice return the wrong rows.
    if not dtype.num_fields:
        return False
    children = [dtype.field(index).type for index in range(dtype.num_fields)]
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_fixed_size_list(dtype.value_type):
        return True
    return any(map(_needs_copies, children))
