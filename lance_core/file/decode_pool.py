"""The thread pools that decode data, and that fetch data ahead of the decoding threads.

Tasks never wait for tasks of the same pool, so any number of scans can share the pools, including scans that are
consumed inside a task of another pool. Decoding tasks may wait for fetching tasks, and those for requests
(:mod:`lance_core.io.request_pool`), but not the other way around.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lance_core.buffers.shared_pool import SharedPool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["decode_pool", "fetch_pool"]

_MAX_THREADS: Final = 8
_FETCHING_THREADS: Final = 32


def decode_pool() -> ThreadPoolExecutor:
    """Return the pool that decodes."""
    return _DECODING.get()


def fetch_pool() -> ThreadPoolExecutor:
    """Return the pool that reads what the decoding threads need next; its threads spend their time waiting."""
    return _FETCHING.get()


def _num_threads() -> int:
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:
        available = os.cpu_count() or 1
    return min(_MAX_THREADS, available)


_DECODING: Final = SharedPool("lance-decode", _num_threads)
_FETCHING: Final = SharedPool("lance-fetch", lambda: _FETCHING_THREADS)
