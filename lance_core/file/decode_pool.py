"""The thread pool that decodes data, and fetches it from local files and memory.

The tasks of the pool never wait for each other, so any number of scans can share it, including scans that are
consumed inside a task of another pool. The tasks may wait for requests (:mod:`lance_core.io.request_pool`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from lance_core.buffers.shared_pool import SharedPool

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["decode_pool"]

_MAX_THREADS: Final = 8


def decode_pool() -> ThreadPoolExecutor:
    """Return the pool; its tasks must not wait for other tasks of the same pool."""
    return _POOL.get()


def _num_threads() -> int:
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:
        available = os.cpu_count() or 1
    return min(_MAX_THREADS, available)


_POOL: Final = SharedPool("lance-decode", _num_threads)
