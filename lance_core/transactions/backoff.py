"""How long a writer waits after losing a race.

The duration of the shortest attempt so far, a tenth longer, is one slot: about the time another writer needs for its
commit. The first attempt alone would be a bad measure: it loads modules, checks files and reads all that was committed
while the change was planned, and one slow attempt would slow down all that follow. Before a retry a writer waits a
random number of slots out of 2, 4, 8 …, so that writers spread out instead of meeting again.

The number doubles with every third loss only. A writer that loses more than half of its races, because others are
faster, would otherwise wait longer and longer for races that are no easier to win, and the others would have the table
for themselves. It stops growing at 128: a wait of minutes serves nobody.

Source: commit backoff of pylance 14.0.2, which takes the first attempt for the slot and doubles every time; the rest is
ours.
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
    """Waiting times of one commit.

    Args:
        rng: the source of randomness.
    """

    def __init__(self, rng: random.Random) -> None:
        """Start with no lost attempts."""
        self._rng = rng
        self._shortest_seconds = math.inf
        self._losses = 0

    def next_seconds(self, attempt_seconds: float) -> float:
        """Return the next waiting time; 0 is possible.

        Args:
            attempt_seconds: how long the attempt took that was lost.
        """
        self._shortest_seconds = min(self._shortest_seconds, attempt_seconds)
        num_slots = min(_FIRST_SLOTS << self._losses // _LOSSES_PER_DOUBLING, _MAX_SLOTS)
        self._losses += 1
        return self._rng.randrange(num_slots) * self._shortest_seconds * _SLOT_MARGIN
