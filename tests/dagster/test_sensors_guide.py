"""The statements and examples in the sensors guide are correct."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lance_pipelines.definitions import application
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.schedules import CRON_SCHEDULES
from lance_pipelines.settings import Settings

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sensors.md").read_text()
SHOWN = {
    1024 * 1024: "1048576",
    2 * 1024**3: "2 GiB",
    None: "none",
    timedelta(days=14): "14 days",
    timedelta(minutes=10): "10 minutes",
    False: "no",
}
"""Defaults that the guide spells in words."""


@pytest.mark.parametrize("text", re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
def test_the_examples_in_the_sensors_guide_can_be_loaded(text, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(compile(text, "guide", "exec"), namespace)
    if "defs" in namespace:
        dg.Definitions.validate_loadable(namespace["defs"])


@pytest.mark.parametrize("part", ["compaction", "deletion", "cleanup", "indices"])
def test_every_policy_setting_is_listed_with_its_default_in_the_guide(part) -> None:
    for name, value in dataclasses.asdict(getattr(MaintenancePolicy(), part)).items():
        shown = SHOWN.get(value, str(value))
        assert re.search(rf"\| `{name}` \| {re.escape(shown)} \|", GUIDE), name


def test_every_sensor_and_schedule_is_listed_in_the_guide() -> None:
    repository = application(Settings(warehouse="/w")).get_repository_def()
    for sensor in repository.sensor_defs:
        (row,) = re.findall(rf"^\| `{sensor.name}` \|.*$", GUIDE, re.MULTILINE)
        minutes, seconds = divmod(sensor.minimum_interval_seconds, 60)
        assert f"| {minutes} min |" in row or f"| {seconds} s |" in row
        assert row.endswith("| yes |") is (sensor.default_status is dg.DefaultSensorStatus.RUNNING)
    for schedule in repository.schedule_defs:
        assert f"| `{schedule.name.replace('installed_files', '<dataset>')}` |" in GUIDE
    # The other one is that of all datasets.
    assert len(CRON_SCHEDULES) == len(repository.schedule_defs) - 1
