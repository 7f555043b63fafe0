"""The threads that wait for object stores, so that the requests for several objects are in flight together.

The tasks of this pool only send requests to stores and never wait for each other, so any number of readers can share
the pool.

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

__all__ = ["begin", "in_parallel", "results_of"]

T = TypeVar("T")

_THREADS: Final = 64
_VARIABLE: Final = "LANCE_IO_THREADS"


def in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions that wait for a store, all at the same time; see :func:`results_of`."""
    if len(calls) < 2:
        return [call() for call in calls]
    return results_of([begin(call) for call in calls])


def results_of(futures: Sequence[Future[T]]) -> list[T]:
    """Return the results of reads that have been started, in the same order.

    If reads fail, the error of the first of them is raised, after the others have ended; those that have not begun are
    canceled. An interrupt does not wait for the others.
    """
    try:
        return [future.result() for future in futures]
    except Exception:
        # Running reads still need the objects, which the caller may remove.
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
