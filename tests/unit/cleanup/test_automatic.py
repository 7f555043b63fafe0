"""Automatic cleanup: when it is due, and its policy, as configured in the table."""

from datetime import timedelta

import pytest

from lance_core.cleanup.automatic import AutoCleanup, enabling_entries, initial_entries
from lance_core.errors import InvalidCleanupError, InvalidTypeError

KEY = "lance.auto_cleanup."


def _due(version: int, **values: str) -> AutoCleanup | None:
    values = {"min_age": "0s", **values}
    return AutoCleanup.due_after(version, {f"{KEY}{name}": value for name, value in values.items()})


def test_automatic_cleanup_without_an_interval_is_never_due() -> None:
    assert _due(20) is None
    assert _due(20, older_than="0s", retain_versions="1") is None


@pytest.mark.parametrize(
    ("interval", "versions"), [("0", [1, 2, 3, 4]), ("1", [1, 2, 3, 4]), ("2", [2, 4]), ("+3", [3]), ("20", [])]
)
def test_automatic_cleanup_is_due_after_versions_whose_number_is_divisible_by_the_interval(
    interval: str, versions: list[int]
) -> None:
    assert [version for version in (1, 2, 3, 4) if _due(version, interval=interval)] == versions


def test_automatic_cleanup_takes_its_policy_from_the_table_config() -> None:
    due = _due(1, interval="1", older_than="2weeks", retain_versions="3", delete_rate_limit="5", delete_concurrency="2")
    assert due is not None
    policy = due.policy
    assert (policy.older_than, policy.retain_versions) == (timedelta(days=14), 3)
    assert (policy.delete_rate_limit, policy.delete_concurrency) == (5, 2)
    assert not policy.error_if_tagged_old_versions
    assert not policy.delete_unverified


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, timedelta(minutes=10)),
        ({"older_than": "0s"}, timedelta(minutes=10)),
        ({"older_than": "2h"}, timedelta(hours=2)),
        ({"min_age": "1h", "older_than": "2s"}, timedelta(hours=1)),
        ({"min_age": "0s", "older_than": "2s"}, timedelta(seconds=2)),
    ],
)
def test_automatic_cleanup_keeps_versions_newer_than_ten_minutes_by_default(
    config: dict[str, str], expected: timedelta
) -> None:
    entries = {f"{KEY}{name}": value for name, value in {"interval": "1", **config}.items()}
    due = AutoCleanup.due_after(1, entries)
    assert due is not None
    assert due.policy.older_than == expected


@pytest.mark.parametrize("values", [{}, {"older_than": "0s"}, {"referenced_branch": "true"}])
def test_automatic_cleanup_without_retention_settings_and_with_min_age_zero_removes_every_old_version(
    values: dict[str, str],
) -> None:
    due = _due(1, interval="1", **values)
    assert due is not None
    assert (due.policy.older_than, due.policy.retain_versions) == (None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval", "x"),
        ("interval", "-1"),
        ("interval", " 1"),
        ("interval", "1.5"),
        ("interval", str(2**64)),
        ("older_than", "3600"),
        ("retain_versions", "0"),
        ("retain_versions", "x"),
        ("delete_rate_limit", "0"),
        ("delete_concurrency", "0"),
        ("referenced_branch", "maybe"),
    ],
)
def test_automatic_cleanup_with_malformed_config_values_raises_invalid_cleanup(name: str, value: str) -> None:
    with pytest.raises(InvalidCleanupError, match=name):
        _due(1, **{"interval": "1", name: value})


def test_malformed_retention_period_is_ignored_when_no_cleanup_is_due() -> None:
    assert _due(3, interval="2", older_than="3600") is None


def test_new_table_gets_the_config_entries_of_its_cleanup_options() -> None:
    assert initial_entries(None) == {}
    assert initial_entries({}) == {f"{KEY}interval": "20", f"{KEY}older_than": "14days"}
    assert initial_entries({"interval": 3, "older_than_seconds": 60}) == {
        f"{KEY}interval": "3",
        f"{KEY}older_than": "1m",
    }
    assert enabling_entries({"interval": 3, "older_than_seconds": 60})[f"{KEY}older_than"] == "60s"


@pytest.mark.parametrize("options", [{"intervall": 1}, {"interval": -1}, {"older_than_seconds": 2**64}])
def test_invalid_automatic_cleanup_options_raise_invalid_cleanup(options: dict[str, int]) -> None:
    with pytest.raises(InvalidCleanupError):
        initial_entries(options)


@pytest.mark.parametrize("options", [[1], "x", {"interval": "3"}, {"interval": 1.5}, {"interval": True}])
def test_automatic_cleanup_options_of_the_wrong_type_raise_invalid_type(options: object) -> None:
    with pytest.raises(InvalidTypeError):
        initial_entries(options)


def test_enabling_automatic_cleanup_requires_interval_and_retention_period() -> None:
    with pytest.raises(InvalidCleanupError, match="older_than_seconds"):
        enabling_entries({"interval": 3})
