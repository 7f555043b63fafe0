"""The sensors of a project: one of each kind, for all declared datasets.

==================  ===========  =====================================  =================================
Sensor              Every        Looks at                               Does
==================  ===========  =====================================  =================================
version_sensor      30 seconds   versions not seen before               reports commits by other programs
automation_sensor   30 seconds   events                                 runs assets downstream
compaction_sensor   5 minutes    the latest manifest                    requests ``compact``
deletion_sensor     5 minutes    the latest manifest                    requests ``materialize_deletions``
cleanup_sensor      5 minutes    names and ages of manifests, tags      requests ``cleanup``
==================  ===========  =====================================  =================================

The first two run by default. The others rewrite or delete files, so they must be started explicitly.
"""

from collections.abc import Sequence
from typing import Final

import dagster as dg

from lance_pipelines.automation import build_automation_sensor
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.sensors.cleanup_sensor import CLEANUP
from lance_pipelines.sensors.compaction_sensor import COMPACTION
from lance_pipelines.sensors.deletion_sensor import DELETIONS
from lance_pipelines.sensors.maintenance_sensor import build_maintenance_sensor
from lance_pipelines.sensors.run_requests import Target
from lance_pipelines.sensors.version_sensor import build_version_sensor

__all__ = ["build_sensors"]

WATCH_SECONDS: Final = 30
MAINTENANCE_SECONDS: Final = 300


_MAINTENANCE: Final = (COMPACTION, DELETIONS, CLEANUP)


def build_sensors(
    declarations: Sequence[DatasetDeclaration],
    jobs: Sequence[dg.JobDefinition],
    *,
    interval_seconds: int | None = None,
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    with_automation: bool = True,
) -> list[dg.SensorDefinition]:
    """Return all sensors of the declared datasets.

    Args:
        declarations: the datasets.
        jobs: their maintenance jobs.
        interval_seconds: seconds between two ticks of each sensor; if None, the defaults.
        maintenance_status: the default status of the sensors that request maintenance.
        with_automation: False if the project evaluates the automation conditions of its assets itself.
    """
    watch_seconds = WATCH_SECONDS if interval_seconds is None else interval_seconds
    sensors: list[dg.SensorDefinition] = [
        build_version_sensor(declarations, interval_seconds=watch_seconds, status=dg.DefaultSensorStatus.RUNNING),
    ]
    if with_automation:
        sensors.append(build_automation_sensor(interval_seconds=watch_seconds))
    if not declarations:
        return sensors
    by_name = {job.name: job for job in jobs}
    for kind in _MAINTENANCE:
        targets = [_target(kind.op, declarations, declaration) for declaration in declarations]
        sensors.append(
            build_maintenance_sensor(
                kind,
                targets,
                [by_name[target.job_name] for target in targets],
                interval_seconds=MAINTENANCE_SECONDS if interval_seconds is None else interval_seconds,
                status=maintenance_status,
            )
        )
    return sensors


def _target(operation: str, declarations: Sequence[DatasetDeclaration], declaration: DatasetDeclaration) -> Target:
    return Target(
        declaration=declaration,
        job_name=job_name(operation, declarations, declaration.name),
        run_config=request_config(operation),
    )
