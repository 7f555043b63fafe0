"""Parsing of durations: numbers with units, from nanoseconds to years.

Source: durations in storage options of pylance 14.0.2 (the crate humantime).
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["duration_seconds"]

_DURATION: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]+)")
_UNIT_SECONDS: Final = {
    **dict.fromkeys(("ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "usec", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 604_800.0),
    **dict.fromkeys(("M", "month", "months"), 2_630_016.0),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 31_557_600.0),
}


def duration_seconds(text: str) -> float | None:
    """Parse text such as ``30s``, ``500ms`` or ``1m 30s``; return None for other text, such as a bare number."""
    rest, total = text.strip(), 0.0
    if not rest:
        return None
    while rest:
        match = _DURATION.match(rest)
        if match is None or match[2] not in _UNIT_SECONDS:
            return None
        total += float(match[1]) * _UNIT_SECONDS[match[2]]
        rest = rest[match.end() :].strip()
    return total
