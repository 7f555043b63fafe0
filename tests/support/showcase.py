"""A small project with some history, which the walk through the web interface looks at.

Three declared datasets and a pandas asset, as a bike-sharing company might have them::

    lake/stations      from a CSV file; replaced by every run
    lake/trips         one partition per day; a run replaces the rows of its days
    lake/app-events    grows by small batches; another program commits to it, too
    reports/revenue    stored by LanceIOManager, downstream of stations and trips

``python -m tests.support.showcase`` makes the history, in the instance of ``DAGSTER_HOME`` and the directory of
``LANCE_PIPELINES_WAREHOUSE``: it ingests, deletes, compacts and checks, without Spark.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import numpy as np
import pandas as pd
import pyarrow as pa

import lance_core
from lance_core.errors import DatasetNotFoundError
from lance_pipelines import (
    CheckSettings,
    CleanupPolicy,
    CompactionPolicy,
    DatasetDeclaration,
    FileSource,
    FunctionSource,
    LanceIOManager,
    MaintenancePolicy,
    Settings,
    SourceContext,
    SourceFormat,
    WriteMode,
    build_definitions,
    on_new_data,
)
from lance_pipelines.ops import rewrite_fragments, write_fragments
from lance_pipelines.resources import spark as resources
from tests.support.no_spark import NoSession, rewrite_without_session, stage_csv

STATIONS = ("Harbor", "Old Town", "University", "Airport", "Stadium", "Park")
DAYS = dg.DailyPartitionsDefinition(start_date="2026-03-01", end_date="2026-03-15", timezone="UTC")
FIRST_DAY = datetime(2026, 3, 1)
NUM_INGESTED_DAYS = 10
TRIPS_PER_DAY = 40
NUM_BATCHES = 6
ROWS_PER_BATCH = 250
OWNERS = ("team:data-platform", "ana@example.com")


def trips(context: SourceContext) -> pa.Table:
    """Return the trips of the run's days."""
    return pa.concat_tables(_trips_of(datetime.fromisoformat(day)) for day in context.partition_keys)


def app_events(context: SourceContext) -> pa.Table:
    """Return the next batch of events."""
    uri = Settings.from_environment().dataset_uri("lake/app-events")
    known = 0
    with suppress(DatasetNotFoundError):
        known = lance_core.dataset(uri).version
    return events(known)


def events(batch: int) -> pa.Table:
    ids = np.arange(batch * ROWS_PER_BATCH, (batch + 1) * ROWS_PER_BATCH)
    kinds = np.array(["unlock", "return", "search", "search", "payment"])
    return pa.table(
        {
            "event_id": ids,
            "kind": kinds[ids % 5],
            "station": np.array(STATIONS)[ids % 6],
            "latency_ms": 20.0 + 13 * ids % 90 + np.where(ids % 50 == 0, 400, 0),
        }
    )


def _trips_of(day: datetime) -> pa.Table:
    numbers = np.arange(TRIPS_PER_DAY)
    minutes = 4 + (7 * numbers + 3 * day.day) % 40
    return pa.table(
        {
            "trip_id": day.day * 1000 + numbers,
            "started_at": [day + timedelta(minutes=int(31 * number)) for number in numbers],
            "station": np.array(STATIONS)[(numbers + day.day) % 6],
            "minutes": minutes,
            "price": minutes * 0.35,
        }
    )


