"""How long a writer waits after losing a race.

The duration of the first attempt, a tenth longer, is one slot: about the time another writer needs for its commit.
Before the k-th retry a writer waits a random number of slots out of 4, 8, 16 …, so that writers spread out instead of
meeting again. The number of slots stops growing at 512: a wait of minutes serves nobody.

Source: commit backoff of pylance 14.0.2; the ceiling is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

__all__ = ["SlotBackoff"]

_FIRST_SLOTS: Final = 4
_MAX_SLOTS: Final = 512
_SLOT_MARGIN: Final = 1.1


class SlotBackoff:
    """Waiting times of one commit.

    Args:
        attempt_seconds: how long the first attempt took.
        rng: the source of randomness.
    """

    def __init__(self, attempt_seconds: float, rng: random.Random) -> None:
        """Take the first attempt as the measure."""
        self._slot_seconds = attempt_seconds * _SLOT_MARGIN
        self._num_slots = _FIRST_SLOTS
        self._rng = rng

    def next_seconds(self) -> float:
        """The next waiting time; 0 is possible."""
        waited_slots = self._rng.randrange(self._num_slots)
        self._num_slots = min(self._num_slots * 2, _MAX_SLOTS)
        return waited_slots * self._slot_seconds
