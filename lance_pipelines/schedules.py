"""Schedules of the maintenance jobs, for datasets that change too little to trigger the sensors.

======================  ============  ==============================================================
Operation               When (UTC)    Reason
======================  ============  ==============================================================
compact                 02:00         so that the day's readers find few fragments
materialize_deletions   03:00         after the compaction, which also drops deleted rows
optimize_indices        03:30         after the rewrites, whose new fragments are not indexed
cleanup                 Sunday 04:00  after a week of rewrites, which leave old versions behind
======================  ============  ==============================================================

Each dataset has a schedule for each operation, named after the job: ``<dataset>__<operation>_schedule``. These
schedules are stopped by default. A dataset with a retention rule also has a schedule for the job ``retention``; the
rule determines when the job runs (by default at 01:00, before the rewrites), and whether the schedule is started. A run
with nothing to do reports this and ends.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import dagster as dg
from dagster._utils.schedules import is_valid_cron_schedule

from lance_core.errors import InvalidInputError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config

__all__ = ["CRON_SCHEDULES", "build_schedules"]

CRON_SCHEDULES: Final = MappingProxyType(
    {
        "compact": "0 2 * * *",
        "materialize_deletions": "0 3 * * *",
        "optimize_indices": "30 3 * * *",
        "cleanup": "0 4 * * 0",
    }
)
"""Maps each operation to the cron expression of its jobs."""


def build_schedules(declarations: Sequence[DatasetDeclaration]) -> list[dg.ScheduleDefinition]:
    """Return one schedule for each scheduled operation of each dataset.

    Raises:
        InvalidInputError: the cron expression of a retention rule is malformed.
    """
    schedules = [
        _schedule(
            operation, cron_schedule, declaration.name, "even if the sensor for this job does not consider it due"
        )
        for declaration in declarations
        for operation, cron_schedule in CRON_SCHEDULES.items()
    ]
    for declaration in declarations:
        rule = declaration.retention
        if rule is None:
            continue
        cron_schedule: object = rule.cron_schedule
        if not isinstance(cron_schedule, str) or not is_valid_cron_schedule(cron_schedule):
            raise InvalidInputError(
                f"dataset {declaration.name}: retention: invalid cron_schedule {rule.cron_schedule!r}; expected a cron "
                "expression, such as '0 1 * * *'"
            )
        what = f"to delete rows where {rule.predicate}"
        schedules.append(_schedule("retention", rule.cron_schedule, declaration.name, what, is_running=rule.running))
    return schedules


def _schedule(
    operation: str, cron_schedule: str, dataset: str, purpose: str, *, is_running: bool = False
) -> dg.ScheduleDefinition:
    job = job_name(operation, dataset)
    return dg.ScheduleDefinition(
        name=f"{job}_schedule",
        job_name=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        run_config=request_config(operation),
        default_status=dg.DefaultScheduleStatus.RUNNING if is_running else dg.DefaultScheduleStatus.STOPPED,
        description=f"Runs {job} {purpose}.",
    )
