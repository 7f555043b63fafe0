"""Making files durable: one after the other, or several together.

A sync waits for the file system's journal, and syncs that wait at the same time wait for the same turn of it: three
together take little longer than one. The threads that wait are one pool for the whole process, made on first use. A
process that was forked has none of its parent's threads and makes a pool of its own.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lance_core.buffers.fork_lock import fork_lock

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["sync", "sync_together"]

_MAX_THREADS: Final = 16

_lock: Final = fork_lock()
_pool: ThreadPoolExecutor | None = None


def sync(path: str) -> None:
    """Make the content of a file durable, or the names in a directory.

    Raises:
        OSError: as the operating system has it.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_together(path: str, depends_on: Collection[str]) -> None:
    """Make the content of a file durable, and others with their names.

    Args:
        path: the file.
        depends_on: the others.

    Raises:
        OSError: as the operating system has it; the syncs that were begun have come to an end.
    """
    others = [*depends_on, *{os.path.dirname(other) for other in depends_on}]
    futures = [_threads().submit(sync, other) for other in others] if others else []
    try:
        sync(path)
    finally:
        failures = [error for future in futures if (error := future.exception()) is not None]
    for failure in failures:
        raise failure


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="lance-sync")
        return _pool


def _forget() -> None:
    """In a forked process: its threads are gone."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
