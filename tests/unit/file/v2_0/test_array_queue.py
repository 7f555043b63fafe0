"""The queue that collects the arrays of a column into pages of format 2.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_core.file.v2_0.array_queue import ArrayQueue


def _add(queue: ArrayQueue, *sizes: int) -> list[list[int]]:
    """Add arrays of so many 8-byte values, and return the lengths of the pages that each array completes."""
    return [[len(page) for page in queue.add(pa.array(np.arange(size)))] for size in sizes]


def test_array_queue_emits_a_page_only_when_its_limit_is_exceeded() -> None:
    queue = ArrayQueue(80, 1 << 20)
    assert _add(queue, 4, 6, 1) == [[], [], [11]]
    assert queue.num_bytes == 0
    assert list(queue.drain()) == []


def test_array_queue_does_not_join_a_large_array_with_others() -> None:
    queue = ArrayQueue(80, 1 << 20)
    assert _add(queue, 4, 20) == [[], [4, 20]]


def test_a_single_array_is_split_into_equal_parts() -> None:
    assert _add(ArrayQueue(0, 80), 25) == [[9, 9, 7]]
    assert _add(ArrayQueue(0, 1), 3) == [[1, 1, 1]]


def test_arrays_without_rows_become_a_page_without_rows() -> None:
    queue = ArrayQueue(80, 80)
    assert _add(queue, 0) == [[]]
    assert [len(page) for page in queue.drain()] == [0]


def test_many_small_arrays_are_joined_early() -> None:
    queue = ArrayQueue(1 << 20, 1 << 20)
    assert _add(queue, *[1] * 3000) == [[]] * 3000
    assert queue.num_bytes == 24_000
    assert [len(page) for page in queue.drain()] == [3000]


def test_dictionaries_that_cannot_be_joined_become_separate_pages() -> None:
    queue = ArrayQueue(1 << 20, 1 << 20)
    for base in (0, 100):
        items = pa.array([f"{base + index}" for index in range(100)])
        indices = pa.array(range(100), pa.int8())
        assert list(queue.add(pa.DictionaryArray.from_arrays(indices, items))) == []
    assert [len(page) for page in queue.drain()] == [100, 100]
