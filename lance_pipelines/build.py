"""build_definitions: assembles the Dagster definitions of the project.

Every other module contains one Dagster concept and does not depend on which others a project uses.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from lance_pipelines.assets.ingested_dataset import build_dataset_asset
from lance_pipelines.declarations import default_declarations
from lance_pipelines.generated_names import check_dataset_names, check_generated_names
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.jobs import build_ingest_jobs, build_maintenance_jobs
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.schedules import build_schedules
from lance_pipelines.sensors.all_sensors import build_sensors
from lance_pipelines.settings import ExecutorKind, Settings

__all__ = ["build_definitions"]


def build_definitions(
    *,
    declarations: Sequence[DatasetDeclaration] | None = None,
    settings: Settings | None = None,
    resources: Mapping[str, object] | None = None,
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec] = (),
    jobs: Sequence[dg.JobDefinition] = (),
    sensors: Sequence[dg.SensorDefinition] = (),
    schedules: Sequence[dg.ScheduleDefinition] = (),
    executor: dg.ExecutorDefinition | None = None,
    sensor_interval_seconds: int | None = None,
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.Definitions:
    """Return all definitions for Dagster to load.

    Args:
        declarations: datasets to ingest. With several datasets, the names of their jobs end in the dataset's name. None
            uses the project's own declarations.
        settings: locations and executor; None reads the environment.
        resources: replace or join the project's own, by key.
        assets: further assets, for example those that read the datasets.
        jobs: further jobs.
        sensors: further sensors. One that evaluates automation conditions replaces the project's own.
        schedules: further schedules.
        executor: how runs execute; None uses the settings.
        sensor_interval_seconds: time between two ticks of each of the project's sensors; None for the defaults.
        maintenance_status: ``RUNNING`` lets the sensors that request compaction, materialization of deletions and
            cleanup run by default, without being started in the web interface.

    Raises:
        InvalidInputError: two declarations have the same name, or a name is reserved by Python or Dagster or already
            used by a job or an op of a dataset.
    """
    settings = Settings.from_environment() if settings is None else settings
    declarations = default_declarations(settings) if declarations is None else tuple(declarations)
    check_dataset_names(declarations)
    dataset_assets = [build_dataset_asset(declaration) for declaration in declarations]
    ingest_jobs, maintenance_jobs = build_ingest_jobs(declarations), build_maintenance_jobs(declarations)
    check_generated_names(dataset_assets, [*ingest_jobs, *maintenance_jobs])
    own_sensors = build_sensors(
        declarations,
        maintenance_jobs,
        interval_seconds=sensor_interval_seconds,
        maintenance_status=maintenance_status,
        with_automation=not any(isinstance(sensor, dg.AutomationConditionSensorDefinition) for sensor in sensors),
    )
    return dg.Definitions(
        assets=[*dataset_assets, *assets],
        jobs=[*ingest_jobs, *maintenance_jobs, *jobs],
        sensors=[*own_sensors, *sensors],
        schedules=[*build_schedules(declarations), *schedules],
        resources={"spark": SparkResource(), **(resources or {})},
        executor=_executor(settings.executor) if executor is None else executor,
    )


def _executor(kind: ExecutorKind) -> dg.ExecutorDefinition:
    return dg.multiprocess_executor if kind is ExecutorKind.MULTIPROCESS else dg.in_process_executor
