"""Reads the fields of a file in format 0.1 in segments, each of which is decoded as one array.

The batches (row groups) of a file typically have a thousand rows each. A segment therefore consists of hundreds of
batches, which are read in one round and decoded in one step. A segment may also be a part of a batch, because batches
may have any size.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.file.file_bytes import run_steps
from lance_core.file.v0_1.extents import Extents, merged_spans
from lance_core.file.v0_1.page_reader import Runs
from lance_core.io.byte_range import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lance_core.file.field_source import FieldSource, Pace, Segment
    from lance_core.file.file_bytes import Read, ReadSteps
    from lance_core.file.v0_1.metadata_reader import LegacyMetadataReader
    from lance_core.schema.field import Field

__all__ = ["LegacyFieldSource", "v0_1_sources"]

_SEGMENT_BYTES: Final = 8 * 1024 * 1024
_SEGMENT_ROWS: Final = 4 * 1024 * 1024
_SEGMENT_BATCHES: Final = 4096
"""Approximate maximum numbers of bytes, rows, and batches in a segment; larger segments are split."""

_SOURCE_BYTES: Final = 800
"""Approximate memory in bytes of a source without the positions of its pages."""

_TAKE_BYTES: Final = 256 * 1024 * 1024
"""Maximum estimated size in bytes of the individual rows that a take decodes as one array."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """Rows ``[start, stop)`` of the file, with a size of about ``num_bytes`` bytes."""

    start: int
    stop: int
    num_bytes: int


def v0_1_sources(metadata: LegacyMetadataReader, fields: Sequence[Field]) -> list[FieldSource]:
    """Return one source for each requested top-level field.

    Args:
        metadata: the open file.
        fields: top-level fields, possibly pruned, with the field ids used in the file.
    """
    return [LegacyFieldSource(metadata, top) for top in fields]


class LegacyFieldSource:
    """Reads one top-level field of a file in format 0.1; see :class:`~lance_core.file.field_source.FieldSource`.

    Args:
        metadata: the open file.
        field: the field, possibly pruned.
    """

    def __init__(self, metadata: LegacyMetadataReader, field: Field) -> None:
        """Create the source without reading anything."""
        self._metadata = metadata
        self._field = field
        self._first_rows = metadata.batch_offsets

    @property
    def field(self) -> Field:
        """The field that the source reads; its arrays have the type ``arrow_type(field)``."""
        return self._field

    @property
    def memory(self) -> int:
        """Approximate memory in bytes of the source itself, which keeps two positions per page."""
        num_fields = sum(not node.is_struct for node in self._field.walk())
        return _SOURCE_BYTES + 8 * len(self._first_rows) * (2 * num_fields + 1)

    def as_dictionary(self) -> FieldSource:
        """Return this source: only structural files are read as dictionaries."""
        return self

    def plan(self, start: int, stop: int, *, batch_rows: int | None = None) -> Sequence[Segment]:
        """Divide rows into segments.

        If ``batch_rows`` is given, the length of every segment except the last is a multiple of it.
        """
        return self._segments(start, stop, batch_rows) if start < stop else []

    def memory_of(self, segment: Segment) -> int:
        """Estimate the memory of the decoded rows in bytes: the stored size, because format 0.1 has no compression."""
        return segment.num_bytes

    def cut(self, segment: Segment, pace: Pace) -> Sequence[Segment]:
        """Split a segment into segments of the requested size."""
        return self._segments(segment.start, segment.stop, pace.batch_rows, pace)

    def _segments(self, start: int, stop: int, batch_rows: int | None, pace: Pace | None = None) -> list[Segment]:
        cuts = self._cuts(start, stop, batch_rows, pace)
        volume = np.diff(np.interp(cuts, self._first_rows, self._bytes_before)).astype(np.int64)
        bounds = zip(cuts[:-1].tolist(), cuts[1:].tolist(), volume.tolist(), strict=True)
        return [_Segment(first, last, num_bytes) for first, last, num_bytes in bounds]

    def first_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return the byte ranges of the field's pages in the batches that the segment contains completely."""
        return self._whole_pages(self._runs(np.array([segment.start]), np.array([segment.stop])))

    def guessed_ranges(self, segment: Segment) -> Sequence[ByteRange]:
        """Return nothing: a segment rarely contains only a part of a batch."""
        return ()

    def decode(self, segment: Segment, read: Read) -> pa.Array:
        """Return the rows of one segment."""
        return run_steps(self._decode_steps(self._runs(np.array([segment.start]), np.array([segment.stop]))), read)

    def _decode_steps(self, runs: Runs) -> ReadSteps[pa.Array]:
        extents = Extents()
        whole = self._whole_pages(runs)
        if whole:
            starts, stops = np.array([each.start for each in whole]), np.array([each.stop for each in whole])
            yield from extents.load(starts, stops)
        return (yield from self._metadata.pages.decode(self._field, runs, extents))

    def take_steps(self, rows: NDArray[np.int64]) -> ReadSteps[list[pa.Array]]:
        """Read individual rows, in steps, so that several fields can share requests; nearby rows share a range."""
        if not len(rows):
            return []
        average = max(1, int(self._bytes_before[-1]) // max(1, self._metadata.num_rows))
        step = max(1, _TAKE_BYTES // average)
        taken: list[pa.Array] = []
        for first in range(0, len(rows), step):
            taken += [(yield from self._taken(rows[first : first + step]))]
        return taken

    def _taken(self, rows: NDArray[np.int64]) -> ReadSteps[pa.Array]:
        distinct, places = np.unique(rows, return_inverse=True)
        cuts = np.flatnonzero(np.diff(distinct) != 1) + 1
        starts = distinct[np.concatenate([[0], cuts])]
        stops = distinct[np.concatenate([cuts - 1, [len(distinct) - 1]])] + 1
        array = yield from self._metadata.pages.decode(self._field, self._runs(starts, stops), Extents())
        return array if len(distinct) == len(rows) else array.take(pa.array(places))

    def guessed_offsets(self, rows: NDArray[np.int64]) -> list[ByteRange]:
        """Return where the offsets of the rows' items would be if all lists of a batch had the same length."""
        return self._metadata.pages.guessed_offsets(self._field, self._runs(rows, rows + 1))

    def _runs(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Runs:
        """Split ranges of rows of the file at batch boundaries; return ascending, disjoint runs."""
        offsets = self._first_rows
        first = np.searchsorted(offsets, starts, side="right") - 1
        last = np.searchsorted(offsets, stops, side="left")
        num_batches = last - first
        origin = np.repeat(first - (np.cumsum(num_batches) - num_batches), num_batches)
        batches = origin + np.arange(int(num_batches.sum()))
        begin = np.maximum(np.repeat(starts, num_batches), offsets[batches])
        end = np.minimum(np.repeat(stops, num_batches), offsets[batches + 1])
        return Runs(batches, begin - offsets[batches], end - offsets[batches])

    def _whole_pages(self, runs: Runs) -> list[ByteRange]:
        num_rows = self._first_rows[runs.batches + 1] - self._first_rows[runs.batches]
        batches = runs.batches[runs.num_rows == num_rows]
        starts, stops = self._spans
        starts, stops = merged_spans(starts[:, batches].reshape(-1), stops[:, batches].reshape(-1))
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return [ByteRange(start, stop) for start, stop in pairs if start < stop]

    @cached_property
    def _spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._metadata.spans.of(self._field)

    @cached_property
    def _bytes_before(self) -> NDArray[np.int64]:
        """Total size of the field's pages before each batch in bytes, shape (num_batches + 1,)."""
        starts, stops = self._spans
        return np.concatenate([[0], np.cumsum((stops - starts).sum(axis=0))])

    def _cuts(self, start: int, stop: int, batch_rows: int | None, pace: Pace | None) -> NDArray[np.int64]:
        """Return the boundaries of the segments as ascending row numbers, from ``start`` to ``stop``."""
        offsets = self._first_rows
        bounds = np.array([start, stop])
        num_bytes = np.diff(np.interp(bounds, offsets, self._bytes_before))[0]
        num_batches = np.diff(np.searchsorted(offsets, bounds))[0]
        parts = max(num_bytes / _SEGMENT_BYTES, (stop - start) / _SEGMENT_ROWS, num_batches / _SEGMENT_BATCHES)
        if pace is not None:
            parts = max(parts, min(num_bytes / pace.max_memory, (stop - start) / pace.batch_rows))
        parts = min(int(np.ceil(parts)), stop - start)
        if parts <= 1:
            return bounds
        if num_bytes > 0:
            volume = np.interp(bounds, offsets, self._bytes_before).tolist()
            even = np.interp(np.linspace(volume[0], volume[1], parts + 1)[1:-1], self._bytes_before, offsets)
        else:
            even = np.linspace(start, stop, parts + 1)[1:-1]
        step = batch_rows if batch_rows is not None else 1
        origin = start if pace is None else pace.first_row
        cuts: NDArray[np.int64] = origin + np.round((even - origin) / step).astype(np.int64) * step
        if batch_rows is None:
            cuts = self._snapped(cuts)
        return np.unique(np.concatenate([bounds, cuts[(cuts > start) & (cuts < stop)]]))

    def _snapped(self, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move the cuts to batch boundaries if batches are small."""
        offsets = self._first_rows
        near = offsets[np.clip(np.searchsorted(offsets, cuts), 0, len(offsets) - 1)]
        small = self._bytes_before[-1] <= (len(offsets) - 1) * (_SEGMENT_BYTES // 4)
        return near if small else cuts
