"""Durations as text, in the form that pylance reads and writes in the table config."""

from datetime import timedelta

import pytest

from lance_core.cleanup.durations import format_duration, parse_duration
from lance_core.errors import InvalidCleanupError


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0", timedelta(0)),
        ("0s", timedelta(0)),
        ("1h30m", timedelta(minutes=90)),
        ("30m1h", timedelta(minutes=90)),
        (" 1 hour  30\tmin ", timedelta(minutes=90)),
        ("2weeks", timedelta(days=14)),
        ("14days", timedelta(days=14)),
        ("100ms", timedelta(milliseconds=100)),
        ("2.5us", timedelta(microseconds=2)),
        ("1 µs", timedelta(microseconds=1)),
        ("999ns", timedelta(0)),
        ("1M", timedelta(days=30.44)),
        ("1m", timedelta(minutes=1)),
        ("1y", timedelta(days=365.25)),
        ("1.25d", timedelta(hours=30)),
        ("0.1h30m", timedelta(minutes=36)),
        ("584554530872y", timedelta.max),
    ],
)
def test_duration_text_is_parsed(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        *("3600", "", " ", "00", " 0", "0 ", "0.5", "1h30", "h", "-1s", "+1s", "1.s", ".5s", "1_000s", "1h,30m", "1H"),
        *("1D", "1mon", "1millisecond", "1e3s", "٣s", "1.2.3s", "one day"),
    ],
)
def test_malformed_duration_text_raises_invalid_cleanup(text: str) -> None:
    with pytest.raises(InvalidCleanupError, match="is not a valid duration"):
        parse_duration(text)


def test_duration_without_a_unit_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidCleanupError, match="3600 needs a unit, such as 3600s"):
        parse_duration("3600")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3_661, "1h 1m 1s"),
        (86_400, "1day"),
        (14 * 86_400, "14days"),
        (2_630_016, "1month"),
        (31_557_600, "1year"),
        (2**40, "34841years 5months 1day 13h 48m 16s"),
    ],
)
def test_seconds_are_formatted_as_duration_text(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == timedelta(seconds=seconds)
