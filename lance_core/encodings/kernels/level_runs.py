"""Levels: expands one level per slot to one level per item, and finds the levels and rows of chunks of values.

Large inputs are processed by compiled kernels; both implementations return the same levels.

Source: specific to this library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_core.encodings.kernels.loading import compiled_kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["chunk_rows", "replace_by_items", "value_bounds"]

_LEVEL_BYTES = 8


def value_bounds(definition: NDArray[np.uint16], max_visible: int, value_stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the levels of each chunk of values start and end: (num_chunks + 1,) int64.

    Args:
        definition: (num_levels,) levels; levels up to ``max_visible`` own a value.
        max_visible: the highest level that owns a value.
        value_stops: (num_chunks,) number of values up to the end of each chunk, ascending; at least 1.

    Returns:
        0, followed by the end of each chunk: one more than the index of the level that owns the chunk's last value.
    """
    bounds = np.zeros(len(value_stops) + 1, np.int64)
    compiled = compiled_kernels("level_runs", _LEVEL_BYTES * len(definition))
    if compiled is not None:
        compiled.value_bounds(definition, max_visible, value_stops, bounds)
        return bounds
    bounds[1:] = np.flatnonzero(definition <= max_visible)[value_stops - 1] + 1
    return bounds


def chunk_rows(repetition: NDArray[np.uint16], row_level: int, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count rows in chunks of levels.

    Args:
        repetition: (num_levels,) levels of whole rows.
        row_level: the level that starts a row.
        bounds: (num_chunks + 1,) index of the first level of each chunk, followed by num_levels; no chunk is empty.

    Returns:
        (num_chunks, 2): for each chunk, the number of rows that end in it, and the number of its levels that belong to
        a row that continues in the next chunk.
    """
    entries = np.zeros((len(bounds) - 1, 2), np.int64)
    compiled = compiled_kernels("level_runs", _LEVEL_BYTES * len(repetition))
    if compiled is not None:
        compiled.chunk_rows(repetition, row_level, bounds, entries)
        return entries
    row_starts = np.flatnonzero(repetition == row_level)
    row_stops = np.append(row_starts[1:], len(repetition))
    chunk_starts, chunk_stops = bounds[:-1], bounds[1:]
    entries[:, 0] = np.diff(np.searchsorted(row_stops, bounds, side="right"))
    last_start = row_starts[np.searchsorted(row_starts, chunk_stops, side="left") - 1]
    ends_row = row_stops[np.searchsorted(row_stops, chunk_stops, side="left")] == chunk_stops
    entries[:, 1] = np.where(ends_row, 0, chunk_stops - np.maximum(last_start, chunk_starts))
    return entries


def replace_by_items(
    lengths: NDArray[np.int64],
    repetition: NDArray[np.uint16],
    definition: NDArray[np.uint16] | None,
) -> tuple[NDArray[np.uint16], NDArray[np.uint16] | None, NDArray[np.bool_] | None]:
    """Replace every slot with its items; a slot without items keeps one level, which is marked as closed.

    Args:
        lengths: (num_slots,) number of items of each slot.
        repetition: (num_slots,) level of each slot, which its first item inherits; all other items have level 0.
        definition: (num_slots,) level of each slot, which all its items inherit; None = no definition levels.

    Returns:
        The repetition levels, the definition levels, and the mask of closed levels (None if no level is closed).
    """
    has_closed = not bool(lengths.all())
    num_levels = int(lengths.sum()) + (int(np.count_nonzero(lengths == 0)) if has_closed else 0)
    compiled = compiled_kernels("level_runs", _LEVEL_BYTES * num_levels)
    if compiled is not None:
        new_repetition = np.empty(num_levels, np.uint16)
        new_definition = np.empty(0 if definition is None else num_levels, np.uint16)
        closed = np.empty(num_levels if has_closed else 0, np.bool_)
        old_definition = new_definition[:0] if definition is None else definition
        compiled.replace_by_items(lengths, repetition, old_definition, new_repetition, new_definition, closed)
        return new_repetition, None if definition is None else new_definition, closed if has_closed else None
    num_entries = np.maximum(lengths, 1)
    new_repetition = np.zeros(num_levels, np.uint16)
    new_repetition[np.cumsum(num_entries) - num_entries] = repetition
    return (
        new_repetition,
        None if definition is None else np.repeat(definition, num_entries),
        np.repeat(lengths == 0, num_entries) if has_closed else None,
    )
