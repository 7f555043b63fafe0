"""Finds the rows of a fragment that match a predicate, and reads their columns.

The predicate's columns are read first, as a stream. The other columns are read only for the matching rows: row by row
if few rows match, in ranges if many do. The values of other rows are kept in memory only while they are evaluated, but
the positions of matching rows, and the values of those columns of the filter that are also requested, are collected for
many rows. Rows that were decoded together are evaluated together, because evaluating a predicate has a fixed cost.

Rows that cannot match, according to the statistics of a data file, are not read at all. Only files in format 0.1 have
statistics.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, starmap
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.predicate.column_bounds import may_match
from lance_core.scan.fetch_plan import plan_fetches
from lance_core.scan.output_schema import decoded
from lance_core.scan.row_reader import slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lance_core.file.read_config import ReadConfig
    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.row_reader import RowReader
    from lance_core.schema.field import Schema


__all__ = ["RowCut", "find_rows", "gathered", "gathered_values", "matching_batches", "read_found", "split_columns"]

_RUN_ROWS: Final = 8 * 8192
"""Maximum number of rows that are evaluated or filtered at a time. More rows would not fit in a CPU's cache."""

_FEW_ROWS: Final = 128
"""If at most this many rows match, they are read individually, without estimating costs."""

_WIDENED_PART: Final = 32
"""In an object store, a range is extended to the reader's first or last row if that adds at most 1/32 of the reader's
rows at that end."""

_MOST_HELD: Final = 2**19
_MOST_HELD_BYTES: Final = 32 * 1024 * 1024
"""Number of row positions, and of bytes of their values, to collect before the rows at these positions are read."""


class RowCut:
    """Applies an offset and a limit to a stream of rows.

    Args:
        offset: number of rows to skip at the start; None means 0.
        limit: maximum number of rows to keep; None means no limit.
    """

    def __init__(self, offset: int | None, limit: int | None) -> None:
        """Start at the beginning of the stream."""
        self._skip = offset or 0
        self._left = limit
        self._step_rows = _RUN_ROWS

    def is_done(self) -> bool:
        """Return whether the limit has been reached."""
        return self._left == 0

    def steps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Divide rows that are to be examined into ranges.

        If there is a limit, each range has twice as many rows as the one before, even in later calls: a scan that finds
        its rows early has read little, and a scan that finds them late has made only a few additional requests.
        """
        while self._left is not None and stop - start > self._step_rows:
            yield start, start + self._step_rows
            start += self._step_rows
            self._step_rows *= 2
        yield start, stop

    def next(self, num_rows: int) -> slice:
        """Return the range of rows to keep among the next ``num_rows`` rows of the stream."""
        start = min(self._skip, num_rows)
        self._skip -= start
        stop = num_rows if self._left is None else min(num_rows, start + self._left)
        if self._left is not None:
            self._left -= stop - start
        return slice(start, stop)


def find_rows(
    reader: RowReader,
    predicate: Predicate,
    config: ReadConfig,
    cut: RowCut | None = None,
    within: tuple[int, int] | None = None,
) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the indices of the live rows that satisfy a predicate, as non-empty arrays in ascending order.

    The arguments are those of :func:`matching_batches`.
    """
    if predicate.constant is not None:
        start, stop = (0, reader.num_live_rows) if within is None else within
        rows = np.arange(start, min(stop, reader.num_live_rows), dtype=np.int64)
        if predicate.constant and rows.size:
            yield rows
        return
    for start, found, _ in _matches(reader, predicate, config, cut, within):
        yield start + found


