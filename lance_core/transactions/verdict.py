"""Verdict: what a committed change means for one that was planned before it."""

from __future__ import annotations

from enum import Enum

__all__ = ["Verdict"]


class Verdict(Enum):
    """What a committed change means for one that was planned before it, from mild to severe."""

    COMPATIBLE = 0
    """Both stand."""

    MERGEABLE = 1
    """Both stand when they hide different rows; where our rows are not known, this is ``RETRYABLE``."""

    RETRYABLE = 2
    """The change has to be planned again on the newer version."""

    INCOMPATIBLE = 3
    """The change makes no sense on the newer version."""
