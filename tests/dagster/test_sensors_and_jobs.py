"""The sensors of a project together with its jobs."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import dagster as dg
import lance
import pyarrow as pa
import pytest
from dagster._core.system_config.objects import ResolvedRunConfig

import lance_core
from lance_pipelines.events.data_version import data_version_at
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, MaintenancePolicy

EAGER = MaintenancePolicy(
    compaction=CompactionPolicy(min_small_fragments=2),
    cleanup=CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0)),
)


def tick(defs: dg.Definitions, name: str, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    (sensor,) = [sensor for sensor in defs.get_repository_def().sensor_defs if sensor.name == name]
    context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs)
    with context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


@pytest.fixture
def eager(project, monkeypatch):
    """The project with a policy under which the smallest amount of work is due."""
    declaration = dataclasses.replace(project.declaration(), maintenance=EAGER)
    monkeypatch.setattr(project, "declaration", lambda: declaration)
    return project


def test_a_sensor_reports_nothing_for_a_commit_that_its_run_reported(project, instance) -> None:
    defs = project.definitions()
    assert project.run(instance).success
    first = tick(defs, "lance_version_sensor", instance)
    assert (first.asset_events, first.skip_reason.skip_message) == ([], "events: tracking starts at version 1")
    assert project.run(instance).success
    second = tick(defs, "lance_version_sensor", instance, first.cursor)
    assert (second.asset_events, second.skip_reason.skip_message) == ([], "events: version 2: 0 events")


def test_rows_that_other_writers_add_between_runs_are_reported(project, instance) -> None:
    """They are reported after a later version, but the asset's data version does not go back."""
    defs = project.definitions()
    assert project.run(instance).success
    cursor = tick(defs, "lance_version_sensor", instance).cursor
    lance.write_dataset(pa.table({"id": [7]}), project.uri, mode="append")
    assert project.run(instance).success
    (event,) = tick(defs, "lance_version_sensor", instance, cursor).asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert event.metadata["lance/version"].value == 2
    assert event.tags["dagster/data_version"] == data_version_at(project.uri, 3)


@pytest.mark.parametrize(
    ("name", "job_name"),
    [
        ("lance_compaction_sensor", "events__compact"),
        ("lance_deletion_sensor", "events__materialize_deletions"),
        ("lance_cleanup_sensor", "events__cleanup"),
    ],
)
def test_run_requests_of_a_sensor_are_accepted_by_its_job(eager, instance, name, job_name) -> None:
    for _ in range(3):
        lance_core.write_dataset(pa.table({"id": [1, 2]}), eager.uri, mode="append")
    lance.dataset(eager.uri).delete("id = 1")
    defs = eager.definitions()
    (request,) = tick(defs, name, instance).run_requests
    assert request.job_name == job_name
    job = defs.resolve_job_def(job_name)
    ResolvedRunConfig.build(job, request.run_config)
    assert job.tags.items() <= request.tags.items()


def test_a_sensor_waits_for_a_manually_started_run(eager, instance) -> None:
    """A manually started run has only the tags of its job."""
    for _ in range(3):
        lance_core.write_dataset(pa.table({"id": [1]}), eager.uri, mode="append")
    defs = eager.definitions()
    job = defs.resolve_job_def("events__materialize_deletions")
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=job.tags)
    result = tick(defs, "lance_compaction_sensor", instance)
    assert result.run_requests == []
    assert f"waiting for run {run.run_id} (materialize_deletions, last event at " in result.skip_reason.skip_message


def test_sensors_request_nothing_after_the_requested_cleanup(eager, instance) -> None:
    for _ in range(4):
        lance_core.write_dataset(pa.table({"id": [1]}), eager.uri, mode="append")
    defs = eager.definitions()
    first = tick(defs, "lance_cleanup_sensor", instance)
    (request,) = first.run_requests
    job = defs.resolve_job_def(request.job_name)
    result = job.execute_in_process(run_config=request.run_config, instance=instance, tags=request.tags)
    assert result.success
    second = tick(defs, "lance_cleanup_sensor", instance, first.cursor)
    assert second.run_requests == []
    assert second.skip_reason.skip_message == "events: 1 version, 0 removable < 1 (keeping the newest version)"
