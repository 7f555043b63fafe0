"""The demonstration's definitions: two datasets with strict policies, and an asset downstream of each.

``events`` has a partition for each hour and a vector index; ``profiles`` is upserted by key. A run reads the file that
the demonstration has put into the landing directory beside the warehouse, without Spark.

The policies and the intervals are scaled-down versions of real ones: fragments of a few thousand rows, one version that
is kept, and sensors that run every few seconds.
"""

from datetime import timedelta
from pathlib import Path
from typing import Final

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

import lance_core
from lance_pipelines.automation import on_new_data
from lance_pipelines.build import build_definitions
from lance_pipelines.demo.batches import HOURS
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.sources import FunctionSource, SourceContext
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.policy import (
    CleanupPolicy,
    CompactionPolicy,
    DeletionPolicy,
    IndexPolicy,
    MaintenancePolicy,
)
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.settings import Settings

__all__ = [
    "AUTOMATION_SENSOR",
    "DATASETS",
    "DOWNSTREAM",
    "EVENTS",
    "POLICY",
    "PROFILES",
    "defs",
    "demo_definitions",
    "landing_directory",
]

EVENTS: Final = "events"
PROFILES: Final = "profiles"
DATASETS: Final = (EVENTS, PROFILES)
AUTOMATION_SENSOR: Final = "automation_sensor"
DOWNSTREAM: Final = {EVENTS: "event_counts", PROFILES: "profile_counts"}

POLICY: Final = MaintenancePolicy(
    compaction=CompactionPolicy(target_rows_per_fragment=4000, target_bytes_per_fragment=None, min_small_fragments=4),
    deletion=DeletionPolicy(max_deleted_fraction=0.1),
    cleanup=CleanupPolicy(retain_versions=1, older_than=timedelta(0), min_age=timedelta(0), min_old_versions=1),
    indices=IndexPolicy(min_unindexed_rows=1000, min_unindexed_fragments=4),
)

_INDEX: Final = IndexDeclaration(column="embedding", type=IndexType.IVF_FLAT, parameters={"num_partitions": 4})

_SPARK: Final = {"spark.master": "local[2,2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Spark settings for a short startup time; the demonstration has only a few rows."""

_INTERVAL_SECONDS: Final = 5


def landing_directory(warehouse: str) -> Path:
    """Return the directory of the files that the runs read: one directory for each dataset."""
    return Path(warehouse).parent / "landing"


def demo_definitions(settings: Settings) -> dg.Definitions:
    """Return the two datasets, their jobs and sensors, and the downstream assets.

    Args:
        settings: the settings, which determine the location of the datasets.
    """
    landing = landing_directory(settings.warehouse)

    def hours(context: SourceContext) -> pa.Table:
        return pa.concat_tables(pq.read_table(landing / EVENTS / f"{hour}.parquet") for hour in context.partition_keys)

    def newest_profiles(context: SourceContext) -> pa.Table:
        return pq.read_table(max((landing / PROFILES).glob("*.parquet")))

    declarations = [
        DatasetDeclaration(
            key=EVENTS,
            uri=settings.dataset_uri(EVENTS),
            source=FunctionSource(function=hours),
            mode=WriteMode.OVERWRITE_PARTITION,
            partitions=dg.StaticPartitionsDefinition(HOURS),
            partition_by="hour",
            indices=[_INDEX],
            description="Events, partitioned by hour, with embeddings that a vector index covers.",
            maintenance=POLICY,
            history=settings.history_uri,
        ),
        DatasetDeclaration(
            key=PROFILES,
            uri=settings.dataset_uri(PROFILES),
            source=FunctionSource(function=newest_profiles),
            mode=WriteMode.UPSERT,
            upsert_by="user",
            description="The latest profile of each user; a run replaces the profiles of the users in its batch.",
            maintenance=POLICY,
            history=settings.history_uri,
        ),
    ]
    downstream = [
        _row_counts(EVENTS, "kind", settings.dataset_uri(EVENTS)),
        _row_counts(PROFILES, "plan", settings.dataset_uri(PROFILES)),
    ]
    conditions = dg.AutomationConditionSensorDefinition(
        AUTOMATION_SENSOR,
        target=downstream,
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=_INTERVAL_SECONDS,
    )
    return dg.Definitions.merge(
        build_definitions(
            declarations, sensor_interval_seconds=_INTERVAL_SECONDS, spark=SparkResource(spark_config=_SPARK)
        ),
        dg.Definitions(assets=downstream, sensors=[conditions], executor=dg.in_process_executor),
    )


def _row_counts(dataset: str, column: str, uri: str) -> dg.AssetsDefinition:
    """Return the asset downstream of a dataset, which counts the rows with each value of a column."""

    @dg.asset(
        name=DOWNSTREAM[dataset],
        deps=[dataset],
        # The hours that are still to come are missing; the counts do not wait for them.
        automation_condition=on_new_data().without(~dg.AutomationCondition.any_deps_missing()),
        description=f"Number of {dataset} of each {column}; computed only when rows are added, changed, or deleted.",
    )
    def row_counts() -> dg.MaterializeResult[None]:
        counts = lance_core.dataset(uri).to_table(columns=[column])[column].value_counts().to_pylist()
        return dg.MaterializeResult(metadata={str(count["values"]): int(count["counts"]) for count in counts})

    return row_counts


defs = demo_definitions(Settings.from_environment())
