"""The run configuration of maintenance jobs: policies as config values, and durations as text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.maintenance.policy import CompactionPolicy, DeletionPolicy, MaintenancePolicy
from lance_pipelines.ops.maintenance_config import declared_values, duration_text, parse_duration


@pytest.mark.parametrize("operation", ["compact", "materialize_deletions"])
def test_maintenance_config_values_come_from_the_policy_or_the_defaults(operation: str) -> None:
    own = MaintenancePolicy(
        compaction=CompactionPolicy(target_rows_per_fragment=7), deletion=DeletionPolicy(max_deleted_fraction=0.5)
    )
    found = declared_values(operation, own)
    assert (found["threshold"], found["target_rows_per_fragment"]) == (0.5, 7)
    found = declared_values(operation, MaintenancePolicy(compaction=None, deletion=None))
    assert found["threshold"] == DeletionPolicy().max_deleted_fraction
    assert found["target_rows_per_fragment"] == CompactionPolicy().target_rows_per_fragment


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
def test_duration_text_is_parsed(text, expected) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "-3d", "14 fortnights", "1h30m", "nan", "1e999", "999999999999y"])
def test_error_about_malformed_duration_text_includes_the_text(text) -> None:
    with pytest.raises(InvalidInputError, match="is not a valid duration; expected a number and a unit") as raised:
        parse_duration(text)
    assert repr(text) in str(raised.value)


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
def test_duration_text_survives_a_round_trip(duration, text) -> None:
    assert duration_text(duration) == text
    assert parse_duration(text) == duration
