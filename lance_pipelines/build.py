"""build_definitions: assembles the Dagster definitions of declared datasets.

Each of the other Dagster modules covers one concept; a project can use any of them without the others.
"""

import gc
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any, Final

import dagster as dg

from lance_core.errors import InvalidInputError, LanceError
from lance_core.metadata import recorded_uri
from lance_pipelines.assets.fleet_asset import build_fleet_definitions
from lance_pipelines.assets.ingested_dataset import build_dataset_asset
from lance_pipelines.assets.maintenance_asset import build_maintenance_asset
from lance_pipelines.assets.published_dataset import build_published_asset
from lance_pipelines.checks.asset_checks import build_asset_checks
from lance_pipelines.generated_names import check_names
from lance_pipelines.ingest.declaration import DatasetDeclaration, key_parts
from lance_pipelines.ingest.sources import Options
from lance_pipelines.jobs import build_check_jobs, build_ingest_jobs, build_maintenance_jobs, build_promotion_jobs
from lance_pipelines.resources.messages import DEFAULT_MESSAGES, MESSAGES
from lance_pipelines.resources.spark import SPARK_RESOURCE, SparkResource
from lance_pipelines.schedules import build_schedules
from lance_pipelines.sensors.all_sensors import build_sensors

__all__ = ["build_asset_definitions", "build_definitions", "build_shared_definitions"]

_SHARED_SPARK: Final = SparkResource()
"""The default resource, shared by all calls: Dagster merges definitions of a resource only if they are one object."""

_MANY_DATASETS: Final = 50
"""With at least this many datasets, garbage collection takes a noticeable part of the time to load a code location."""


