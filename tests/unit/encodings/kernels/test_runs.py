"""Expanding run-length encoded chunks."""

from __future__ import annotations

import numpy as np

from lance_core.encodings.kernels.runs import expand_runs


def _expand(values, lengths, runs_per_chunk, values_per_chunk):
    return expand_runs(
        np.array(values, np.uint16),
        np.array(lengths, np.uint8),
        np.array(runs_per_chunk, np.int64),
        np.array(values_per_chunk, np.int64),
    )


def test_runs_of_several_chunks_are_expanded():
    assert _expand([7, 8, 7], [2, 1, 3], [2, 1], [3, 3]).tolist() == [7, 7, 8, 7, 7, 7]


def test_runs_longer_than_their_chunk_are_truncated():
    assert _expand([7, 8, 9], [2, 255, 200], [2, 1], [4, 2]).tolist() == [7, 7, 8, 8, 9, 9]


def test_runs_shorter_than_their_chunk_are_refused():
    assert _expand([7, 8], [2, 1], [1, 1], [3, 1]) is None


def test_chunk_without_runs_must_have_no_values():
    assert _expand([7], [3], [0, 1], [0, 3]).tolist() == [7, 7, 7]
    assert _expand([7], [3], [0, 1], [1, 3]) is None
