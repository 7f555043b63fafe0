"""The threads that wait for object stores, so that the requests for several objects are in flight together.

Its tasks only send requests to stores and never wait for each other, so any number of readers can share it.

Source: the environment variable ``LANCE_IO_THREADS`` of pylance 14.0.2.
"""

from __future__ import annotations

import os
from concurrent.futures import wait
from typing import TYPE_CHECKING, Final, TypeVar

from lance_core.buffers.shared_pool import SharedPool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

__all__ = ["begin", "in_parallel"]

T = TypeVar("T")

_THREADS: Final = 64
_VARIABLE: Final = "LANCE_IO_THREADS"


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions that wait for a store, at the same time, and return their results in the same order.

    If functions raise errors, the error of the first of them is raised, after the others have ended; those that have
    not been started are not called. An interrupt does not wait for the others.
    """
    if len(calls) < 2:
        return [call() for call in calls]
    futures = [begin(call) for call in calls]
    try:
        return [future.result() for future in futures]
    except Exception:
        # Running calls still read objects, which the caller may remove.
        wait([future for future in futures if not future.cancel()])
        raise
    finally:
        for future in futures:
            future.cancel()


def begin(call: Callable[[], T]) -> Future[T]:
    """Start a function that waits for a store."""
    return _POOL.get().submit(call)


def _num_threads() -> int:
    text = os.environ.get(_VARIABLE, "")
    return max(1, int(text)) if text.isascii() and text.isdecimal() else _THREADS


_POOL: Final = SharedPool("lance-request", _num_threads)
