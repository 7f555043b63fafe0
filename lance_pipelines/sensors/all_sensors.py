"""The sensors of a project: one of each kind, for all declared datasets.

========================  ===========  =====================================  =================================
Sensor                    Every        Looks at                               Does
========================  ===========  =====================================  =================================
lance_version_sensor      30 seconds   versions not seen before               reports commits by other programs
lance_compaction_sensor   5 minutes    the latest manifest                    requests ``compact``
lance_deletion_sensor     5 minutes    the latest manifest                    requests ``materialize_deletions``
lance_index_sensor        5 minutes    the latest manifest                    requests ``optimize_indices``
lance_cleanup_sensor      5 minutes    names and ages of manifests, tags      requests ``cleanup``
========================  ===========  =====================================  =================================

``lance`` is the namespace of the definitions, which differs between calls of ``build_definitions`` in one project. The
first sensor runs by default. The others rewrite or delete files, so they must be started explicitly.
"""

from collections.abc import Sequence
from typing import Final

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import job_name, request_config
from lance_pipelines.sensors.cleanup_sensor import CLEANUP
from lance_pipelines.sensors.compaction_sensor import COMPACTION
from lance_pipelines.sensors.deletion_sensor import DELETIONS
from lance_pipelines.sensors.index_sensor import INDICES
from lance_pipelines.sensors.maintenance_sensor import build_maintenance_sensor
from lance_pipelines.sensors.run_requests import Target
from lance_pipelines.sensors.version_sensor import build_version_sensor

__all__ = ["build_sensors"]

WATCH_SECONDS: Final = 30
MAINTENANCE_SECONDS: Final = 300


_MAINTENANCE: Final = (COMPACTION, DELETIONS, INDICES, CLEANUP)


def build_sensors(
    declarations: Sequence[DatasetDeclaration],
    jobs: Sequence[dg.JobDefinition],
    *,
    namespace: str,
    interval_seconds: int | None = None,
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> list[dg.SensorDefinition]:
    """Return all sensors of the declared datasets.

    Args:
        declarations: the datasets.
        jobs: their maintenance jobs.
        namespace: the beginning of the name of each sensor.
        interval_seconds: seconds between two ticks of each sensor; if None, the defaults.
        maintenance_status: the default status of the sensors that request maintenance.
    """
    watch_seconds = WATCH_SECONDS if interval_seconds is None else interval_seconds
    sensors = [
        build_version_sensor(
            declarations,
            namespace=namespace,
            interval_seconds=watch_seconds,
            status=dg.DefaultSensorStatus.RUNNING,
        )
    ]
    if not declarations:
        return sensors
    by_name = {job.name: job for job in jobs}
    for kind in _MAINTENANCE:
        targets = [_target(kind.op, declaration) for declaration in declarations]
        sensors.append(
            build_maintenance_sensor(
                kind,
                targets,
                [by_name[target.job_name] for target in targets],
                namespace=namespace,
                interval_seconds=MAINTENANCE_SECONDS if interval_seconds is None else interval_seconds,
                status=maintenance_status,
            )
        )
    return sensors


def _target(operation: str, declaration: DatasetDeclaration) -> Target:
    return Target(
        declaration=declaration,
        job_name=job_name(operation, declaration.name),
        run_config=request_config(operation),
    )
