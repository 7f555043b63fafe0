"""A sensor that asks for maintenance of one kind, over all datasets."""

from collections.abc import Sequence

import dagster as dg

from lance_pipelines.sensors.job_sensor import JobSensor
from lance_pipelines.sensors.run_requests import MaintenanceKind, Target, request_runs

__all__ = ["build_maintenance_sensor"]


def build_maintenance_sensor(
    kind: MaintenanceKind,
    targets: Sequence[Target],
    jobs: Sequence[dg.JobDefinition],
    *,
    interval_seconds: int,
    status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """One sensor for all datasets.

    Args:
        kind: what it asks for.
        targets: the datasets and their jobs.
        jobs: those jobs.
        interval_seconds: time between two ticks.
        status: whether it runs without being switched on.
    """

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return request_runs(context, kind, targets)

    return JobSensor(
        name=kind.sensor,
        evaluation_fn=evaluate,
        jobs=jobs,
        minimum_interval_seconds=interval_seconds,
        default_status=status,
        description=kind.description,
    )
