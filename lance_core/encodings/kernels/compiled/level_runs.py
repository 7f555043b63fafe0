"""Compiled kernels that process repetition and definition levels in a single pass. See ``kernels/level_runs.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_core.encodings.kernels.compiled.jit import kernel

__all__ = ["chunk_rows", "replace_by_items", "value_bounds"]


@kernel
def value_bounds(definition: Any, max_visible: Any, value_stops: Any, bounds: Any) -> None:
    """Set ``bounds[i + 1]`` to one more than the index of the level that owns value ``value_stops[i] - 1``."""
    chunk = 0
    num_seen = 0
    stop = value_stops[0] if len(value_stops) else -1
    for level in range(len(definition)):
        # The counter is incremented without a branch, which would often be mispredicted.
        num_seen += definition[level] <= max_visible
        if num_seen == stop:
            while chunk < len(value_stops) and value_stops[chunk] == num_seen:
                chunk += 1
                bounds[chunk] = level + 1
            stop = value_stops[chunk] if chunk < len(value_stops) else -1


@kernel
def chunk_rows(repetition: Any, row_level: Any, bounds: Any, entries: Any) -> None:
    """Count rows and levels in chunks; ``entries`` is filled with the result described in ``kernels/level_runs.py``."""
    num_levels = len(repetition)
    for chunk in range(len(bounds) - 1):
        start, stop = bounds[chunk], bounds[chunk + 1]
        num_ended = 0
        last_start = start
        for level in range(start, stop):
            if repetition[level] == row_level:
                num_ended += level > start
                last_start = level
        is_whole = stop == num_levels or repetition[stop] == row_level
        entries[chunk, 0] = num_ended + is_whole
        entries[chunk, 1] = 0 if is_whole else stop - last_start


@kernel
def replace_by_items(
    lengths: Any,
    repetition: Any,
    definition: Any,
    new_repetition: Any,
    new_definition: Any,
    closed: Any,
) -> None:
    """Replace every slot with one level per item; an empty slot keeps one level, which is marked as closed."""
    has_definition = len(definition) > 0
    has_closed = len(closed) > 0
    at = 0
    for slot in range(len(lengths)):
        length = lengths[slot]
        is_closed = length == 0
        stop = at + max(length, np.int64(1))
        new_repetition[at] = repetition[slot]
        for level in range(at + 1, stop):
            new_repetition[level] = 0
        if has_definition:
            for level in range(at, stop):
                new_definition[level] = definition[slot]
        if has_closed:
            for level in range(at, stop):
                closed[level] = is_closed
        at = stop
