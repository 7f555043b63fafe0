"""Makes files durable, one at a time or several together.

A sync waits until the file system commits its journal. Concurrent syncs share one journal commit, so three concurrent
syncs take little longer than one. All threads that wait for syncs belong to one pool per process, which is created on
first use. A forked process does not have its parent's threads and creates its own pool.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lance_core.buffers.fork_lock import fork_lock

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["sync", "sync_together"]

_MAX_THREADS: Final = 16

_lock: Final = fork_lock()
_pool: ThreadPoolExecutor | None = None


def sync(path: str) -> None:
    """Make the content of a file or the entries of a directory durable.

    Raises:
        OSError: the operating system reports an error.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_together(path: str, depends_on: Collection[str]) -> None:
    """Make the content of a file durable, together with other files and their directory entries.

    Args:
        path: path of the file.
        depends_on: paths of the other files.

    Raises:
        OSError: the operating system reports an error; it is raised after all syncs have completed.
    """
    # The last file shares a thread with the directories: waking a thread takes longer than the sync of a directory
    # whose entries the journal commit of the file has made durable already.
    *others, last = [[other] for other in depends_on] or [[]]
    last += {os.path.dirname(other) for other in depends_on}
    futures = [_threads().submit(_sync_all, paths) for paths in (*others, last) if paths]
    try:
        sync(path)
    finally:
        failures = [error for future in futures if (error := future.exception()) is not None]
    for failure in failures:
        raise failure


def _sync_all(paths: Sequence[str]) -> None:
    for path in paths:
        sync(path)


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="lance-sync")
        return _pool


def _forget() -> None:
    """Drop the pool in a forked process, which does not have its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
