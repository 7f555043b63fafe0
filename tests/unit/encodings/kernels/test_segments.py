"""Segments of a byte buffer: gathering, slicing, and interleaving."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.kernels.segments import Segments, interleave

DATA = np.frombuffer(b"..AAAA...BB.....CCCC", np.uint8)


def _segments(starts, sizes):
    return Segments(DATA, np.array(starts, np.int64), np.array(sizes, np.int64))


@pytest.mark.parametrize(
    ("starts", "sizes", "joined"),
    [
        ([2, 9, 16], [4, 2, 4], b"AAAABBCCCC"),
        ([2, 9, 16], [2, 2, 4], b"AABBCCCC"),
        ([2, 9, 16], [4, 0, 4], b"AAAACCCC"),
        ([2, 4], [2, 2], b"AAAA"),
        ([0, 8, 16], [2, 2, 1], b"...BC"),
        ([16], [4], b"CCCC"),
        ([], [], b""),
        ([3, 3], [0, 0], b""),
    ],
)
def test_gather_joins_the_bytes_of_segments(starts, sizes, joined):
    assert _segments(starts, sizes).gather().tobytes() == joined


@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("mean_bytes", [20, 3_000])
@pytest.mark.parametrize("distance", [5, 100_000])
def test_gather_joins_segments_in_any_order(monkeypatch, compiled, mean_bytes, distance):
    monkeypatch.setenv("LANCE_CORE_COMPILED", compiled)
    random = np.random.default_rng(mean_bytes)
    sizes = random.integers(0, 2 * mean_bytes, 50)
    starts = np.cumsum(sizes + random.integers(0, distance, 50)) - sizes
    data = random.integers(0, 256, int(starts[-1] + sizes[-1]), np.uint8)
    for order in (np.arange(50), np.arange(50)[::-1], random.permutation(50)):
        segments = Segments(data, starts[order], sizes[order])
        expected = b"".join(segments.segment(index).tobytes() for index in range(50))
        assert segments.gather().tobytes() == expected


def test_gather_of_adjacent_segments_is_a_view():
    assert np.shares_memory(_segments([2, 4], [2, 2]).gather(), DATA)


@pytest.mark.parametrize("starts", [[2, 9, 16], [0, 8, 16], [5]])
@pytest.mark.parametrize("segment_bytes", [0, 1, 3])
def test_segment_rows_are_the_first_bytes_of_each_segment(starts, segment_bytes):
    rows = _segments(starts, [4] * len(starts)).rows(segment_bytes)
    assert [row.tobytes() for row in rows] == [DATA[start : start + segment_bytes].tobytes() for start in starts]


def test_segment_rows_may_be_long_and_unevenly_spaced():
    data = np.arange(256, dtype=np.uint8)
    starts = np.array([0, 50, 150], np.int64)
    rows = Segments(data, starts, np.full(3, 60, np.int64)).rows(40)
    assert [row[0] for row in rows] == [0, 50, 150]
    assert rows.shape == (3, 40)


def test_evenly_divided_segments_end_with_a_shorter_segment():
    segments = Segments.evenly(DATA, 3, 8)
    assert segments.sizes.tolist() == [8, 8, 4]
    assert segments.segment(2).tobytes() == b"CCCC"


def test_interleave_alternates_the_segments_of_columns():
    letters = Segments.back_to_back(np.frombuffer(b"AAAABBCCCC", np.uint8), np.array([4, 2, 4]))
    digits = Segments.back_to_back(np.frombuffer(b"122", np.uint8), np.array([1, 0, 2]))
    joined, positions = interleave([letters, digits])
    assert joined.tobytes() == b"AAAA1BBCCCC22"
    assert positions.tolist() == [0, 5, 7, 13]


def test_interleave_of_no_segments_is_empty():
    empty = Segments.back_to_back(np.empty(0, np.uint8), np.empty(0, np.int64))
    joined, positions = interleave([empty])
    assert (len(joined), positions.tolist()) == (0, [0])


@pytest.mark.parametrize("num_segments", [1, 2, 5])
@pytest.mark.parametrize("sizes", [(3, 3, 3), (3, 1, 0), (0, 0, 2), (0, 0, 0), (2, 5, 2)])
def test_interleave_alternates_columns_of_even_and_uneven_segments(num_segments, sizes):
    first, middle, last = sizes
    lengths = np.array([first, *[middle] * num_segments, last], np.int64)
    columns = [
        Segments.back_to_back(np.arange(lengths.sum(), dtype=np.uint8), lengths),
        Segments.evenly(np.arange(100, 100 + 2 * len(lengths), dtype=np.uint8), len(lengths), 2),
    ]
    joined, positions = interleave(columns)
    groups = [[column.segment(index).tobytes() for column in columns] for index in range(len(lengths))]
    assert joined.tobytes() == b"".join(b"".join(group) for group in groups)
    assert np.diff(positions).tolist() == [sum(map(len, group)) for group in groups]
