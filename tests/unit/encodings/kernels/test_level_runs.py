"""Levels of slots and of chunks of values; the NumPy and compiled kernels return the same results."""

from __future__ import annotations

import numpy as np
import pytest

from lance_core.encodings.kernels.level_runs import chunk_rows, replace_by_items, value_bounds

RNG = np.random.default_rng(3)


@pytest.fixture(params=["0", "1"], ids=["numpy", "compiled"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("LANCE_CORE_COMPILED", request.param)
    return str(request.param)


@pytest.mark.usefixtures("implementation")
def test_replace_by_items_repeats_the_levels_of_each_slot():
    repetition, definition, closed = replace_by_items(
        np.array([2, 0, 3]), np.array([1, 1, 2], np.uint16), np.array([0, 4, 5], np.uint16)
    )
    assert repetition.tolist() == [1, 0, 1, 2, 0, 0]
    assert definition is not None
    assert definition.tolist() == [0, 0, 4, 5, 5, 5]
    assert closed is not None
    assert closed.tolist() == [False, False, True, False, False, False]


@pytest.mark.usefixtures("implementation")
def test_replace_by_items_without_empty_slots_returns_no_closed_levels():
    repetition, definition, closed = replace_by_items(np.array([1, 2]), np.array([1, 1], np.uint16), None)
    assert repetition.tolist() == [1, 1, 0]
    assert definition is None
    assert closed is None


@pytest.mark.usefixtures("implementation")
def test_value_bounds_assign_invisible_levels_to_the_next_chunk():
    definition = np.array([0, 2, 1, 2, 2, 0, 2], np.uint16)
    assert value_bounds(definition, 1, np.array([1, 2, 3])).tolist() == [0, 1, 3, 6]


@pytest.mark.usefixtures("implementation")
def test_chunk_rows_count_the_rows_that_end_in_each_chunk():
    repetition = np.array([1, 0, 1, 0, 0, 0, 1], np.uint16)
    assert chunk_rows(repetition, 1, np.array([0, 2, 4, 5, 7])).tolist() == [[1, 0], [0, 2], [0, 1], [2, 0]]


def test_compiled_and_numpy_level_kernels_agree_on_random_input(monkeypatch):
    for _ in range(20):
        lengths = RNG.integers(0, 5, 200)
        levels = RNG.integers(0, 4, 200).astype(np.uint16)
        levels[0] = 3
        expanded = []
        for switch in ("0", "1"):
            monkeypatch.setenv("LANCE_CORE_COMPILED", switch)
            new = replace_by_items(lengths, levels, levels)
            num_visible = int(np.count_nonzero(new[1] <= 1))
            bounds = value_bounds(new[1], 1, np.arange(1, num_visible + 1, 7))
            rows = chunk_rows(new[0], 3, np.append(np.arange(0, len(new[0]), 9), len(new[0])))
            expanded.append([part.tolist() for part in (*new, bounds, rows)])
        assert expanded[0] == expanded[1]
