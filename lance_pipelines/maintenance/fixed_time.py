"""Gives ``now()`` in a predicate a fixed value, so that a plan and every attempt to execute it select the same rows.

==========================================  ====================================================================
written                                     evaluated, as of 2026-11-28 12:00 UTC
==========================================  ====================================================================
``t < now() - interval '90 days'``          ``t < arrow_cast('2026-08-30T12:00:00.000000Z', 'Timestamp(…)')``
``day < current_date - interval '1 year'``  ``day < date '2025-11-28'``
==========================================  ====================================================================

``current_timestamp`` is the same as ``now()``. Intervals are added and subtracted as in SQL: a day that the
resulting month does not have becomes the last day of that month. Elsewhere, predicates cannot contain intervals, as in
the reference implementation. All times are in UTC. The value is an ``arrow_cast``, because ``timestamp '…'`` would be
compared with the local time in columns that have another time zone.

Source: expressions tested with pylance 14.0.2 and DataFusion 54.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import partial
from typing import Final

from dateutil.relativedelta import relativedelta  # type: ignore[import-untyped]  # no types

from lance_core.errors import InvalidInputError

__all__ = ["fixed_predicate", "format_time", "parse_time", "random_function"]

_UNITS: Final = "years?|months?|weeks?|days?|hours?|minutes?|seconds?"
_TEXT: Final = r"(?P<text>'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`)"
"""Matches literals and quoted names."""

_CLOCK: Final = re.compile(
    rf"""{_TEXT} | (?<![\w.])
    (?P<clock> now\s*\(\s*\) | (?:current_timestamp|current_date)\b (?:\s*\(\s*\))? )
    (?P<intervals> (?: \s*[+-]\s* interval \s+ (?: '[^']*' | \d+ ) (?: \s+ (?:{_UNITS})\b )? )* )""",
    re.IGNORECASE | re.VERBOSE,
)
_INTERVAL: Final = re.compile(rf"([+-])\s*interval\s+(?:'([^']*)'|(\d+))(?:\s+({_UNITS})\b)?", re.IGNORECASE)
_AMOUNTS: Final = re.compile(rf"(?:\s*[+-]?\d+\s*(?:{_UNITS}))+\s*", re.IGNORECASE)
_AMOUNT: Final = re.compile(rf"([+-]?\d+)\s*({_UNITS})", re.IGNORECASE)
_RANDOM: Final = re.compile(rf"{_TEXT} | (?<![\w.]) (?P<name>random|rand|uuid)\s*\(", re.IGNORECASE | re.VERBOSE)


def fixed_predicate(predicate: str, as_of: datetime) -> str:
    """Return the predicate with a value in place of ``now()`` and of the intervals that follow it.

    Args:
        predicate: SQL condition.
        as_of: the value of ``now()``; timezone-aware.

    Raises:
        InvalidInputError: an interval is malformed, or leads to a time that cannot be represented.
    """
    return _CLOCK.sub(partial(_value, as_of.astimezone(UTC)), predicate)


def random_function(predicate: str) -> str | None:
    """Return the name of a function in the predicate whose results are random; None if there is none."""
    return next((found["name"] for found in _RANDOM.finditer(predicate) if found["name"]), None)


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601 format; a time without an offset is in UTC.

    Raises:
        InvalidInputError: the text is not a time in this format, or the time cannot be represented in UTC.
    """
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{text!r} is not a time; expected ISO 8601, such as 2026-11-28T12:00:00Z") from error


def format_time(time: datetime) -> str:
    """Return a time as text that :func:`parse_time` accepts, in UTC."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _value(as_of: datetime, found: re.Match[str]) -> str:
    if found["text"]:
        return found["text"]
    is_date = found["clock"].lower().startswith("current_date")
    start = as_of.replace(hour=0, minute=0, second=0, microsecond=0) if is_date else as_of
    before = found.string[: found.start()].rstrip()
    # In ``t - now() - interval '1 day'``, the interval is subtracted from the difference.
    takes_intervals = before[-1:] not in tuple("+-*/%")
    intervals = found["intervals"] if takes_intervals else ""
    time = _added(start, intervals)
    value = _date(time.date()) if is_date and time.time() == start.time() else _timestamp(time)
    return value + found["intervals"].removeprefix(intervals)


def _added(time: datetime, intervals: str) -> datetime:
    for sign, amounts, number, unit in _INTERVAL.findall(intervals):
        text = f"{amounts or number} {unit}".strip()
        if not _AMOUNTS.fullmatch(text):
            raise InvalidInputError(
                f"invalid interval {text!r}; expected numbers of years, months, weeks, days, hours, minutes, or "
                "seconds, such as '90 days'"
            )
        for amount, name in _AMOUNT.findall(text):
            step = int(amount) * (-1 if sign == "-" else 1)
            try:
                time += relativedelta(**{f"{name.lower().rstrip('s')}s": step})
            except (ValueError, OverflowError) as error:
                raise InvalidInputError(f"interval {text!r} leads to a time that cannot be represented") from error
    return time


def _timestamp(time: datetime) -> str:
    return f"arrow_cast('{format_time(time)}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


def _date(day: date) -> str:
    return f"date '{day.isoformat()}'"
