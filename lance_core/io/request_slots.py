"""RequestSlots: limits the number of requests that are in flight at the same time.

A semaphore of asyncio grants one slot at a time, so two calls that need several slots each could wait for each other
forever.

Source: specific to this library.
"""

from __future__ import annotations

from asyncio import CancelledError, Future, get_running_loop
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["RequestSlots"]


class RequestSlots:
    """A fixed number of slots, of which each request needs one. To be used in the thread of one event loop.

    Waiting calls receive their slots in order of arrival, so a call that needs many slots is not delayed forever by
    calls that need few.

    Args:
        num_slots: the number of slots; no call asks for more.
    """

    def __init__(self, num_slots: int) -> None:
        """Initialize with all slots free."""
        self._num_free = num_slots
        self._waiting: deque[tuple[int, Future[None]]] = deque()

    @asynccontextmanager
    async def taken(self, num_slots: int) -> AsyncIterator[None]:
        """Wait until this many slots are free, and occupy them."""
        if self._waiting or num_slots > self._num_free:
            await self._wait(num_slots)
        else:
            self._num_free -= num_slots
        try:
            yield
        finally:
            self._num_free += num_slots
            self._grant()

    async def _wait(self, num_slots: int) -> None:
        granted: Future[None] = get_running_loop().create_future()
        self._waiting.append((num_slots, granted))
        try:
            await granted
        except CancelledError:
            if not granted.cancelled():
                self._num_free += num_slots
            self._grant()
            raise

    def _grant(self) -> None:
        """Give free slots to the calls that wait, in order."""
        while self._waiting:
            num_slots, granted = self._waiting[0]
            if not granted.done():
                if num_slots > self._num_free:
                    return
                self._num_free -= num_slots
                granted.set_result(None)
            self._waiting.popleft()
