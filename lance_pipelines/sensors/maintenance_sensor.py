"""A sensor that requests maintenance of one kind, for all datasets."""

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
        kind: the kind of maintenance.
        targets: the datasets and their jobs.
        jobs: those jobs.
        interval_seconds: time between two ticks.
        status: the default status of the sensor.
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
