"""Partitioned assets stored by LanceIOManager: partitions are rows of one dataset and are replaced individually."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines import (
    DatasetDeclaration,
    FunctionSource,
    LanceIOManager,
    PartitionColumn,
    SourceContext,
    build_definitions,
)
from tests.support.no_spark import NoSpark

# Dagster 1.13 calls backfill_policy beta.
pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-04-01")
REGIONS = dg.StaticPartitionsDefinition(["eu", "us", "o'hare"])
GRID = dg.MultiPartitionsDefinition({"day": DAYS, "region": REGIONS})
CITIES = dg.DynamicPartitionsDefinition(name="cities")


class Lake:
    """A directory of datasets, an instance, and runs for partitions."""

    def __init__(self, directory: Path, instance: dg.DagsterInstance) -> None:
        self.directory = directory
        self.instance = instance
        self.number = 0

    def run(self, *assets: Any, key: str | None = None, span: tuple[str, str] | None = None, **options: Any):
        tags = (
            {}
            if span is None
            else {
                "dagster/asset_partition_range_start": span[0],
                "dagster/asset_partition_range_end": span[1],
            }
        )
        self.number += 1
        return dg.materialize(
            assets,
            partition_key=key,
            tags=tags,
            resources={"io_manager": LanceIOManager(base_uri=str(self.directory))},
            instance=self.instance,
            **options,
        )

    def rows(self, name: str) -> list[dict[str, Any]]:
        return lance.dataset(self.uri(name)).to_table().to_pylist()

    def uri(self, name: str) -> str:
        return str(self.directory / f"{name}.lance")


@pytest.fixture
def lake(tmp_path: Path, instance: dg.DagsterInstance) -> Lake:
    return Lake(tmp_path, instance)


def partitioned(lake: Lake, partitions: dg.PartitionsDefinition, expression: Any, **metadata: Any):
    """Return an asset with one row, containing the number of the run, for each partition of the run."""

    @dg.asset(
        partitions_def=partitions,
        metadata={"partition_expr": expression, **metadata},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def events(context) -> pd.DataFrame:
        rows = []
        for key in context.partition_keys:
            parts = key.keys_by_dimension if isinstance(key, dg.MultiPartitionKey) else {"day": key, "region": key}
            rows.append({"day": parts["day"], "region": parts["region"], "run": lake.number})
        frame = pd.DataFrame(rows)
        if not isinstance(partitions, dg.StaticPartitionsDefinition | dg.DynamicPartitionsDefinition):
            frame["day"] = pd.to_datetime(frame["day"])
        return frame

    return events


def test_backfill_of_sixty_partitions_makes_one_commit_and_an_event_per_partition(lake: Lake, instance) -> None:
    events = partitioned(lake, DAYS, "day")
    assert lake.run(events, span=("2026-01-01", "2026-03-01")).success
    dataset = lance.dataset(lake.uri("events"))
    assert (dataset.version, dataset.count_rows()) == (1, 60)
    assert len(instance.get_materialized_partitions(dg.AssetKey("events"))) == 60


def test_rerun_of_a_partition_replaces_exactly_its_rows_in_one_commit(lake: Lake) -> None:
    events = partitioned(lake, DAYS, "day")
    lake.run(events, span=("2026-01-01", "2026-01-03"))
    lake.run(events, key="2026-01-02")
    assert lance.dataset(lake.uri("events")).version == 2
    found = {row["day"].day: row["run"] for row in lake.rows("events")}
    assert found == {1: 1, 2: 2, 3: 1}
    assert len(lake.rows("events")) == 3


def test_materialization_of_a_single_partition_has_its_row_count(lake: Lake, instance) -> None:
    def rows_of_latest() -> object:
        (record,) = instance.fetch_materializations(dg.AssetKey("events"), limit=1).records
        entry = record.asset_materialization.metadata.get("dagster/partition_row_count")
        return None if entry is None else entry.value

    events = partitioned(lake, DAYS, "day")
    lake.run(events, span=("2026-01-01", "2026-01-03"))
    assert rows_of_latest() is None
    lake.run(events, key="2026-01-02")
    assert rows_of_latest() == 1
    lake.run(partitioned(lake, DAYS, "day", **{"lance/mode": "append"}), key="2026-01-02")
    assert rows_of_latest() is None


@pytest.mark.parametrize(
    ("partitions", "expression", "first", "second"),
    [
        (REGIONS, "region", "eu", "o'hare"),
        (CITIES, "region", "Oslo", "Rome"),
        (GRID, {"day": "day", "region": "region"}, "2026-01-01|eu", "2026-01-01|o'hare"),
    ],
    ids=["static", "dynamic", "multi"],
)
def test_partitions_of_every_kind_are_replaced_and_loaded_individually(
    lake: Lake, instance, partitions, expression, first, second
) -> None:
    instance.add_dynamic_partitions("cities", ["Oslo", "Rome"])
    events = partitioned(lake, partitions, expression)
    seen = []

    @dg.asset(
        partitions_def=partitions,
        metadata={"partition_expr": expression},
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def copies(events: pa.Table) -> pa.Table:
        seen.append(events["run"].to_pylist())
        return events

    for key in (first, second, first):
        lake.run(events, copies, key=key)
    assert seen == [[1], [2], [3]]
    for name in ("events", "copies"):
        assert sorted(row["run"] for row in lake.rows(name)) == [2, 3]


def test_asset_without_partitions_loads_all_partitions_of_its_input(lake: Lake) -> None:
    events = partitioned(lake, DAYS, "day")
    seen = []

    @dg.asset
    def report(events: pa.Table) -> pa.Table:
        seen.append(events.num_rows)
        return events

    for day in ("2026-01-01", "2026-01-02"):
        lake.run(events, key=day)
    lake.run(events, report, selection=[report])
    assert seen == [2]


def test_filter_of_an_input_applies_within_its_partition(lake: Lake) -> None:
    events = partitioned(lake, DAYS, "day")
    seen = []

    @dg.asset(
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        backfill_policy=dg.BackfillPolicy.single_run(),
        ins={"events": dg.AssetIn(metadata={"filter": "run = 1 or run = 2", "columns": ["run"]})},
    )
    def copies(events: pa.Table) -> None:
        seen.append(events.to_pydict())

    for day in ("2026-01-01", "2026-01-02"):
        lake.run(events, copies, key=day)
    assert seen == [{"run": [1]}, {"run": [2]}]


def test_row_of_another_partition_is_refused_and_leaves_no_files(lake: Lake) -> None:
    @dg.asset(partitions_def=REGIONS, metadata={"partition_expr": "region"})
    def events() -> pa.Table:
        return pa.table({"region": ["eu", "us"]})

    (failure,) = lake.run(events, key="eu", raise_on_error=False).get_step_failure_events()
    text = failure.step_failure_data.user_failure_data.description
    assert "row 1 (region=us) does not belong to the partitions of the run; expected rows where `region` = 'eu'" in text
    assert not list(lake.directory.rglob("*.lance/data/*"))


def test_partitioned_asset_without_a_partition_column_is_rejected(lake: Lake) -> None:
    @dg.asset(partitions_def=REGIONS)
    def events() -> pa.Table:
        return pa.table({"region": ["eu"]})

    (failure,) = lake.run(events, key="eu", raise_on_error=False).get_step_failure_events()
    assert "its metadata needs 'partition_expr'" in failure.step_failure_data.user_failure_data.description


def test_append_mode_adds_the_rows_of_a_partition_again(lake: Lake) -> None:
    events = partitioned(lake, REGIONS, "region", **{"lance/mode": "append"})
    for _ in range(2):
        lake.run(events, key="eu")
    assert [row["run"] for row in lake.rows("events")] == [1, 2]


def test_new_columns_are_added_in_schema_mode_add(lake: Lake) -> None:
    frames = [pa.table({"region": ["eu"]}), pa.table({"region": ["us"], "price": [1.5]})]

    @dg.asset(partitions_def=REGIONS, metadata={"partition_expr": "region", "lance/schema_mode": "add"})
    def events() -> pa.Table:
        return frames.pop(0)

    for key in ("eu", "us"):
        lake.run(events, key=key)
    assert lake.rows("events") == [{"region": "eu", "price": None}, {"region": "us", "price": 1.5}]


def test_partitions_reported_in_reverse_order_are_all_read(lake: Lake, instance) -> None:
    events = partitioned(lake, REGIONS, "region")
    seen = []

    @dg.asset
    def report(events: pa.Table) -> None:
        seen.append(sorted(events["region"].to_pylist()))

    for key in ("eu", "us"):
        lake.run(events, key=key)
    # The run for the first partition reports after the run for the second one, which committed later.
    records = instance.fetch_materializations(dg.AssetKey("events"), limit=2).records
    instance.report_runless_asset_event(records[1].asset_materialization)
    lake.run(events, report, selection=[report])
    assert seen == [["eu", "us"]]


@pytest.mark.parametrize("partitions", [DAYS, GRID], ids=["one dimension", "several"])
def test_declared_dataset_is_loaded_from_its_own_location_and_by_its_partitions(
    lake: Lake, instance, partitions
) -> None:
    day, region = PartitionColumn(column="day", dimension="day"), PartitionColumn(column="region", dimension="region")
    regions = {"2026-01-01": "eu", "2026-01-02": "us"}
    seen = []

    def rows(context: SourceContext) -> pa.Table:
        (place,) = context.partitions
        key = place["day" if partitions is GRID else None].key
        return pa.table({"day": [datetime.fromisoformat(key)], "region": [regions[key]]})

    @dg.asset(partitions_def=partitions)
    def copies(events: pa.Table) -> None:
        seen.append(events.to_pydict())

    declared = DatasetDeclaration(
        key="events",
        uri=str(lake.directory / "elsewhere" / "events.lance"),
        source=FunctionSource(function=rows),
        partitions=partitions,
        partition_by="day" if partitions is DAYS else [day, region],
    )
    defs = dg.Definitions.merge(
        build_definitions([declared], spark=NoSpark()),
        dg.Definitions(assets=[copies], resources={"io_manager": LanceIOManager(base_uri=str(lake.directory / "own"))}),
    )
    job = defs.resolve_implicit_global_asset_job_def()
    for key, area in regions.items():
        chosen = dg.MultiPartitionKey({"day": key, "region": area}) if partitions is GRID else key
        job.execute_in_process(instance=instance, partition_key=chosen)
    assert seen == [{"day": [datetime.fromisoformat(key)], "region": [area]} for key, area in regions.items()]


def test_partitions_whose_keys_differ_from_the_column_values_are_not_loaded(lake: Lake, instance) -> None:
    @dg.asset(partitions_def=REGIONS)
    def copies(events: pa.Table) -> None:
        raise AssertionError

    declared = DatasetDeclaration(
        key="events",
        uri=lake.uri("events"),
        source=FunctionSource(function=lambda _: pa.table({"region": ["Europe"]})),
        partitions=REGIONS,
        partition_by=[PartitionColumn(column="region", values={"eu": "Europe", "us": None})],
    )
    defs = dg.Definitions.merge(
        build_definitions([declared], spark=NoSpark()),
        dg.Definitions(assets=[copies], resources={"io_manager": LanceIOManager(base_uri=str(lake.directory))}),
    )
    job = defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, partition_key="eu", raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    assert failure.step_key == "copies"
    assert "metadata needs 'partition_expr'" in str(failure.step_failure_data)


def test_first_partition_of_an_asset_that_depends_on_its_previous_partition_loads_no_rows(lake: Lake) -> None:
    seen = []

    @dg.asset(
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        ins={"total": dg.AssetIn(partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1))},
    )
    def total(context, total: pd.DataFrame) -> pd.DataFrame:
        seen.append(len(total))
        return pd.DataFrame({"day": [pd.Timestamp(context.partition_key)]})

    for key in ("2026-01-01", "2026-01-02", "2026-01-01"):
        lake.run(total, key=key)
    assert seen == [0, 1, 0]
    assert len(lake.rows("total")) == 2


@pytest.mark.parametrize(
    ("frame_type", "names"),
    [
        (pa.Table, lambda frame: frame.column_names),
        (pa.RecordBatchReader, lambda frame: frame.schema.names),
        (pd.DataFrame, lambda frame: list(frame.columns)),
        (pl.DataFrame, lambda frame: frame.columns),
        (pl.LazyFrame, lambda frame: frame.collect().columns),
        (duckdb.DuckDBPyRelation, lambda frame: frame.columns),
    ],
)
def test_first_partition_loads_an_empty_frame_with_the_columns_of_the_input(lake: Lake, frame_type, names) -> None:
    seen = []

    def total(context, total):
        seen.append((type(total), names(total)))
        return pa.table({"day": [context.partition_key]})

    total.__annotations__ = {"total": frame_type}
    earlier = dg.AssetIn(
        partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1),
        metadata={"columns": ["day"], "filter": "day > '2026'"},
    )
    asset = dg.asset(total, partitions_def=DAYS, metadata={"partition_expr": "day"}, ins={"total": earlier})
    lake.run(asset, key="2026-01-01")
    assert seen == [(frame_type, ["day"])]


def test_first_partition_of_an_asset_that_depends_on_its_previous_partition_cannot_be_loaded_as_a_dataset(
    lake: Lake,
) -> None:
    @dg.asset(
        partitions_def=DAYS,
        metadata={"partition_expr": "day"},
        ins={"total": dg.AssetIn(partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1))},
    )
    def total(context, total: lance_core.LanceDataset) -> pa.Table:
        return pa.table({"day": [context.partition_key]})

    failed = lake.run(total, key="2026-01-01", raise_on_error=False)
    assert "DatasetNotFoundError" in str(failed.get_step_failure_events()[0].step_failure_data)


def test_asset_whose_dynamic_partitions_were_all_removed_is_loaded_without_rows(lake: Lake) -> None:
    seen = []

    @dg.asset(partitions_def=CITIES, metadata={"partition_expr": "city"})
    def visits(context) -> pa.Table:
        return pa.table({"city": [context.partition_key]})

    @dg.asset
    def summary(visits: pa.Table) -> pa.Table:
        seen.append(visits)
        return pa.table({"rows": [visits.num_rows]})

    lake.instance.add_dynamic_partitions("cities", ["Bern"])
    lake.run(visits, key="Bern")
    lake.instance.delete_dynamic_partition("cities", "Bern")
    lake.run(visits, summary, selection=[summary])
    assert (seen[0].num_rows, seen[0].column_names) == (0, ["city"])
