"""Definitions of datasets merged into a project that has its own executor, resources, jobs, schedules, and sensors."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from lance_pipelines import DatasetDeclaration, FileSource, SourceFormat, SparkResource, build_definitions, on_new_data

pytestmark = pytest.mark.filterwarnings("error::DeprecationWarning", "error::PendingDeprecationWarning")

SOURCE = FileSource(format=SourceFormat.CSV, paths=("/landing/*.csv",))


def declared(key: str, **values: object) -> DatasetDeclaration:
    return DatasetDeclaration(key=key, uri=f"/lake/{key}.lance", source=SOURCE, **values)


EVENTS = declared("lake/events", automation_condition=dg.AutomationCondition.on_cron("@daily"))


@dg.asset(deps=[dg.AssetKey(EVENTS.key)], automation_condition=on_new_data())
def report() -> None:
    """Reads a dataset."""


@dg.asset(name="raw")
def raw(spark: dg.ResourceParam[str]) -> None:
    """Uses the project's own resource."""


@dg.op
def work() -> None:
    """Does nothing."""


@dg.job
def cleanup() -> None:
    """A job with the name of an operation."""
    work()


@dg.job
def ingest() -> None:
    """A job with the name of an operation."""
    work()


def own_definitions() -> dg.Definitions:
    """Return definitions of every kind that may conflict with those of datasets."""
    return dg.Definitions(
        assets=[report, raw],
        jobs=[cleanup, ingest],
        schedules=[dg.ScheduleDefinition(name="compact_schedule", job=cleanup, cron_schedule="@daily")],
        sensors=[
            dg.SensorDefinition(name="version_sensor", evaluation_fn=lambda _: None, jobs=[ingest]),
            dg.AutomationConditionSensorDefinition("automation_sensor", target=dg.AssetSelection.all()),
        ],
        resources={"spark": "my own Spark"},
        executor=dg.multiprocess_executor,
    )


def two_calls() -> tuple[dg.Definitions, dg.Definitions]:
    return build_definitions([EVENTS, declared("lake/b-2")]), build_definitions(
        [declared("ml/vectors", deps=["lake/events"])], namespace="ml"
    )


def check(defs: dg.Definitions) -> None:
    """Check that the project loads and has all definitions of both sides."""
    dg.Definitions.validate_loadable(defs)
    assert defs.resolve_asset_graph().get_all_asset_keys() >= {
        dg.AssetKey(["lake", "events"]),
        dg.AssetKey(["lake", "b-2"]),
        dg.AssetKey(["ml", "vectors"]),
        report.key,
    }
    repository = defs.get_repository_def()
    assert {"cleanup", "ingest", "lake__events__cleanup", "lake__b_2__ingest", "ml__vectors__compact"} <= set(
        repository.job_names
    )
    sensors = {sensor.name for sensor in repository.sensor_defs}
    assert {"version_sensor", "automation_sensor", "lance_version_sensor", "ml_version_sensor"} <= sensors
    schedules = {schedule.name for schedule in repository.schedule_defs}
    assert {"compact_schedule", "lake__events__compact_schedule"} <= schedules
    for job in ("cleanup", "lake__events__ingest", "ml__vectors__compact"):
        assert defs.resolve_job_def(job).executor_def is dg.multiprocess_executor
    assert defs.resolve_job_def("lake__events__ingest").resource_defs.keys() >= {"lance_spark", "lance_messages"}


def test_definitions_built_by_two_calls_merge_with_those_of_a_project() -> None:
    check(dg.Definitions.merge(own_definitions(), *two_calls()))


def test_a_decorated_function_may_return_merged_definitions() -> None:
    @dg.definitions
    def defs() -> dg.Definitions:
        return dg.Definitions.merge(own_definitions(), *two_calls())

    check(defs())


DEFS_MODULE = """
import dagster as dg

from tests.dagster.test_merging import {functions}


@dg.definitions
def {name}():
    return {expression}
"""


def test_datasets_may_be_declared_in_a_defs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project as ``create-dagster`` makes it."""
    package = tmp_path / "src" / "shop"
    (package / "defs").mkdir(parents=True)
    for directory in (package, package / "defs"):
        (directory / "__init__.py").touch()
    for name, functions, expression in (
        ("own", "own_definitions", "own_definitions()"),
        ("lake", "two_calls", "two_calls()[0]"),
        ("ml", "two_calls", "two_calls()[1]"),
    ):
        text = DEFS_MODULE.format(name=name, functions=functions, expression=expression)
        (package / "defs" / f"{name}.py").write_text(text)
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "0.1"\n[tool.dg]\ndirectory_type = "project"\n'
        '[tool.dg.project]\nroot_module = "shop"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    shop = importlib.import_module("shop")
    try:
        check(dg.load_from_defs_folder(path_within_project=Path(shop.__file__)))
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]


def test_definitions_with_the_same_namespace_are_refused_and_the_error_names_the_namespace() -> None:
    defs = dg.Definitions.merge(build_definitions([declared("a")]), build_definitions([declared("b")]))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"\['lance', 'fleet'\]"):
        dg.Definitions.validate_loadable(defs)


def test_definitions_with_different_spark_resources_are_refused_and_the_error_names_the_resource_key() -> None:
    calls = (build_definitions([], namespace=name, spark=SparkResource()) for name in ("a", "b"))
    with pytest.raises(dg.DagsterInvariantViolationError, match="'lance_spark'"):
        dg.Definitions.merge(*calls)


def test_definitions_add_no_automation_sensor() -> None:
    """Dagster refuses two automation sensors for one asset; without ours, the project's sensor may target all."""
    for defs in two_calls():
        assert not any(isinstance(sensor, dg.AutomationConditionSensorDefinition) for sensor in defs.sensors)


@pytest.mark.slow
def test_importing_lance_pipelines_loads_neither_dagster_nor_spark_until_a_name_is_used() -> None:
    program = """
import sys
import lance_pipelines
from lance_pipelines import DatasetDeclaration, FileSource, MaintenancePolicy, Settings, SourceFormat, WriteMode

DatasetDeclaration(key="a/b", uri="/x", source=FileSource(format=SourceFormat.ENVIRONMENT))
assert {"dagster", "pyspark"}.isdisjoint(sys.modules)
assert sorted(lance_pipelines.__all__) == lance_pipelines.__all__
assert set(lance_pipelines.__all__) <= set(dir(lance_pipelines))
for name in lance_pipelines.__all__:
    assert getattr(lance_pipelines, name).__doc__, name
assert not hasattr(lance_pipelines, "no_such_name")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
