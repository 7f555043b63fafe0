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
first sensor runs by default. The others rewrite or delete files, so they must be switched on: all together
(``maintenance_status``, or by hand in the web interface), or for single datasets (``MaintenancePolicy.running``).

If a dataset sets ``running=True``, the sensors run by default. From then on, they maintain only the datasets that set
it; otherwise, the declaration of one dataset would cause files of other datasets to be deleted.
"""

from collections.abc import Sequence
from types import MappingProxyType
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

_DECLARED_OFF: Final = "not maintained by sensors, because its policy sets running=False"
_SWITCHED_OFF: Final = MappingProxyType(
    {
        (False, True): _DECLARED_OFF,
        (False, False): _DECLARED_OFF,
        (None, False): "not maintained by sensors, because only other datasets set running=True (to maintain all "
        "datasets, set maintenance_status=RUNNING)",
    }
)
"""Maps ``running`` of a policy, and whether None means True, to the reason why the dataset is not maintained."""


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
        namespace: the prefix of the name of each sensor.
        interval_seconds: seconds between two ticks of each sensor; if None, the defaults.
        maintenance_status: the default status of the sensors that request maintenance, unless a dataset sets
            ``running=True``.
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
    is_on_for_all = maintenance_status is dg.DefaultSensorStatus.RUNNING
    is_on_for_one = any(declaration.maintenance.running for declaration in declarations)
    is_on_by_default = is_on_for_all or not is_on_for_one
    for kind in _MAINTENANCE:
        targets = [_target(kind.op, declaration, is_on_by_default=is_on_by_default) for declaration in declarations]
        sensors.append(
            build_maintenance_sensor(
                kind,
                targets,
                [by_name[target.job_name] for target in targets],
                namespace=namespace,
                interval_seconds=MAINTENANCE_SECONDS if interval_seconds is None else interval_seconds,
                status=dg.DefaultSensorStatus.RUNNING if is_on_for_one else maintenance_status,
            )
        )
    return sensors


def _target(operation: str, declaration: DatasetDeclaration, *, is_on_by_default: bool) -> Target:
    is_on = declaration.maintenance.running
    return Target(
        declaration=declaration,
        job_name=job_name(operation, declaration.name),
        run_config=request_config(operation),
        switched_off=_SWITCHED_OFF.get((is_on, is_on_by_default), ""),
    )
