"""Parses and formats durations such as ``1h30m``, ``2weeks``, and ``100ms``. Every number except ``0`` needs a unit.

A month has 30.44 days and a year 365.25. Durations in storage options have their own parser
(:mod:`lance_core.io.s3_settings`), which accepts ``millisecond`` as a unit but not ``nanos``, and requires a unit for
``0`` too.

Source: the crate ``humantime``, as used by pylance 14.0.2 for durations in the table config.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from lance_core.errors import InvalidCleanupError

__all__ = ["format_duration", "parse_duration"]

_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_MONTH: Final = 2_630_016 * _SECOND
_YEAR: Final = 31_557_600 * _SECOND
_NANOSECONDS: Final[dict[str, int]] = {
    **dict.fromkeys(("nanos", "nsec", "ns"), 1),
    **dict.fromkeys(("usec", "us", "µs"), 1_000),
    **dict.fromkeys(("millis", "msec", "ms"), 1_000_000),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), _SECOND),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60 * _SECOND),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3_600 * _SECOND),
    **dict.fromkeys(("days", "day", "d"), _DAY),
    **dict.fromkeys(("weeks", "week", "wks", "wk", "w"), 7 * _DAY),
    **dict.fromkeys(("months", "month", "M"), _MONTH),
    **dict.fromkeys(("years", "year", "yrs", "yr", "y"), _YEAR),
}
_SHOWN: Final = ((_YEAR, "year", "s"), (_MONTH, "month", "s"), (_DAY, "day", "s"))
_SHOWN_SHORT: Final = ((3_600 * _SECOND, "h"), (60 * _SECOND, "m"), (_SECOND, "s"))
_MICROSECOND: Final = timedelta(microseconds=1)


def parse_duration(text: str) -> timedelta:
    """Parse a duration with microsecond precision; a duration that is too long becomes the longest possible duration.

    Raises:
        InvalidCleanupError: the string is not a duration; for example, a number has no unit.
    """
    if text == "0":
        return timedelta(0)
    nanoseconds, position = Fraction(0), 0
    while position < len(text) or not text:
        part = _PART.match(text, position)
        if part is None:
            raise _error(text, f"expected a number at position {position}")
        unit = _NANOSECONDS.get(part[2])
        if unit is None:
            raise _error(
                text, f"unknown unit {part[2]!r}" if part[2] else f"{part[1]} needs a unit, such as {part[1]}s"
            )
        nanoseconds += Fraction(part[1]) * unit
        position = part.end()
    return min(int(nanoseconds) // 1000, timedelta.max // _MICROSECOND) * _MICROSECOND


def format_duration(seconds: int) -> str:
    """Format a number of whole seconds as text, such as ``14days`` or ``1day 2h 3m``."""
    rest, parts = seconds * _SECOND, []
    for unit, name, plural in _SHOWN:
        number, rest = divmod(rest, unit)
        if number:
            parts.append(f"{number}{name}{plural if number > 1 else ''}")
    for unit, name in _SHOWN_SHORT:
        number, rest = divmod(rest, unit)
        if number:
            parts.append(f"{number}{name}")
    return " ".join(parts) or "0s"


def _error(text: str, reason: str) -> InvalidCleanupError:
    return InvalidCleanupError(f"{text!r:.100} is not a valid duration: {reason}")
