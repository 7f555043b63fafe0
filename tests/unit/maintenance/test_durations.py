"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.maintenance.durations import duration_text, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14d", timedelta(days=14)),
        ("2 weeks", timedelta(days=14)),
        ("36h", timedelta(hours=36)),
        ("1.5 hours", timedelta(minutes=90)),
        ("90m", timedelta(minutes=90)),
        ("3600", timedelta(hours=1)),
        ("0", timedelta(0)),
        ("1209600s", timedelta(days=14)),
    ],
)
def test_texts_and_what_they_mean(text, expected) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-3d", "14 fortnights", "1h30m", "nan", "1e999", "999999999999y"])
def test_other_texts_are_refused_by_name(text) -> None:
    with pytest.raises(InvalidInputError, match="is not a duration; expected a number and a unit") as raised:
        parse_duration(text)
    assert repr(text) in str(raised.value)


def test_a_duration_in_words() -> None:
    assert format_duration(timedelta(days=14)) == "2 weeks"


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(days=14), "1209600s"),
        (timedelta(milliseconds=250), "0.25s"),
        (timedelta(microseconds=1), "0.000001s"),
        (timedelta(days=400, microseconds=10), "34560000.00001s"),
    ],
)
def test_the_text_of_a_duration_is_read_as_the_same(duration, text) -> None:
    assert duration_text(duration) == text
    assert parse_duration(text) == duration
