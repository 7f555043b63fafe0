"""The schedules of maintenance jobs."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.system_config.objects import ResolvedRunConfig

from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.schedules import CRON_SCHEDULES

DECLARATIONS = [
    DatasetDeclaration(key=name, uri=f"/lake/{name}", source=FileSource(format=SourceFormat.ENVIRONMENT))
    for name in ("events", "users")
]


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return build_definitions(DECLARATIONS)


def test_every_scheduled_operation_of_every_dataset_has_a_schedule(definitions) -> None:
    schedules = {schedule.name: schedule for schedule in definitions.get_repository_def().schedule_defs}
    assert {name: schedule.cron_schedule for name, schedule in schedules.items()} == {
        f"{dataset}__{op}_schedule": cron for op, cron in CRON_SCHEDULES.items() for dataset in ("events", "users")
    } | {"lance_fleet_schedule": "15 * * * *"}


def test_schedules_are_switched_off_by_default(definitions) -> None:
    for schedule in definitions.get_repository_def().schedule_defs:
        assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED


def test_run_requests_of_schedules_are_accepted_by_their_jobs(definitions, instance) -> None:
    for schedule in definitions.get_repository_def().schedule_defs:
        with dg.build_schedule_context(instance=instance) as context:
            (request,) = schedule.evaluate_tick(context).run_requests
        job = definitions.resolve_job_def(schedule.job_name)
        ResolvedRunConfig.build(job, request.run_config)
        assert job.tags.get("lance/op", "fleet") in {*CRON_SCHEDULES, "fleet"}
