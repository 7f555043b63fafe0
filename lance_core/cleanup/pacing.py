"""Paces actions: Pace limits the number of actions per second, and Stride chooses the size of batches."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Pace", "Stride"]

_MOST: Final = 512
_SHORTEST_SECONDS: Final = 0.1
_LONGEST_SECONDS: Final = 1.0
_PAUSES: Final = 4


class Pace:
    """Limits the rate of actions across all threads.

    Args:
        per_second: maximum number of actions per second; None means no limit.
        clock: returns the time of a monotonic clock, in seconds.
        sleep: waits for the given number of seconds.
    """

    def __init__(
        self,
        per_second: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Allow the first action immediately."""
        self._interval = 0.0 if per_second is None else 1.0 / per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = float("-inf")

    def wait(self) -> None:
        """Block until the caller may perform its next action."""
        if not self._interval:
            return
        with self._lock:
            now = self._clock()
            turn = max(now, self._next)
            self._next = turn + self._interval
        if turn > now:
            self._sleep(turn - now)


class Stride:
    """Chooses the number of actions in each batch; batches are separated by pauses.

    The target duration of a batch is about four times the pause before it, but at least 0.1 seconds and at most 1
    second.

    Args:
        per_second: maximum number of actions per second; None means no limit.
        at_a_time: number of concurrent actions. It is also the minimum size of a batch, because a smaller batch would
            not take less time.
        clock: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, per_second: int | None, at_a_time: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with the shortest batch, because the speed is unknown."""
        self._per_second = per_second
        self._at_a_time = at_a_time
        self._clock = clock
        self._paused_at = self._started_at = 0.0
        self.length = self._bounded(at_a_time, _SHORTEST_SECONDS)
        """Number of actions in the next batch; at least 1."""

    def pause(self) -> None:
        """Start a pause."""
        self._paused_at = self._clock()

    def start(self) -> None:
        """Start a batch."""
        self._started_at = self._clock()

    def finish(self, actions: int) -> None:
        """End the batch; its speed determines the size of the next batch."""
        if not actions:
            return
        took = self._clock() - self._started_at
        wanted = min(max(_PAUSES * (self._started_at - self._paused_at), _SHORTEST_SECONDS), _LONGEST_SECONDS)
        self.length = self._bounded(int(wanted * actions / took) if took > 0 else _MOST, wanted)

    def _bounded(self, actions: int, seconds: float) -> int:
        most = _MOST if self._per_second is None else min(int(seconds * self._per_second), _MOST)
        return max(1, min(max(actions, self._at_a_time), most))
