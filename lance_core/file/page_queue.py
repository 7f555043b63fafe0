"""PageQueue: pages are encoded on several threads and written in one order.

A file is a sequence of bytes, and its writer may not depend on which thread was faster. So pages are written in the
order in which they were submitted, whatever the order in which they are ready; the caller's thread does the writing.
Only a few pages are under way at a time: who submits more waits for the oldest.

Small pages are encoded at once: handing them to another thread costs more than they do.

Source: own design.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from lance_core.encodings.api import EncodedPage

__all__ = ["PageQueue"]

_SMALL_BYTES: Final = 256 << 10
_MAX_THREADS: Final = 4
_PAGES_PER_THREAD: Final = 2
_MAX_BYTES_UNDER_WAY: Final = 128 << 20


class PageQueue:
    """Pages of one file that are being encoded. For use by one thread."""

    def __init__(self) -> None:
        """See the class."""
        self._num_threads = min(_MAX_THREADS, _num_cores())
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[_Job] = deque()
        self._num_bytes = 0
        self._process = os.getpid()

    @property
    def num_bytes(self) -> int:
        """Bytes (in memory) of the arrays under way."""
        return self._num_bytes

    def submit(
        self, num_bytes: int, encode: Callable[[], list[EncodedPage]], place: Callable[[list[EncodedPage]], None]
    ) -> None:
        """Encode pages, and write them behind all that were submitted before.

        Args:
            num_bytes: of the array to be encoded.
            encode: runs on any thread.
            place: writes what ``encode`` returned; runs on this thread, in this call or a later one.
        """
        if num_bytes < _SMALL_BYTES or self._num_threads < 2:
            self.drain()
            place(encode())
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._num_threads, thread_name_prefix="lance-encode")
        self._num_bytes += num_bytes
        self._under_way.append(_Job(self._pool.submit(encode), place, num_bytes))
        while len(self._under_way) > self._num_threads * _PAGES_PER_THREAD or (
            self._num_bytes > _MAX_BYTES_UNDER_WAY and len(self._under_way) > 1
        ):
            self._place_oldest()

    def drain(self) -> None:
        """Write all that is under way."""
        while self._under_way:
            self._place_oldest()

    def close(self) -> None:
        """Cancel pending work and end the threads; they do not exist in a process that was forked since."""
        if self._process != os.getpid():
            self._pool = None
            self._under_way.clear()
        for job in self._under_way:
            job.pages.cancel()
        self._under_way.clear()
        self._num_bytes = 0
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _place_oldest(self) -> None:
        job = self._under_way.popleft()
        self._num_bytes -= job.num_bytes
        job.place(job.pages.result())


@cache
def _num_cores() -> int:
    # Asking the system takes as long as encoding a small page.
    return os.cpu_count() or 1


class _Job:
    """One submission."""

    __slots__ = ("num_bytes", "pages", "place")

    def __init__(
        self, pages: Future[list[EncodedPage]], place: Callable[[list[EncodedPage]], None], num_bytes: int
    ) -> None:
        self.pages = pages
        self.place = place
        self.num_bytes = num_bytes
