"""Finds and expands runs of equal values.

Run lengths are u8: a longer run is stored as several runs. Some writers let the last run extend past the end of its
chunk, so expansion truncates every chunk to its number of values.

Source: behavior of pylance 14.0.2; for runs past the end of a chunk, behavior of pylance 0.38 to 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["expand_runs", "find_runs"]

_MAX_RUN = 255


def find_runs(
    values: NDArray[Any], chunk_bounds: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[np.int64]]:
    """Find the runs of many chunks; the inverse of :func:`expand_runs`.

    Args:
        values: (num_values,) words.
        chunk_bounds: (num_chunks + 1,) index of the first value of each chunk, followed by num_values; chunks may be
            empty.

    Returns:
        One value per run, the length of each run, and the number of runs in each chunk.
    """
    if len(values) == 0:
        return values, np.empty(0, np.uint8), np.zeros(len(chunk_bounds) - 1, np.int64)
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = np.union1d(changes, chunk_bounds[:-1][np.diff(chunk_bounds) > 0])
    lengths = np.diff(np.append(starts, len(values)))
    pieces = -(-lengths // _MAX_RUN)
    piece_lengths = np.full(int(pieces.sum()), _MAX_RUN, np.uint8)
    last = np.cumsum(pieces) - 1
    piece_lengths[last] = lengths - (pieces - 1) * _MAX_RUN
    first_runs = np.searchsorted(starts, chunk_bounds)
    runs_before = np.append(0, last + 1)[first_runs]
    return np.repeat(values[starts], pieces), piece_lengths, np.diff(runs_before)


def expand_runs(
    values: NDArray[Any],
    run_lengths: NDArray[np.uint8],
    runs_per_chunk: NDArray[np.int64],
    values_per_chunk: NDArray[np.int64],
) -> NDArray[Any] | None:
    """Expand the runs of many chunks.

    Args:
        values: (num_runs, ...) one entry per run, chunk after chunk.
        run_lengths: (num_runs,) number of repetitions of each value.
        runs_per_chunk: (num_chunks,) number of runs in each chunk.
        values_per_chunk: (num_chunks,) number of values in each chunk.

    Returns:
        A new array of (sum of values_per_chunk, ...) values, or None if the runs of a chunk are too short for its
        values.
    """
    lengths = run_lengths.astype(np.int64)
    run_stops = np.cumsum(lengths)
    chunk_stops = np.append(0, run_stops)[np.cumsum(runs_per_chunk)]
    chunk_starts = np.append(0, chunk_stops[:-1])
    if bool((chunk_stops - chunk_starts < values_per_chunk).any()):
        return None
    if bool((chunk_stops - chunk_starts > values_per_chunk).any()):
        limits = np.repeat(chunk_starts + values_per_chunk, runs_per_chunk)
        lengths = np.clip(limits - (run_stops - lengths), 0, lengths)
    return np.repeat(values, lengths, axis=0)
