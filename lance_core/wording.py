"""The wording of numbers and lists in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["counted", "shown_list"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, for example ``1 row`` or ``2 rows``.

    Args:
        number: the number.
        noun: the noun in the singular.
        plural: the noun in the plural, if it is not the singular followed by "s".
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def shown_list(values: Sequence[object], limit: int = 20) -> str:
    """Return a list as text: all values, or the first ``limit`` of them and their number."""
    if len(values) <= limit:
        return str(list(values))
    return f"{list(values[:limit])} (the first {limit} of {len(values)})"
