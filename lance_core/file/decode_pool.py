"""The threads that fetch and decode: one pool for the whole process, made on first use.

Its tasks never wait for each other, so that any number of scans can share it, also scans that are consumed inside a
task of another pool. A process that was forked has none of its parent's threads and makes a pool of its own.

Source: own measurements: starting and ending a pool costs some 150 us, as much as decoding a small page.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lance_core.buffers.fork_lock import fork_lock

__all__ = ["decode_pool"]

_MAX_THREADS: Final = 8

_lock: Final = fork_lock()
_pool: ThreadPoolExecutor | None = None


def decode_pool() -> ThreadPoolExecutor:
    """The pool; tasks that are given to it must not wait for other tasks of it."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_num_threads(), thread_name_prefix="lance-decode")
        return _pool


def _num_threads() -> int:
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:
        available = os.cpu_count() or 1
    return min(_MAX_THREADS, available)


def _forget() -> None:
    """In a forked process: its threads are gone."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
