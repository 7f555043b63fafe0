"""Deletes from a partitioned dataset materialize the partitions that have lost rows, for assets downstream of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import StorageError
from lance_pipelines import PartitionColumn, on_new_data
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.partition_rows import select_rows
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.jobs import request_config
from lance_pipelines.maintenance.retention_rule import RetentionRule
from lance_pipelines.ops import commit_step
from lance_pipelines.partitions import partition_keys_of_rows, partitions_of
from tests.support.local_rewriting import ids
from tests.support.no_spark import NoSpark

EVENTS = dg.AssetKey("events")
AREAS = dg.StaticPartitionsDefinition(["eu", "us", "asia"])
DAYS = dg.DailyPartitionsDefinition(start_date="2024-03-01", end_date="2024-03-05", timezone="Europe/Zurich")
BOTH = dg.MultiPartitionsDefinition({"day": DAYS, "area": AREAS})
BY_BOTH = [PartitionColumn(column="at", dimension="day"), PartitionColumn(column="area", dimension="area")]


def rows() -> pa.Table:
    """Two rows of each area; the first at 23:30 UTC, which is already the next day in Zurich."""
    days = [datetime(2024, 3, day, hour, 30, tzinfo=UTC) for day in (1, 2, 3) for hour in (23, 12)]
    return pa.table(
        {
            "id": range(6),
            "at": pa.array(days, pa.timestamp("us", "UTC")),
            "area": ["eu", "us", "asia", "eu", "us", "asia"],
        }
    )


@dataclass
class Lake:
    """A partitioned dataset ``events``, and an asset ``report`` with the same partitions downstream of it."""

    uri: str
    instance: dg.DagsterInstance
    partitions: dg.PartitionsDefinition = AREAS
    partition_by: str | Sequence[PartitionColumn] = "area"
    condition: dg.AutomationCondition = field(default_factory=on_new_data)
    cursor: Any = None

    def declaration(self) -> DatasetDeclaration:
        return DatasetDeclaration(
            key="events",
            uri=self.uri,
            source=FileSource(format=SourceFormat.PARQUET, paths=("/landing",)),
            partitions=self.partitions,
            partition_by=self.partition_by,
            retention=RetentionRule(predicate="at < now() - interval '2 days'"),
        )

    def partitions_of(self, predicate: str) -> list[str]:
        """Return the partitions of the rows that match."""
        rows = lance_core.dataset(self.uri).scanner(filter=predicate).to_reader()
        return partition_keys_of_rows(self.declaration(), rows, self.instance)

    def definitions(self) -> dg.Definitions:
        @dg.asset(partitions_def=self.partitions, automation_condition=self.condition, deps=["events"])
        def report() -> None:
            """Reads a partition of the dataset."""

        return dg.Definitions.merge(
            build_definitions([self.declaration()], spark=NoSpark()), dg.Definitions(assets=[report])
        )

    def run(self, operation: str, **config: Any) -> None:
        job = self.definitions().resolve_job_def(f"events__{operation}")
        assert job.execute_in_process(run_config=request_config(operation, **config), instance=self.instance).success

    def delete(self, predicate: str) -> list[str | None]:
        """Delete rows, and return the partitions of the new materializations, in order."""
        before = len(self.materialized())
        self.run("delete_rows", predicate=predicate)
        return self.materialized()[before:]

    def materialized(self) -> list[str | None]:
        records = self.instance.fetch_materializations(EVENTS, limit=1000, ascending=True).records
        return [record.asset_materialization.partition for record in records]

    def ingest_all(self) -> None:
        """Materialize all partitions of both assets, as an ingest and its downstream run do."""
        for key in self.partitions.get_partition_keys(dynamic_partitions_store=self.instance):
            for asset in (EVENTS, dg.AssetKey("report")):
                event = dg.AssetMaterialization(asset, partition=key, tags={"dagster/data_version": "ingested"})
                self.instance.report_runless_asset_event(event)

    def requested(self) -> set[str]:
        """Tick the automation, and return the partitions of the downstream asset that it requests, after they ran."""
        result = dg.evaluate_automation_conditions(
            defs=self.definitions(),
            instance=self.instance,
            cursor=self.cursor,
            asset_selection=dg.AssetSelection.all(),
        )
        self.cursor = result.cursor
        report = dg.AssetKey("report")
        keys = result.get_requested_partitions(report)
        for key in keys:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(report, partition=key))
        return keys


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Lake:
    lake = Lake(str(tmp_path / "events.lance"), instance)
    lance_core.write_dataset(rows(), lake.uri, max_rows_per_file=2)
    return lake


@pytest.mark.slow
def test_a_delete_triggers_runs_of_the_affected_downstream_partitions_and_maintenance_triggers_none(lake) -> None:
    lake.ingest_all()
    assert [lake.requested(), lake.requested()] == [set(), set()]
    lake.run("delete_rows", predicate="id in (0, 3)")
    assert [lake.requested(), lake.requested()] == [{"eu"}, set()]
    lake.run("delete_rows", predicate="id in (1, 2)")
    assert [lake.requested(), lake.requested()] == [{"us", "asia"}, set()]
    lance.dataset(lake.uri).optimize.compact_files()
    lake.run("cleanup", min_age="0s", older_than="0s", retain_versions=1)
    lake.run("delete_rows", predicate="id = 0")
    assert [lake.requested(), lake.requested()] == [set(), set()]


@pytest.mark.slow
def test_retention_triggers_runs_of_the_affected_downstream_partitions_of_earlier_days(lake) -> None:
    """Like ``eager()``, the condition considers only the latest time window by default."""
    lake.partitions, lake.partition_by = DAYS, "at"
    lake.condition = on_new_data().without(dg.AutomationCondition.in_latest_time_window())
    lake.ingest_all()
    assert lake.requested() == set()
    lake.run("retention", as_of="2024-03-05T00:00:00Z")
    assert ids(lake.uri) == [4, 5]
    assert [lake.requested(), lake.requested()] == [{"2024-03-01", "2024-03-02", "2024-03-03"}, set()]


def test_every_event_of_a_delete_has_the_same_metadata_and_its_own_partition(lake) -> None:
    assert lake.delete("id < 3") == ["asia", "eu", "us"]
    records = lake.instance.fetch_materializations(EVENTS, limit=3).records
    events = [record.asset_materialization for record in records]
    assert [event.metadata["lance/rows_deleted"].value for event in events] == [3, 3, 3]
    assert len({event.tags["dagster/data_version"] for event in events}) == 1


@pytest.mark.parametrize(
    ("partitions", "partition_by", "predicate", "expected"),
    [
        (AREAS, "area", "area = 'eu'", ["eu"]),
        (AREAS, "area", "true", ["asia", "eu", "us"]),
        (DAYS, "at", "id = 0", ["2024-03-02"]),
        (DAYS, "at", "id in (1, 4)", ["2024-03-01", "2024-03-04"]),
        (BOTH, BY_BOTH, "id in (0, 5)", ["asia|2024-03-03", "eu|2024-03-02"]),
        (dg.StaticPartitionsDefinition(["0", "3", "9", "none"]), "id", "id <= 3", ["0", "3"]),
        (
            dg.StaticPartitionsDefinition(["Europe", "none"]),
            [PartitionColumn(column="area", values={"Europe": "eu", "none": None})],
            "area = 'eu'",
            ["Europe"],
        ),
    ],
)
def test_partitions_of_deleted_rows_are_those_into_which_the_rows_would_be_ingested(
    lake, partitions, partition_by, predicate, expected
) -> None:
    lake.partitions, lake.partition_by = partitions, partition_by
    assert lake.partitions_of(predicate) == expected


def test_rows_with_null_belong_to_the_partition_that_stands_for_null(lake) -> None:
    null = {"id": [6], "at": pa.array([None], pa.timestamp("us", "UTC")), "area": pa.array([None], pa.string())}
    lance_core.write_dataset(pa.table(null), lake.uri, mode="append")
    lake.partitions = dg.StaticPartitionsDefinition(["eu", "none"])
    lake.partition_by = [PartitionColumn(column="area", values={"none": None})]
    assert lake.partitions_of("id >= 3") == ["eu", "none"]
    lake.partitions, lake.partition_by = DAYS, "at"
    assert lake.partitions_of("id >= 5") == ["2024-03-03"]


@pytest.mark.parametrize(
    ("partitions", "partition_by"), [(AREAS, "area"), (DAYS, "at"), (BOTH, BY_BOTH)], ids=["areas", "days", "both"]
)
def test_rows_selected_by_a_partition_belong_to_exactly_that_partition(lake, partitions, partition_by) -> None:
    lake.partitions, lake.partition_by = partitions, partition_by
    table = rows()
    columns = lake.declaration().partition_columns
    for key in partitions.get_partition_keys():
        selected = select_rows(columns, partitions_of(partitions, [key]), table.schema).to_sql()
        found = lance_core.dataset(lake.uri).count_rows(selected)
        assert lake.partitions_of(selected) == ([key] if found else [])


def test_rows_belong_only_to_dynamic_partitions_that_exist(lake) -> None:
    lake.partitions = dg.DynamicPartitionsDefinition(name="areas")
    lake.instance.add_dynamic_partitions("areas", ["eu", "us"])
    assert lake.partitions_of("id < 3") == ["eu", "us"]


@pytest.mark.parametrize(
    ("partitions", "partition_by"),
    [(dg.StaticPartitionsDefinition(["north"]), "area"), (AREAS, "region"), (AREAS, ())],
    ids=["rows of no partition", "unknown column", "no column"],
)
def test_a_delete_whose_partitions_are_unknown_materializes_the_asset_without_a_partition(
    lake, partitions, partition_by
) -> None:
    lake.partitions, lake.partition_by = partitions, partition_by
    assert lake.delete("id < 3") == [None]


def test_a_repeated_step_materializes_only_the_partitions_of_its_own_delete(lake, monkeypatch) -> None:
    """Matching rows of another partition were appended since the first attempt committed."""
    real, calls = commit_step.dataset_materialization, []

    def fail_once(**arguments: Any) -> Any:
        calls.append(arguments["version"])
        if len(calls) == 1:
            appended = rows().slice(2, 1).set_column(0, "id", pa.array([0]))
            lance.write_dataset(appended, lake.uri, mode="append")
            raise StorageError("connection reset", retryable=True)
        return real(**arguments)

    monkeypatch.setattr(commit_step, "dataset_materialization", fail_once)
    lake.run("delete_rows", predicate="id < 1 or area = 'us'")
    assert lake.materialized() == ["eu", "us"]
    assert len(calls) == 2
