"""PageQueue writes pages in the order of submission, limits the number of pending pages, and reports failures."""

from __future__ import annotations

import threading

import pytest

from lance_core.file.page_queue import PageQueue

LARGE = 1 << 20


@pytest.fixture
def queue():
    queue = PageQueue()
    queue._num_threads = 2
    yield queue
    queue.close()


def test_pages_are_placed_in_the_order_of_submission(queue):
    placed = []
    second_is_done = threading.Event()

    def first():
        # The first page is ready only when the second one is.
        assert second_is_done.wait(10)
        return ["first"]

    def second():
        second_is_done.set()
        return ["second"]

    queue.submit(LARGE, first, placed.extend)
    queue.submit(LARGE, second, placed.extend)
    queue.submit(10, lambda: ["small"], placed.extend)
    assert placed == ["first", "second", "small"]
    assert queue.num_bytes == 0


def test_submitting_too_many_pages_waits_for_the_oldest_page(queue):
    placed = []
    for number in range(9):
        queue.submit(LARGE, lambda number=number: [number], placed.extend)
        assert queue.num_bytes <= 5 * LARGE
    assert placed == list(range(5))
    queue.drain()
    assert placed == list(range(9))


def test_page_queue_limits_pending_pages_by_bytes(queue):
    placed = []
    for number in range(3):
        queue.submit(100 << 20, lambda number=number: [number], placed.extend)
    assert placed == [0, 1]


def test_small_pages_are_encoded_without_a_thread(queue):
    threads = []
    queue.submit(10, lambda: threads.append(threading.current_thread()) or [], lambda _: None)
    assert threads == [threading.current_thread()]
    assert queue._pool is None


def test_single_page_of_a_file_is_encoded_without_a_thread(queue):
    threads = []
    queue.submit(LARGE, lambda: threads.append(threading.current_thread()) or ["first"], threads.extend)
    assert queue.num_bytes == LARGE
    queue.drain()
    assert threads == [threading.current_thread(), "first"]
    assert queue._pool is None
    assert queue.num_bytes == 0


def test_page_queue_failure_reaches_the_caller(queue):
    def fail():
        raise ValueError("no page")

    queue.submit(LARGE, fail, lambda _: None)
    with pytest.raises(ValueError, match="no page"):
        queue.drain()


def test_closed_page_queue_writes_no_page(queue):
    placed = []
    queue.submit(LARGE, lambda: [1], placed.extend)
    queue.close()
    queue.drain()
    assert placed == []
    queue.close()
