"""The wording of numbers in messages."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, for example ``1 row`` or ``2 rows``.

    Args:
        number: the number.
        noun: the noun in the singular.
        plural: the noun in the plural, if it is not the singular followed by "s".
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
