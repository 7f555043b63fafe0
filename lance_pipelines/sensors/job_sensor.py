"""A sensor that requests runs of several jobs."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
from dagster import BetaWarning
from dagster._core.definitions.target import ExecutableDefinition

__all__ = ["JobSensor"]


class JobSensor(dg.SensorDefinition):
    """Dagster's sensor, without a warning at every start.

    Binding resources to a sensor's jobs copies the sensor. Dagster 1.13 does so with an argument that it marks as beta,
    whether it was used or not.
    """

    def with_attributes(
        self,
        *,
        jobs: Sequence[ExecutableDefinition] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> dg.SensorDefinition:
        """Return a copy with other jobs or metadata."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BetaWarning)
            return super().with_attributes(jobs=jobs, metadata=metadata)
