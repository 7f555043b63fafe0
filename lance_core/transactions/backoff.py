"""Computes how long a writer waits after another writer has created the version first (a lost race).

Waiting times are measured in slots. One slot is the duration of the shortest attempt so far plus 10%, which is about
the time that another writer needs for its commit. The first attempt alone would be a poor measure: it loads modules,
checks files, and reads everything that was committed while the change was planned, and one slow attempt would slow down
all later ones. Before a retry, a writer waits for a random number of slots below a limit, so that writers spread out
instead of colliding again.

The limit doubles only with every third lost race. If it doubled every time, a slow writer that loses more than half of
its races would wait longer and longer without better chances, and might never commit. The limit stops growing at 128
slots, because a wait of minutes does not help.

Source: commit backoff of pylance 14.0.2, which uses the first attempt as the slot and doubles every time; the rest is
specific to this library.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

__all__ = ["SlotBackoff"]

_FIRST_SLOTS: Final = 2
_MAX_SLOTS: Final = 128
_LOSSES_PER_DOUBLING: Final = 3
_SLOT_MARGIN: Final = 1.1


class SlotBackoff:
    """Computes the waiting times of one commit.

    Args:
        rng: the source of randomness.
    """

    def __init__(self, rng: random.Random) -> None:
        """Start with no lost attempts."""
        self._rng = rng
        self._shortest_seconds = math.inf
        self._losses = 0

    def next_seconds(self, attempt_seconds: float) -> float:
        """Return the next waiting time in seconds, which may be 0.

        Args:
            attempt_seconds: the duration of the lost attempt, in seconds.
        """
        self._shortest_seconds = min(self._shortest_seconds, attempt_seconds)
        num_slots = min(_FIRST_SLOTS << self._losses // _LOSSES_PER_DOUBLING, _MAX_SLOTS)
        self._losses += 1
        return self._rng.randrange(num_slots) * self._shortest_seconds * _SLOT_MARGIN
