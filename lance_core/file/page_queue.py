"""PageQueue: encodes pages on several threads and writes them in submission order.

The content of a file must not depend on which thread is faster. The caller's thread therefore writes the pages in the
order in which they were submitted, even if they are encoded in a different order. Only a few pages are pending at a
time: when too many are pending, submitting a page blocks until the oldest one is written.

Small pages are encoded immediately, because handing them to another thread costs more than encoding them. For the same
reason, the first page of a file is handed over only when there is a second one.

Source: specific to this library.
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
    """Encodes and writes the pages of one file. Not safe for concurrent use by several threads."""

    def __init__(self) -> None:
        """See the class docstring."""
        self._num_threads = min(_MAX_THREADS, _num_cores())
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: deque[_Job] = deque()
        self._num_bytes = 0
        self._process = os.getpid()

    @property
    def num_bytes(self) -> int:
        """In-memory size of the pending arrays in bytes."""
        return self._num_bytes

    def submit(
        self, num_bytes: int, encode: Callable[[], list[EncodedPage]], place: Callable[[list[EncodedPage]], None]
    ) -> None:
        """Encode pages, and write them after all pages submitted earlier.

        Args:
            num_bytes: size of the array to be encoded, in bytes.
            encode: encodes the pages; may run on any thread.
            place: writes the result of ``encode``; runs on the caller's thread, in this call or a later one.
        """
        if num_bytes < _SMALL_BYTES or self._num_threads < 2:
            self.drain()
            place(encode())
            return
        job = _Job(encode, place, num_bytes)
        if self._under_way or self._pool is not None:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._num_threads, thread_name_prefix="lance-encode")
                self._under_way[0].start(self._pool)
            job.start(self._pool)
        self._num_bytes += num_bytes
        self._under_way.append(job)
        while len(self._under_way) > self._num_threads * _PAGES_PER_THREAD or (
            self._num_bytes > _MAX_BYTES_UNDER_WAY and len(self._under_way) > 1
        ):
            self._place_oldest()

    def drain(self) -> None:
        """Write all pending pages."""
        while self._under_way:
            self._place_oldest()

    def close(self) -> None:
        """Cancel pending work and stop the threads; in a forked process, only drop the references to the threads."""
        if self._process != os.getpid():
            self._pool = None
            self._under_way.clear()
        for job in self._under_way:
            job.cancel()
        self._under_way.clear()
        self._num_bytes = 0
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _place_oldest(self) -> None:
        job = self._under_way.popleft()
        self._num_bytes -= job.num_bytes
        job.place(job.result())


@cache
def _num_cores() -> int:
    # Querying the system takes as long as encoding a small page.
    return os.cpu_count() or 1


class _Job:
    """One submitted job, which runs on a thread if it is started, and otherwise when its result is requested."""

    __slots__ = ("_encode", "_pages", "num_bytes", "place")

    def __init__(
        self, encode: Callable[[], list[EncodedPage]], place: Callable[[list[EncodedPage]], None], num_bytes: int
    ) -> None:
        self._encode = encode
        self._pages: Future[list[EncodedPage]] | None = None
        self.place = place
        self.num_bytes = num_bytes

    def start(self, pool: ThreadPoolExecutor) -> None:
        self._pages = pool.submit(self._encode)

    def result(self) -> list[EncodedPage]:
        return self._encode() if self._pages is None else self._pages.result()

    def cancel(self) -> None:
        if self._pages is not None:
            self._pages.cancel()
