"""Determines which rows of which pages contain scattered rows of a field. Reads nothing.

Every leaf of a field has its own pages, and pages of different leaves need not have the same boundaries. The rows are
split at every page boundary of every leaf. Neighboring parts are joined again if, for every leaf, the pages of both
parts can be read as one.

**Source:** ``lance.file.v2.ColumnMetadata.Page.length``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.structural.page_requests import Rows
    from lance_core.file.structural.page_plan import LeafColumn

__all__ = ["split_rows"]


def split_rows(
    columns: Sequence[LeafColumn],
    rows: NDArray[np.int64],
    merge_keys: Callable[[LeafColumn], Sequence[bytes | None]],
) -> list[list[tuple[list[int], Rows]]]:
    """Return the pages and slots to read for each leaf.

    Args:
        columns: the leaves of one field.
        rows: row numbers in the file, shape (num_rows,), ascending, without duplicates.
        merge_keys: returns the key of each page of a leaf; pages with equal keys can be read as one.

    Returns:
        For each part of the rows, in row order, and for each leaf: the pages to read, and the slots to read in them.
        Slots are numbered as if the pages were consecutive. They are given as a range if they are in one page and have
        no gaps.
    """
    only = [column.page_of(int(rows[0])) for column in columns]
    if only == [column.page_of(int(rows[-1])) for column in columns]:
        return [[_slots(column, [page], rows) for column, page in zip(columns, only, strict=True)]]
    edges = columns[0].row_starts
    if len(columns) > 1:
        edges = np.unique(np.concatenate([column.row_starts for column in columns]))
    bounds = np.searchsorted(rows, edges)
    filled = np.flatnonzero(np.diff(bounds))
    pages = [np.searchsorted(column.row_starts, edges[filled], side="right") - 1 for column in columns]
    starts = _part_starts(columns, pages, merge_keys)
    stops = np.append(starts[1:], len(filled))
    parts = []
    for first, last in zip(starts.tolist(), stops.tolist(), strict=True):
        chosen = rows[bounds[filled[first]] : bounds[filled[last - 1] + 1]]
        parts.append(
            [
                _slots(column, np.unique(found[first:last]).tolist(), chosen)
                for column, found in zip(columns, pages, strict=True)
            ]
        )
    return parts


def _part_starts(
    columns: Sequence[LeafColumn],
    pages: Sequence[NDArray[np.int64]],
    merge_keys: Callable[[LeafColumn], Sequence[bytes | None]],
) -> NDArray[np.int64]:
    """Return the indices of the pieces that cannot be joined with the preceding piece."""
    num_pieces = len(pages[0])
    starts = np.ones(num_pieces, np.bool_)
    if num_pieces > 1:
        starts[1:] = False
        for column, found in zip(columns, pages, strict=True):
            keys = merge_keys(column)
            of_pieces = [keys[page] for page in found.tolist()]
            starts[1:] |= [before is None or before != after for before, after in itertools.pairwise(of_pieces)]
    return np.flatnonzero(starts)


def _slots(column: LeafColumn, pages: list[int], rows: NDArray[np.int64]) -> tuple[list[int], Rows]:
    """Return some pages of a leaf, and the slots of rows in them."""
    if len(pages) == 1:
        within = rows - column.row_starts[pages[0]]
    else:
        starts = column.row_starts[pages]
        lengths = column.row_starts[[page + 1 for page in pages]] - starts
        shifts = starts - (np.cumsum(lengths) - lengths)
        within = rows - shifts[np.searchsorted(starts, rows, side="right") - 1]
    per_row = column.slots_per_row
    start, stop = int(within[0]), int(within[-1]) + 1
    if len(pages) == 1 and stop - start == len(rows):
        return pages, (start * per_row, stop * per_row)
    if per_row > 1:
        within = (within[:, None] * per_row + np.arange(per_row)).reshape(-1)
    return pages, within
