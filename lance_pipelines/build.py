"""build_definitions: assembles the Dagster definitions of the project.

Each of the other Dagster modules covers one concept; a project can use any of them without the others.
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
        declarations: datasets to ingest; if None, the project's own declarations. With several datasets, the name of
            each job ends in the name of its dataset.
        settings: locations and executor; if None, they are read from the environment.
        resources: additional resources by key; each one replaces the project's own resource with the same key, if there
            is one.
        assets: additional assets, for example assets that read the datasets.
        jobs: additional jobs.
        sensors: additional sensors; a sensor that evaluates automation conditions replaces the project's own.
        schedules: additional schedules.
        executor: executes the runs; if None, the executor that the settings specify.
        sensor_interval_seconds: seconds between two ticks of each of the project's sensors; if None, the default of
            each sensor.
        maintenance_status: default status of the sensors that request compaction, materialization of deletions, and
            cleanup. With ``RUNNING``, they do not have to be started in the web interface.

    Raises:
        InvalidInputError: two declarations have the same name, or a name is reserved by Python or Dagster, or is
            already used by a job or an op of a dataset.
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
