"""SharedPool: a thread pool that all users in a process share, created on first use.

A forked process does not have its parent's threads and creates its own pool.

Source: our measurements. Starting and stopping a pool takes about 150 µs, as long as decoding a small page.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lance_core.buffers.fork_lock import fork_lock

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SharedPool"]

_lock: Final = fork_lock()


class SharedPool:
    """A pool that exists as long as the process. Create objects of this class only while a module is being imported.

    Args:
        name: prefix of the names of the threads.
        num_threads: returns the maximum number of threads; called when the pool is created.
    """

    def __init__(self, name: str, num_threads: Callable[[], int]) -> None:
        """Initialize without starting threads."""
        self._name = name
        self._num_threads = num_threads
        self._pool: ThreadPoolExecutor | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def get(self) -> ThreadPoolExecutor:
        """Return the pool of this process."""
        with _lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._num_threads(), thread_name_prefix=self._name)
            return self._pool

    def _forget(self) -> None:
        """Drop the pool in a forked process, which does not have the threads of the pool."""
        self._pool = None
