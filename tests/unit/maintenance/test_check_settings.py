"""Which checks a dataset has, and their severities."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lance_core.errors import InvalidInputError
from lance_pipelines.maintenance.check_settings import CheckSettings, Severity


def test_checks_of_a_key_and_of_freshness_exist_only_if_declared() -> None:
    assert CheckSettings().names == ("rows", "fragments", "deletions", "schema", "orphans", "verify")
    names = CheckSettings(key=["id"], max_age=timedelta(days=1)).names
    assert {"key_nulls", "key_unique", "freshness"} <= set(names)


def test_severities_are_overridden_by_name_and_off_removes_a_check() -> None:
    settings = CheckSettings(severities={"rows": "warn", "verify": Severity.OFF, "pylance": "error"})
    assert (settings.severity("rows"), settings.severity("pylance")) == (Severity.WARN, Severity.ERROR)
    assert settings.severity("fragments") is Severity.WARN
    assert "verify" not in settings.names
    assert "pylance" in settings.names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "id"}, "key must be a sequence of column names, found the string 'id'"),
        ({"max_age": timedelta(0)}, "max_age must be positive"),
        ({"max_orphan_bytes": -1}, "max_orphan_bytes must not be negative, found -1"),
        ({"severities": {"row": "warn"}}, r"unknown check 'row'; expected one of rows, "),
        (
            {"severities": {"rows": "fatal"}},
            r"severity of 'rows' must be one of off, warn, error, found 'fatal'",
        ),
    ],
)
def test_invalid_settings_are_refused(arguments, message) -> None:
    with pytest.raises(InvalidInputError, match=f"checks: {message}"):
        CheckSettings(**arguments)
