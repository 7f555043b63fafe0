"""Schedules of the maintenance jobs, for datasets that change too little to trigger the sensors.

======================  ============  ==============================================================
Operation               When (UTC)    Reason
======================  ============  ==============================================================
compact                 02:00         before the day's readers
materialize_deletions   03:00         after the compaction, which also drops deleted rows
optimize_indices        03:30         after the rewrites, whose new fragments are not indexed
cleanup                 Sunday 04:00  after a week of rewrites, which leave old versions behind
======================  ============  ==============================================================

Each dataset has a schedule for each operation, named after the job: ``<dataset>__<operation>_schedule``. It is stopped
by default. A run with nothing to do reports this and ends.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import dagster as dg

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
    """Return one schedule for each scheduled operation of each dataset."""
    return [
        _schedule(operation, cron_schedule, job_name(operation, declaration.name))
        for declaration in declarations
        for operation, cron_schedule in CRON_SCHEDULES.items()
    ]


def _schedule(operation: str, cron_schedule: str, job: str) -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        name=f"{job}_schedule",
        job_name=job,
        cron_schedule=cron_schedule,
        execution_timezone="UTC",
        run_config=request_config(operation),
        default_status=dg.DefaultScheduleStatus.STOPPED,
        description=f"Runs {job} even if the sensor for this job does not consider it due.",
    )
