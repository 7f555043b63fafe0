"""Rows of a fragment that may match a predicate, according to the statistics of its data files.

Only files of format 0.1 have statistics. Rows that they rule out are not read at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.predicate.column_bounds import may_match

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_core.file.read_config import ReadConfig
    from lance_core.predicate.predicate import Predicate
    from lance_core.scan.fragment_reader import FragmentReader

__all__ = ["candidate_ranges"]


def candidate_ranges(reader: FragmentReader, predicate: Predicate, config: ReadConfig) -> list[tuple[int, int]]:
    """Return the live rows that may satisfy a predicate: half-open ranges, ascending and disjoint.

    Args:
        reader: of the fragment.
        predicate: which rows.
        config: whether statistics are used; ranges that are nearer to each other than the rows of a batch are joined.

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
        by_id, starts = of_file.bounds, of_file.row_starts
        bounds = {index: by_id[field_id] for index, field_id in enumerate(field_ids) if field_id in by_id}
        possible = may_match(predicate.condition, bounds, len(starts) - 1)
        rows = np.stack([starts[:-1], starts[1:]], axis=1)
        ruled_out = np.concatenate([ruled_out, rows[~possible]])
    if not len(ruled_out):
        return [(0, reader.num_live_rows)]
    return _remaining(_live(ruled_out, reader.deleted_rows()), reader.num_live_rows, config.batch_rows)


def _live(physical: npt.NDArray[np.int64], deleted: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return positions among the live rows: the number of live rows before each physical position."""
    return physical - np.searchsorted(deleted, physical)


def _remaining(ruled_out: npt.NDArray[np.int64], num_rows: int, gap_rows: int) -> list[tuple[int, int]]:
    """Return the ranges that remain of ``num_rows`` rows without the ruled-out ranges that are long enough to skip."""
    starts, stops = ruled_out[np.argsort(ruled_out[:, 0], kind="stable")].T
    reached = np.maximum.accumulate(stops)
    cuts = np.flatnonzero(starts[1:] > reached[:-1]) + 1
    starts, stops = starts[np.concatenate([[0], cuts])], reached[np.concatenate([cuts - 1, [len(reached) - 1]])]
    worth = (stops - starts >= gap_rows) | (starts == 0) | (stops == num_rows)
    first = np.concatenate([[0], stops[worth]]).tolist()
    last = np.concatenate([starts[worth], [num_rows]]).tolist()
    return [(start, stop) for start, stop in zip(first, last, strict=True) if start < stop]