def matching_batches(
    reader: RowReader,
    predicate: Predicate,
    wanted: Schema,
    config: ReadConfig,
    cut: RowCut | None = None,
    within: tuple[int, int] | None = None,
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """Yield the live rows that satisfy a predicate, as non-empty arrays of indices and batches of some columns.

    The batches can be larger than those that a scan returns.

    Args:
        reader: reader for the fragment, or for several.
        predicate: the predicate.
        wanted: the columns of the batches, which are among those of the predicate.
        config: read settings.
        cut: offset and limit that the caller applies to the rows; with a limit, few rows are read ahead.
        within: the range of live rows to examine; None means all.

    Raises:
        InvalidInputError: the predicate cannot be evaluated for a row.
    """
    for start, found, batch in _matches(reader, predicate, config, cut, within):
        values = batch.select(wanted.names)
        some = values if found.size == batch.num_rows else values.take(found)
        yield start + found, decoded(some, wanted)


def _matches(
    reader: RowReader, predicate: Predicate, config: ReadConfig, cut: RowCut | None, within: tuple[int, int] | None
) -> Iterator[tuple[int, npt.NDArray[np.intp], pa.RecordBatch]]:
    """Yield the index of each batch's first live row, the positions of its matching rows, and the batch."""
    ranges = _candidate_ranges(reader, predicate, config)
    if within is not None:
        clipped = ((max(start, within[0]), min(stop, within[1])) for start, stop in ranges)
        ranges = [(start, stop) for start, stop in clipped if start < stop]
    config = replace(config, keeps_dictionaries=True)
    for start, stop in chain.from_iterable(starmap((cut or RowCut(None, None)).steps, ranges)):
        for batch in reader.runs(predicate.wanted, start, stop, config, _run_rows(config)):
            found = np.flatnonzero(predicate.matches(batch))
            if found.size:
                yield start, found, batch
            start += batch.num_rows


def split_columns(wanted: Schema, predicate: Predicate | None) -> tuple[Schema, Schema]:
    """Divide requested columns into those that the predicate reads anyway, and those that are fetched afterward.

    Columns with dictionaries are fetched if any other column is: the dictionaries of several batches may not fit in
    one.
    """
    read = () if predicate is None or predicate.constant is not None else predicate.wanted.fields
    shared = [top for top in wanted.fields if top in read]
    if len(shared) < len(wanted.fields):
        shared = [top for top in shared if not any(node.is_dictionary for node in top.walk())]
    fetched = tuple(top for top in wanted.fields if top not in shared)
    return replace(wanted, fields=tuple(shared)), replace(wanted, fields=fetched)


def gathered(pieces: Iterable[npt.NDArray[np.int64]], cut: RowCut) -> Iterator[npt.NDArray[np.int64]]:
    """Combine the rows that ``cut`` keeps into larger arrays; stop as soon as the limit of ``cut`` is reached."""
    held: list[npt.NDArray[np.int64]] = []
    num_held = 0
    for piece in pieces:
        kept = piece[cut.next(len(piece))]
        if kept.size:
            held.append(kept)
            num_held += kept.size
        if cut.is_done():
            break
        if num_held >= _MOST_HELD:
            yield np.concatenate(held)
            held, num_held = [], 0
    if held:
        yield np.concatenate(held)


def gathered_values(
    pieces: Iterable[tuple[npt.NDArray[np.int64], pa.RecordBatch]], cut: RowCut
) -> Iterator[tuple[npt.NDArray[np.int64], pa.RecordBatch]]:
    """Like :func:`gathered`, but combine the values of the rows into larger batches, too."""
    held: list[tuple[npt.NDArray[np.int64], pa.RecordBatch]] = []
    num_rows = num_bytes = 0
    for rows, values in pieces:
        kept = cut.next(len(rows))
        if kept.start < kept.stop:
            held.append((rows[kept], values.slice(kept.start, kept.stop - kept.start)))
            num_rows += kept.stop - kept.start
            num_bytes += held[-1][1].nbytes
        if cut.is_done():
            break
        if num_rows >= _MOST_HELD or num_bytes >= _MOST_HELD_BYTES:
            yield _combined(held)
            held, num_rows, num_bytes = [], 0, 0
    if held:
        yield _combined(held)


def _combined(
    pieces: Sequence[tuple[npt.NDArray[np.int64], pa.RecordBatch]],
) -> tuple[npt.NDArray[np.int64], pa.RecordBatch]:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([rows for rows, _ in pieces]), pa.concat_batches([values for _, values in pieces])


def read_found(
    reader: RowReader, wanted: Schema, table: Schema, rows: npt.NDArray[np.int64], config: ReadConfig
) -> Iterator[pa.RecordBatch]:
    """Yield the requested columns of live rows as batches.

    Args:
        reader: reader for the fragment, or for several.
        wanted: the requested columns.
        table: the whole schema.
        rows: indices of the live rows, in ascending order; at least one.
        config: read settings, including the maximum number of rows in a batch.
    """
    most_bytes = len(rows) * reader.recorded_bytes // max(1, reader.physical_rows)
    if len(rows) <= _FEW_ROWS and most_bytes <= config.decoded_bytes:
        yield from slices(reader.take(wanted, rows, table), config.batch_rows)
        return
    costs = reader.row_costs(wanted, table)
    most_taken = max(1, min(_run_rows(config), int(config.decoded_bytes / max(1.0, costs.row_bytes))))
    for fetch in plan_fetches(rows, costs):
        some = rows[fetch.start : fetch.stop]
        if fetch.in_range:
            row_range = int(some[0]), int(some[-1]) + 1
            if costs.of_store.is_remote:
                row_range = _widened(row_range, reader.num_live_rows)
            yield from _read_range(reader, wanted, some, row_range, config)
            continue
        most = most_taken
        if costs.of_store.is_remote:
            # The bytes between the rows are requested too.
            num_bytes = costs.taken_bytes(np.array([len(some)]), some[-1:] + 1 - some[:1])[0]
            most = max(1, min(most, int(config.decoded_bytes * len(some) / max(1.0, num_bytes))))
        for start in range(0, len(some), most):
            yield from slices(reader.take(wanted, some[start : start + most], table), config.batch_rows)


def _widened(row_range: tuple[int, int], num_rows: int) -> tuple[int, int]:
    """Extend a range to the first or last row if that row is near: reading part of a page needs further requests."""
    start, stop = row_range
    most = num_rows // _WIDENED_PART
    return (0 if start <= most else start), (num_rows if num_rows - stop <= most else stop)


def _read_range(
    reader: RowReader,
    wanted: Schema,
    rows: npt.NDArray[np.int64],
    row_range: tuple[int, int],
    config: ReadConfig,
) -> Iterator[pa.RecordBatch]:
    """Yield rows that are picked from a range that contains them."""
    position, stop = row_range
    for run in reader.runs(wanted, position, stop, config, _run_rows(config)):
        low, high = np.searchsorted(rows, [position, position + run.num_rows])
        some = rows[low:high]
        if some.size == run.num_rows:
            yield from slices(run, config.batch_rows)
        elif some.size:
            yield from slices(run.take(some - position), config.batch_rows)
        position += run.num_rows


def _run_rows(config: ReadConfig) -> int:
    return max(config.batch_rows, _RUN_ROWS)


def _candidate_ranges(reader: RowReader, predicate: Predicate, config: ReadConfig) -> list[tuple[int, int]]:
    """Return the ranges of live rows that may satisfy a predicate: half-open, ascending, and disjoint.

    Args:
        reader: reader for the fragment, or for several.
        predicate: the predicate.
        config: read settings, including whether to use statistics, and the maximum number of rows in a batch. Ranges
            that are less than one batch apart are joined.

    Raises:
        CorruptDataError: the statistics of a file are damaged.
    """
    if not config.use_stats or predicate.condition is None:
        return [(0, reader.num_live_rows)]
    field_ids = predicate.field_ids
    statistics = list(reader.statistics(field_ids))
    if not statistics:
        return [(0, reader.num_live_rows)]
    ruled_out = np.zeros((0, 2), np.int64)
    for of_file in statistics:
        by_id, starts = of_file.columns, of_file.row_starts
        known = {index: by_id[field_id] for index, field_id in enumerate(field_ids) if field_id in by_id}
        possible = may_match(predicate.condition, known, len(starts) - 1)
        rows = np.stack([starts[:-1], starts[1:]], axis=1)
        ruled_out = np.concatenate([ruled_out, rows[~possible]])
    if not len(ruled_out):
        return [(0, reader.num_live_rows)]
    return _remaining(_live(ruled_out, reader.deleted_rows()), reader.num_live_rows, config.batch_rows)


def _live(physical: npt.NDArray[np.int64], deleted: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return the number of live rows before each physical position."""
    return physical - np.searchsorted(deleted, physical)


def _remaining(ruled_out: npt.NDArray[np.int64], num_rows: int, gap_rows: int) -> list[tuple[int, int]]:
    """Return the ranges that remain of ``num_rows`` rows, without the excluded ranges that are long enough to skip."""
    starts, stops = ruled_out[np.argsort(ruled_out[:, 0], kind="stable")].T
    reached = np.maximum.accumulate(stops)
    cuts = np.flatnonzero(starts[1:] > reached[:-1]) + 1
    starts, stops = starts[np.concatenate([[0], cuts])], reached[np.concatenate([cuts - 1, [len(reached) - 1]])]
    worth = (stops - starts >= gap_rows) | (starts == 0) | (stops == num_rows)
    first = np.concatenate([[0], stops[worth]]).tolist()
    last = np.concatenate([starts[worth], [num_rows]]).tolist()
    return [(start, stop) for start, stop in zip(first, last, strict=True) if start < stop]
