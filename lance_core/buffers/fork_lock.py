"""Locks that a fork waits for.

A forked process has only the thread that forked. A lock held by another thread at that moment would stay locked forever
in the new process, and the data that it guards might be inconsistent. A fork therefore first acquires these locks,
waiting for their holders if necessary; afterward, both processes release them.

Source: ``os.register_at_fork``.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["fork_lock"]


def fork_lock() -> AbstractContextManager[bool]:
    """Create a lock that exists as long as the process. Call this function only while a module is being imported.

    A fork acquires the locks in reverse order of their creation. A thread that holds a lock may therefore wait for a
    lock that was created earlier, but not for one that was created later.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
