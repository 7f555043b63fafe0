"""Spans: sorted, disjoint ranges of positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError

POINTS = st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True).map(sorted)


def _of(points: list[int]) -> Spans:
    return Spans.of_points(np.array(points, np.int64))


@given(POINTS)
def test_adjacent_positions_are_merged_into_one_span(points: list[int]) -> None:
    spans = _of(points)
    assert spans.positions().tolist() == points
    assert spans.total == len(points)
    assert (spans.starts[1:] > spans.stops[:-1]).all()


@given(POINTS, st.integers(0, 60), st.integers(0, 60))
def test_clipped_spans_are_relative_to_the_start_of_the_window(points: list[int], first: int, second: int) -> None:
    start, stop = sorted((first, second))
    clipped = _of(points).clipped(start, stop)
    inside = [point - start for point in points if start <= point < stop]
    assert (clipped.positions().tolist() if clipped is not None else []) == inside


@given(POINTS)
def test_covering_spans_contain_the_byte_of_each_bit_exactly_once(points: list[int]) -> None:
    covering = _of(points).covering(8)
    assert covering.positions().tolist() == sorted({point // 8 for point in points})


@given(POINTS)
def test_spans_index_of_returns_the_ordinal_of_each_position(points: list[int]) -> None:
    assert _of(points).index_of(np.array(points)).tolist() == list(range(len(points)))


@given(POINTS, st.integers(1, 9))
def test_scaled_spans_contain_every_position_in_the_finer_unit(points: list[int], factor: int) -> None:
    finer = [point * factor + part for point in points for part in range(factor)]
    assert _of(points).scaled(factor).positions().tolist() == finer


def test_spans_beyond_any_file_size_raise_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="exceeds the maximum file size"):
        Spans.single(0, 1 << 40).scaled(1 << 30)
    with pytest.raises(CorruptDataError, match="exceeds the maximum file size"):
        Spans.single(0, 1 << 61).shifted(1 << 61)
