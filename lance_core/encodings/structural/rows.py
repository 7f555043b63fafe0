"""Extracts whole rows from decoded levels and values.

Source: a row starts at every repetition level that equals the number of list layers;
without list layers, every level is a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.encodings.kernels.ranges import expand_ranges
from lance_core.encodings.levels.build import Levels
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_core.encodings.api import DataBlock

__all__ = ["cut_rows", "pick_rows"]


def cut_rows(levels: Levels, block: DataBlock, start: int, stop: int, num_rows: int | None) -> tuple[Levels, DataBlock]:
    """Extract rows ``[start, stop)``, relative to the first row that *starts* in the levels.

    Args:
        levels: decoded levels; they may start and end in the middle of a row.
        block: one value per visible level.
        start: first row.
        stop: end of the range; row ``stop`` may start after the end of the levels.
        num_rows: number of rows in the page if the levels are from a whole page; otherwise None.

    Raises:
        CorruptDataError: the rows or the number of values do not match the page.
    """
    if (start, stop) == (0, num_rows):
        level_start, level_stop = 0, _checked_num_levels(levels, stop)
    else:
        level_start, level_stop = _level_range(levels, start, stop)
    visible = levels.visible()
    if (levels.num_levels if visible is None else int(visible.sum())) != block.num_values:
        raise CorruptDataError("the number of values of a page differs from its number of visible levels")
    if (level_start, level_stop) == (0, levels.num_levels):
        return levels, block
    value_start, value_stop = level_start, level_stop
    if visible is not None:
        value_start = int(visible[:level_start].sum())
        value_stop = value_start + int(visible[level_start:level_stop].sum())
    chosen = slice(level_start, level_stop)
    cut = Levels(
        levels.layers,
        None if levels.repetition is None else levels.repetition[chosen],
        None if levels.definition is None else levels.definition[chosen],
        level_stop - level_start,
    )
    return cut, block.slice(value_start, value_stop)


def pick_rows(levels: Levels, rows: NDArray[np.int64], num_rows: int) -> Levels:
    """Extract the levels of individual rows.

    Args:
        levels: levels of a whole page.
        rows: ascending row numbers, without duplicates.
        num_rows: number of rows in the page.

    Raises:
        CorruptDataError: the levels do not match the number of rows of the page.
    """
    _checked_num_levels(levels, num_rows)
    wanted = rows
    if levels.repetition is not None:
        bounds = np.append(np.flatnonzero(levels.repetition == levels.layers.max_repetition), levels.num_levels)
        wanted = expand_ranges(bounds[rows], bounds[rows + 1] - bounds[rows])
    return Levels(
        levels.layers,
        None if levels.repetition is None else levels.repetition[wanted],
        None if levels.definition is None else levels.definition[wanted],
        len(wanted),
    )


def _checked_num_levels(levels: Levels, num_rows: int) -> int:
    """Return the number of levels of a whole page, after checking its number of rows."""
    num_found = levels.num_levels
    if levels.repetition is not None:
        starts_row = levels.repetition == levels.layers.max_repetition
        num_found = int(np.count_nonzero(starts_row)) if bool(starts_row[:1].all()) else 0
    if num_found != num_rows:
        raise CorruptDataError(f"the levels have {counted(num_found, 'whole row')}, but the page has {num_rows}")
    return levels.num_levels


def _level_range(levels: Levels, start: int, stop: int) -> tuple[int, int]:
    if levels.repetition is None:
        bounds = None
        num_found = levels.num_levels
    else:
        bounds = np.append(np.flatnonzero(levels.repetition == levels.layers.max_repetition), levels.num_levels)
        num_found = len(bounds) - 1
    if stop > num_found:
        raise CorruptDataError(f"expected at least {counted(stop, 'row')} in the decoded levels, found {num_found}")
    return (start, stop) if bounds is None else (int(bounds[start]), int(bounds[stop]))
