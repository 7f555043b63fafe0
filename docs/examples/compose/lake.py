"""The code location of the example: replace these datasets with yours."""

from datetime import timedelta

import dagster as dg
import pyarrow as pa

from lance_pipelines import (
    CleanupPolicy,
    CompactionPolicy,
    DatasetDeclaration,
    FunctionSource,
    MaintenancePolicy,
    Settings,
    SourceContext,
    build_definitions,
)


def measurements(context: SourceContext) -> pa.Table:
    """Stand in for an API that returns the newest measurements."""
    return pa.table({"measured_at": [context.captured_at] * 100, "value": pa.array(range(100), pa.float64())})


# The credentials of the store are in the environment of the containers.
readings = DatasetDeclaration(
    key="readings",
    uri=Settings.from_environment().dataset_uri("readings"),
    source=FunctionSource(function=measurements),
    maintenance=MaintenancePolicy(
        compaction=CompactionPolicy(min_small_fragments=8),
        cleanup=CleanupPolicy(older_than=timedelta(days=2)),
    ),
)

defs = dg.Definitions.merge(
    build_definitions([readings], maintenance_status=dg.DefaultSensorStatus.RUNNING),
    dg.Definitions(
        executor=dg.in_process_executor,
        schedules=[
            dg.ScheduleDefinition(
                name="readings_every_ten_minutes",
                job_name="readings__ingest",
                cron_schedule="*/10 * * * *",
            )
        ],
    ),
)
