"""The demonstration's definitions: one dataset with a strict policy, and a downstream asset.

The policy and the intervals are scaled-down versions of real ones: fragments of a few thousand rows, one version that
is kept, and sensors that run every few seconds.
"""

from datetime import timedelta
from typing import Final

import dagster as dg

import lance_core
from lance_pipelines.automation import on_new_data
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, MaintenancePolicy
from lance_pipelines.settings import Settings

__all__ = [
    "CLEANUP_POLICY",
    "COMPACTION_POLICY",
    "DATASET",
    "DELETION_POLICY",
    "DOWNSTREAM",
    "defs",
    "demo_definitions",
]

DATASET: Final = "events"
DOWNSTREAM: Final = "event_counts"

COMPACTION_POLICY: Final = CompactionPolicy(
    target_rows_per_fragment=4000, target_bytes_per_fragment=None, min_small_fragments=4
)
DELETION_POLICY: Final = DeletionPolicy(max_deleted_fraction=0.1)
CLEANUP_POLICY: Final = CleanupPolicy(
    retain_versions=1, older_than=timedelta(0), min_age=timedelta(0), min_old_versions=1
)

_INTERVAL_SECONDS: Final = 5


def demo_definitions(settings: Settings) -> dg.Definitions:
    """Return the dataset ``events``, its jobs and sensors, and the asset ``event_counts``.

    Args:
        settings: the settings, which determine the location of the dataset.
    """
    uri = settings.dataset_uri(DATASET)

    @dg.asset(
        name=DOWNSTREAM,
        deps=[DATASET],
        automation_condition=on_new_data(),
        description="Number of events of each kind; recomputed only when rows are added or deleted.",
    )
    def event_counts() -> dg.MaterializeResult[None]:
        counts = lance_core.dataset(uri).to_table(columns=["kind"])["kind"].value_counts().to_pylist()
        return dg.MaterializeResult(metadata={str(count["values"]): int(count["counts"]) for count in counts})

    declaration = DatasetDeclaration(
        key=DATASET,
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=("named-by-each-run.parquet",)),
        description="Events that arrive in many small batches.",
        maintenance=MaintenancePolicy(compaction=COMPACTION_POLICY, deletion=DELETION_POLICY, cleanup=CLEANUP_POLICY),
    )
    conditions = dg.AutomationConditionSensorDefinition(
        "automation_sensor",
        target=[event_counts],
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=_INTERVAL_SECONDS,
    )
    return dg.Definitions.merge(
        build_definitions([declaration], sensor_interval_seconds=_INTERVAL_SECONDS),
        dg.Definitions(assets=[event_counts], sensors=[conditions], executor=dg.in_process_executor),
    )


defs = demo_definitions(Settings.from_environment())
