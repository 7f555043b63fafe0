"""Conversion of times and durations, as in pylance.

**Source:** ``lance.util`` of pylance 14.0.2.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lance_core.errors import InvalidInputError, InvalidTypeError

__all__ = ["sanitize_ts", "td_to_micros"]

_FORMAT: Final = "%Y-%m-%d %H:%M:%S"


def sanitize_ts(ts: datetime | str) -> datetime:
    """Return a time as a ``datetime``.

    Args:
        ts: a ``datetime``, a ``Timestamp`` of pandas, or text such as ``2026-01-31 23:59:59``.

    Raises:
        InvalidInputError: the text has another form.
        InvalidTypeError: the argument is of another type.
    """
    if isinstance(ts, str):
        try:
            return datetime.strptime(ts, _FORMAT)
        except ValueError as error:
            raise InvalidInputError(f"the time must have the form YYYY-MM-DD hh:mm:ss, found {ts!r}") from error
    if not isinstance(ts, datetime):
        raise InvalidTypeError(f"the time must be a datetime or a string, found {type(ts).__name__}")
    # Of its subclasses, the one of pandas has nanoseconds, which a datetime cannot have.
    to_datetime = getattr(ts, "to_pydatetime", None)
    return ts if to_datetime is None else to_datetime()


def td_to_micros(td: timedelta) -> int:
    """Return a duration in microseconds."""
    return td // timedelta(microseconds=1)
