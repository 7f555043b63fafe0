"""Creates a sensor that requests one kind of maintenance for all datasets."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster import BetaWarning
from dagster._core.definitions.target import ExecutableDefinition

from lance_pipelines.sensors.run_requests import MaintenanceKind, Target, request_runs

__all__ = ["build_maintenance_sensor"]


def build_maintenance_sensor(
    kind: MaintenanceKind,
    targets: Sequence[Target],
    jobs: Sequence[dg.JobDefinition],
    *,
    namespace: str,
    interval_seconds: int,
    status: dg.DefaultSensorStatus,
) -> dg.SensorDefinition:
    """Return the sensor that requests one kind of maintenance.

    Args:
        kind: the kind of maintenance.
        targets: the datasets and their jobs.
        jobs: the jobs of the targets.
        namespace: the prefix of the sensor's name.
        interval_seconds: seconds between two ticks.
        status: the default status of the sensor.
    """

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        return request_runs(context, kind, targets, interval_seconds=interval_seconds)

    return _JobSensor(
        name=f"{namespace}_{kind.sensor}",
        evaluation_fn=evaluate,
        jobs=jobs,
        minimum_interval_seconds=interval_seconds,
        default_status=status,
        description=kind.description,
    )


class _JobSensor(dg.SensorDefinition):
    """Dagster's sensor, without a warning at every start.

    Binding resources to a sensor's jobs copies the sensor. Dagster 1.13 passes an argument that it marks as beta to the
    copy, even if the original was created without the argument.
    """

    def with_attributes(
        self,
        *,
        jobs: Sequence[ExecutableDefinition] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dg.SensorDefinition:
        """Return a copy with different jobs or metadata."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BetaWarning)
            copied = super().with_attributes(jobs=jobs, metadata=metadata)
        # The copy is a plain sensor, which would warn when Dagster copies it again (for the metadata and for the jobs).
        copied.__class__ = type(self)
        return copied