def declarations(settings: Settings) -> list[DatasetDeclaration]:
    return [
        DatasetDeclaration(
            key="lake/stations",
            uri=settings.dataset_uri("lake/stations"),
            source=FileSource(
                format=SourceFormat.CSV,
                paths=(f"{settings.warehouse}/landing/stations.csv",),
                options={"header": "true"},
                schema="station STRING, docks INT",
            ),
            mode=WriteMode.OVERWRITE,
            group="lake",
            owners=OWNERS,
            kinds=("csv",),
            tags={"domain": "operations"},
            checks=CheckSettings(key=("station",)),
            description="All stations, with the number of their docks.",
        ),
        DatasetDeclaration(
            key="lake/trips",
            uri=settings.dataset_uri("lake/trips"),
            source=FunctionSource(function=trips),
            mode=WriteMode.OVERWRITE_PARTITION,
            partitions=DAYS,
            partition_by="started_at",
            group="lake",
            owners=OWNERS,
            kinds=("python",),
            tags={"domain": "rides"},
            checks=CheckSettings(key=("trip_id",)),
            description="One row per trip. A run replaces the trips of its days.",
        ),
        DatasetDeclaration(
            key="lake/app-events",
            uri=settings.dataset_uri("lake/app-events"),
            source=FunctionSource(function=app_events),
            group="lake",
            owners=("team:app",),
            kinds=("python",),
            tags={"domain": "app"},
            checks=CheckSettings(key=("event_id",), max_age=timedelta(days=2)),
            maintenance=MaintenancePolicy(
                compaction=CompactionPolicy(target_rows_per_fragment=10_000, min_small_fragments=4),
                cleanup=CleanupPolicy(retain_versions=3, older_than=timedelta(0), min_age=timedelta(0)),
            ),
            description="What the app reports, in small batches.",
            column_descriptions={"latency_ms": "Time until the server answered, in milliseconds."},
        ),
    ]


@dg.asset(
    key_prefix="reports",
    group_name="reports",
    kinds={"lance", "pandas"},
    owners=["team:finance"],
    ins={
        "stations": dg.AssetIn(["lake", "stations"]),
        "trips": dg.AssetIn(["lake", "trips"], metadata={"columns": ["station", "price"]}),
    },
    automation_condition=on_new_data(),
    description="Revenue of each station, and per dock.",
)
def revenue(stations: pd.DataFrame, trips: pd.DataFrame) -> pd.DataFrame:
    total = trips.groupby("station", as_index=False)["price"].sum()
    joined = stations.merge(total, on="station").rename(columns={"price": "revenue"})
    return joined.assign(per_dock=joined["revenue"] / joined["docks"])


def definitions(settings: Settings) -> dg.Definitions:
    return dg.Definitions.merge(
        build_definitions(declarations(settings)),
        dg.Definitions(
            assets=[revenue],
            resources={"io_manager": LanceIOManager(base_uri=settings.warehouse)},
            executor=dg.in_process_executor,
        ),
    )


defs = definitions(Settings.from_environment())


class _History:
    """Runs, one after the other, in one instance."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance

    def run(self, job: str, config: Mapping[str, Any] | None = None, **chosen: Any) -> None:
        result = defs.resolve_job_def(job).execute_in_process(run_config=config, instance=self._instance, **chosen)
        assert result.success


def make_history(settings: Settings, instance: dg.DagsterInstance) -> None:
    """Ingest, delete, compact and check; commit by another program at the end."""
    history = _History(instance)
    history.run("lake__stations__ingest")
    days = [f"{FIRST_DAY + timedelta(days=day):%Y-%m-%d}" for day in range(NUM_INGESTED_DAYS)]
    span = {"dagster/asset_partition_range_start": days[0], "dagster/asset_partition_range_end": days[-1]}
    history.run("lake__trips__ingest", tags=span)
    history.run("lake__trips__ingest", partition_key=days[3])
    for batch in range(NUM_BATCHES):
        history.run("lake__app_events__ingest")
        if batch == NUM_BATCHES - 3:
            deleted = {"plan_delete": {"config": {"predicate": "event_id % 4 = 1"}}}
            history.run("lake__app_events__delete_rows", {"ops": deleted})
            history.run("lake__app_events__compact")
    history.run("lake__app_events__check")
    history.run("lake__trips__check")
    history.run("__ASSET_JOB", asset_selection=[revenue.key])
    lance.write_dataset(events(100), settings.dataset_uri("lake/app-events"), mode="append")


def _without_spark() -> None:
    """Replace what needs a session, in this process."""
    write_fragments.stage_write = stage_csv
    rewrite_fragments.rewrite_tasks = rewrite_without_session
    resources.SparkResource.spark_session = property(lambda self: NoSession())


def main() -> None:
    settings = Settings.from_environment()
    landing = Path(settings.warehouse) / "landing"
    landing.mkdir(parents=True)
    docks = "".join(f"{station},{20 + 5 * place}\n" for place, station in enumerate(STATIONS))
    (landing / "stations.csv").write_text(f"station,docks\n{docks}")
    _without_spark()
    with dg.DagsterInstance.get() as instance:
        make_history(settings, instance)


if __name__ == "__main__":
    main()