def build_definitions(
    declarations: Iterable[DatasetDeclaration],
    *,
    namespace: str = "lance",
    spark: SparkResource | None = None,
    messages: dg.IOManagerDefinition | dg.ConfigurableIOManagerFactory[Any] = DEFAULT_MESSAGES,
    sensor_interval_seconds: int | None = None,
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.Definitions:
    """Return assets, checks, jobs, schedules, and sensors of datasets, to be merged with the definitions of a project.

    ::

        defs = dg.Definitions.merge(build_definitions([events, users]), dg.Definitions(assets=[report], executor=mine))

    All names begin with the name of a dataset or with the namespace. The definitions do not include an executor.

    If there are many datasets, all objects of the process are exempted from garbage collection (``gc.freeze``), which
    shortens the time to load 200 datasets by a fifth.

    Args:
        declarations: the datasets. A dataset without a source gets no asset and no ingest job, but everything else:
            jobs, checks, schedules, and sensors for the asset of the same key, which another part of the project
            defines.
        namespace: the prefix of the names of the sensors and of the asset ``lance/fleet``; each call in a project needs
            a different one, otherwise Dagster reports duplicate definitions.
        spark: starts the Spark sessions of the steps; if None, a resource with the default settings. Calls in one
            project share it, so pass the same object to each.
        messages: stores the messages between steps; by default, in the storage directory of the instance. If steps run
            on several machines, pass one that all of them can access.
        sensor_interval_seconds: seconds between two ticks of each sensor; if None, the default of each sensor.
        maintenance_status: default status of the sensors that request compaction, materialization of deletions, index
            updates, and cleanup. With ``RUNNING``, they do not have to be started in the web interface. A policy can
            switch the sensors on for its dataset alone (``MaintenancePolicy.running``).

    Raises:
        InvalidInputError: two datasets have the same name, location, or checkpoint, a name is reserved by Python or
            Dagster or equals the name of a job or a step of another dataset, or the namespace is not an identifier.
    """
    declared = tuple(declarations)
    shared = build_shared_definitions(
        declared,
        namespace=namespace,
        spark=spark,
        messages=messages,
        sensor_interval_seconds=sensor_interval_seconds,
        maintenance_status=maintenance_status,
    )
    defs = dg.Definitions.merge(build_asset_definitions(declared), shared)
    if len(declared) >= _MANY_DATASETS:
        # Definitions exist as long as their process: it need not examine them again and again.
        gc.freeze()
    return defs


def build_asset_definitions(declared: Sequence[DatasetDeclaration]) -> dg.Definitions:
    """Return the definitions of the individual datasets: assets, checks, the jobs of both, and schedules.

    The schedules start jobs of :func:`build_shared_definitions`.
    """
    ingested = [declaration for declaration in declared if declaration.source is not None]
    published = [declaration for declaration in declared if declaration.publish is not None]
    return dg.Definitions(
        assets=[
            *map(build_dataset_asset, ingested),
            *map(build_published_asset, published),
            *map(build_maintenance_asset, declared),
        ],
        asset_checks=[build_asset_checks(declaration) for declaration in declared if declaration.checks.names],
        jobs=[*build_ingest_jobs(ingested), *build_check_jobs(declared), *build_promotion_jobs(published)],
        schedules=build_schedules(declared),
    )


def build_shared_definitions(
    declared: Sequence[DatasetDeclaration],
    *,
    namespace: str,
    spark: SparkResource | None = None,
    messages: dg.IOManagerDefinition | dg.ConfigurableIOManagerFactory[Any] = DEFAULT_MESSAGES,
    sensor_interval_seconds: int | None = None,
    maintenance_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.Definitions:
    """Return the definitions that the datasets share: sensors, their jobs, resources, and the asset of the fleet.

    Raises:
        InvalidInputError: as for :func:`build_definitions`.
    """
    check_names(declared)
    _check_locations(declared)
    if not namespace.isidentifier():
        raise InvalidInputError(
            f"invalid namespace {namespace!r}: expected letters, digits, and underscores, not beginning with a digit"
        )
    maintenance_jobs = build_maintenance_jobs(declared)
    shared = dg.Definitions(
        jobs=maintenance_jobs,
        sensors=build_sensors(
            declared,
            maintenance_jobs,
            namespace=namespace,
            interval_seconds=sensor_interval_seconds,
            maintenance_status=maintenance_status,
        ),
        resources={SPARK_RESOURCE: _SHARED_SPARK if spark is None else spark, MESSAGES: messages},
    )
    if not declared:
        return shared
    return dg.Definitions.merge(shared, build_fleet_definitions(declared, namespace=namespace))


def _check_locations(declared: Sequence[DatasetDeclaration]) -> None:
    """Reject two declarations of one table, and two streams with one checkpoint.

    Raises:
        InvalidInputError: two datasets have the same location or checkpoint; the message contains their keys.
    """
    tables: dict[tuple[object, ...], str] = {}
    checkpoints: dict[tuple[object, ...], str] = {}
    for declaration in declared:
        key = "/".join(key_parts(declaration.key))
        other = tables.setdefault(_place(declaration.uri, declaration.storage_options), key)
        if other != key:
            raise InvalidInputError(
                f"datasets {other} and {key} have the same location, {declaration.uri}, so each would be maintained "
                "without waiting for the runs of the other; declare this table only once",
                uri=declaration.uri,
            )
        if declaration.checkpoint is None:
            continue
        other = checkpoints.setdefault(_place(declaration.checkpoint), key)
        if other != key:
            raise InvalidInputError(
                f"datasets {other} and {key} have the same checkpoint, {declaration.checkpoint}, so each would lack "
                "the rows that the other has ingested; give each stream a checkpoint of its own",
                checkpoint=declaration.checkpoint,
            )


def _place(uri: str, storage_options: Options = MappingProxyType({})) -> tuple[object, ...]:
    """Return a key that is the same for all names of a location.

    URIs in an object store denote different places if the storage options differ, for example in the endpoint.
    """
    try:
        place = recorded_uri(uri)
    except LanceError:
        # The runs of this dataset will fail; those of all others must not.
        place = uri
    return (place, *sorted(storage_options.items())) if "://" in place else (place,)
