"""Verdict: the effect of a committed change on another change that was planned before that commit."""

from __future__ import annotations

from enum import Enum

__all__ = ["Verdict"]


class Verdict(Enum):
    """The effect of a committed change on another change that was planned before that commit, in order of severity."""

    COMPATIBLE = 0
    """Both changes are valid."""

    MERGEABLE = 1
    """Both changes are valid if they delete different rows; ``RETRYABLE`` if it is unknown which rows the planned
    change deletes."""

    RETRYABLE = 2
    """The change must be planned again, based on the newer version."""

    INCOMPATIBLE = 3
    """The newer version invalidates the change."""
