"""Durations as people write them: ``14d``, ``36 hours``, ``1.5h``, or a number of seconds."""

from __future__ import annotations

from datetime import timedelta

from humanfriendly import (  # type: ignore[import-untyped]  # no types
    InvalidTimespan,
    format_timespan,
    parse_timespan,
)

from lance_core.errors import InvalidInputError

__all__ = ["duration_text", "format_duration", "parse_duration"]


def parse_duration(text: str) -> timedelta:
    """Parse a duration.

    Args:
        text: a number with a unit (``ms``, ``s``, ``m``, ``h``, ``d``, ``w``, ``y``, or the whole word); without a
            unit it is seconds.

    Raises:
        InvalidInputError: the text is not a duration, or the duration is too long.
    """
    try:
        return timedelta(seconds=parse_timespan(text))
    except (InvalidTimespan, OverflowError) as error:
        raise InvalidInputError(
            f"{text!r} is not a duration; expected a number and a unit (14d, 36h, 90m) or seconds"
        ) from error


def duration_text(duration: timedelta) -> str:
    """Return the duration as seconds, ``0.25s``; :func:`parse_duration` is the inverse."""
    seconds, microseconds = divmod(duration, timedelta(seconds=1))
    fraction = f".{microseconds.microseconds:06d}".rstrip("0").rstrip(".")
    return f"{seconds}{fraction}s"


def format_duration(duration: timedelta) -> str:
    """Return the duration in words, ``2 weeks``."""
    return str(format_timespan(duration))
