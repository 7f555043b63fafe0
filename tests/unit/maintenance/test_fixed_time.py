"""``now()`` in predicates has a fixed value, and intervals are added to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.metadata import plan_delete
from lance_pipelines.maintenance.fixed_time import fixed_predicate, format_time, parse_time
from lance_pipelines.maintenance.retention_rule import RetentionRule

AS_OF = datetime(2026, 3, 31, 12, 30, 15, 250000, tzinfo=UTC)


def time(text: str) -> str:
    return f"arrow_cast('{text}Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("t < now()", f"t < {time('2026-03-31T12:30:15.250000')}"),
        ("t < NOW ( ) - INTERVAL '90 days'", f"t < {time('2025-12-31T12:30:15.250000')}"),
        ("t < now() - interval '1 month'", f"t < {time('2026-02-28T12:30:15.250000')}"),
        ("t < now()-interval 2 week", f"t < {time('2026-03-17T12:30:15.250000')}"),
        ("t < now() - interval '36' hour", f"t < {time('2026-03-30T00:30:15.250000')}"),
        ("t < now() - interval '1 year 2 months' + interval '15 seconds'", f"t < {time('2025-01-31T12:30:30.250000')}"),
        ("t < current_timestamp and x", f"t < {time('2026-03-31T12:30:15.250000')} and x"),
        ("day < current_date", "day < date '2026-03-31'"),
        ("day < current_date() - interval '1 year'", "day < date '2025-03-31'"),
        ("day < current_date - interval '1 hour'", f"day < {time('2026-03-30T23:00:00.000000')}"),
        ("t > now() or s = 'now()'", f"t > {time('2026-03-31T12:30:15.250000')} or s = 'now()'"),
        ("a = 'it''s now()' and `now()` = \"current_date\"", "a = 'it''s now()' and `now()` = \"current_date\""),
        ("x.current_date < my_current_date", "x.current_date < my_current_date"),
        ("current_dates = 1", "current_dates = 1"),
        ("t - now() - interval '1 day' < x", f"t - {time('2026-03-31T12:30:15.250000')} - interval '1 day' < x"),
        ("id < 5", "id < 5"),
    ],
)
def test_current_time_functions_in_a_predicate_are_replaced_by_the_given_time(predicate: str, expected: str) -> None:
    assert fixed_predicate(predicate, AS_OF.astimezone()) == expected


@pytest.mark.parametrize(
    "dtype",
    [
        pa.timestamp("us"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("ns", "Europe/Berlin"),
        pa.timestamp("us", "America/New_York"),
        pa.timestamp("s", "+05:30"),
    ],
    ids=str,
)
def test_retention_predicate_selects_the_rows_before_the_same_instant_in_every_time_zone(uri, dtype) -> None:
    as_of = AS_OF.replace(microsecond=0)
    limit = as_of - timedelta(days=90)
    times = [limit + timedelta(seconds=second) for second in (-86400, -3601, -1, 0, 1, 3601, 86400)]
    dataset = lance_core.write_dataset(pa.table({"t": pa.array(times, dtype)}), uri)
    predicate = fixed_predicate("t < now() - interval '90 days'", as_of)
    assert plan_delete(dataset, predicate).rows_deleted == 3


@pytest.mark.parametrize("interval", ["90 dys", "days", "", "1.5 days", "90 days ago", "1 day, 2 hours"])
def test_malformed_interval_raises_invalid_input(interval: str) -> None:
    with pytest.raises(InvalidInputError, match=r"invalid interval '.*'; expected numbers of years"):
        fixed_predicate(f"t < now() - interval '{interval}'", AS_OF)


@pytest.mark.parametrize("interval", ["9999 years", "99999999999 days", "99999999999999999999 seconds"])
def test_interval_that_leads_outside_the_range_of_times_raises_invalid_input(interval: str) -> None:
    with pytest.raises(InvalidInputError, match="leads to a time that cannot be represented"):
        fixed_predicate(f"t < now() - interval '{interval}'", AS_OF)


@pytest.mark.parametrize("text", ["2026-03-31T12:30:15.25Z", "2026-03-31T14:30:15.25+02:00", "2026-03-31 12:30:15.25"])
def test_time_without_an_offset_is_in_utc(text: str) -> None:
    assert parse_time(text) == AS_OF
    assert parse_time(format_time(AS_OF)) == AS_OF


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "0001-01-01T00:00:00+23:59"])
def test_text_that_is_not_a_time_raises_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a time; expected ISO 8601"):
        parse_time(text)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        ("  ", "the predicate must be a SQL condition"),
        (5, "the predicate must be a SQL condition, found 5"),
        ("random() < 0.1", r"calls random\(\), so a plan and its execution would select different rows"),
        ("x = UUID ()", r"calls UUID\(\)"),
        ("t < now() - interval '90 dys'", "invalid interval '90 dys'"),
    ],
)
def test_retention_rule_with_an_invalid_predicate_is_refused(predicate: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RetentionRule(predicate=predicate)


def test_columns_and_text_in_a_retention_rule_may_resemble_function_names() -> None:
    assert RetentionRule(predicate="uuid IS NULL OR note = 'random()'").cron_schedule == "0 1 * * *"
