"""Runs for partitions with a real Spark session: replaced rows, number of commits, and the events in Dagster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration, SchemaMode, WriteMode
from lance_pipelines.ingest.partition_rows import PartitionColumn
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.ops import failures

pytestmark = pytest.mark.spark

DAYS = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-05-01")
START_TAG, END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as ephemeral:
        yield ephemeral
    # Discard the messages of failed steps, which would be printed when the test process exits.
    failures._failures.clear()


def _day(number: int) -> date:
    return date(2024, 1, 1) + timedelta(days=number)


def _write_days(directory: Path, days: range, value: int, *, per_day: int = 3) -> None:
    """Write rows of some days, with timestamps in the middle and at the start of each day."""
    directory.mkdir(exist_ok=True)
    when = [
        datetime.combine(_day(day), datetime.min.time()) + timedelta(hours=8 * hour)
        for day in days
        for hour in range(per_day)
    ]
    rows = pa.table({"when": pa.array(when, pa.timestamp("us", "UTC")), "value": [value] * len(when)})
    pq.write_table(rows, directory / f"{days.start}-{days.stop}.parquet")


class Ingest:
    """The ingest job of one declaration, run for partitions."""

    def __init__(self, instance: dg.DagsterInstance, **declared: Any) -> None:
        self.declaration = DatasetDeclaration(key="lake/events", **declared)
        self._job = build_definitions([self.declaration]).resolve_job_def("lake__events__ingest")
        self._instance = instance

    def run(self, first: str, last: str | None = None, **config: Any) -> dg.ExecuteInProcessResult:
        chosen: dict[str, Any] = (
            {"partition_key": first} if last is None else {"tags": {START_TAG: first, END_TAG: last}}
        )
        return self._job.execute_in_process(
            run_config={"ops": {"lake__events": {"config": config}}},
            instance=self._instance,
            raise_on_error=False,
            **chosen,
        )

    def dataset(self) -> lance_core.LanceDataset:
        return lance_core.dataset(self.declaration.uri)

    def by_day(self) -> dict[int, Counter[int]]:
        """Return the values of each day and the number of their occurrences."""
        found: dict[int, Counter[int]] = {}
        for row in self.dataset().to_table().to_pylist():
            found.setdefault((row["when"].date() - _day(0)).days, Counter())[row["value"]] += 1
        return found

    def partitions_recorded(self) -> list[str]:
        records = self._instance.fetch_materializations(dg.AssetKey(["lake", "events"]), limit=200).records
        return sorted(record.partition_key or "" for record in records)


def _failure(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    return str(event.step_failure_data.error.message)


@pytest.fixture
def days(spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance) -> Ingest:
    return Ingest(
        instance,
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(tmp_path / "in"),)),
        mode=WriteMode.OVERWRITE_PARTITION,
        partitions=DAYS,
        partition_by="when",
    )


def test_backfill_of_60_days_is_one_run_with_one_commit_and_60_materializations(days: Ingest, tmp_path: Path) -> None:
    _write_days(tmp_path / "in", range(90), value=1)
    assert days.run("2024-01-01", "2024-02-29").success
    assert days.dataset().version == 1
    assert days.by_day() == {day: {1: 3} for day in range(60)}
    assert days.partitions_recorded() == [str(_day(day)) for day in range(60)]


@pytest.mark.slow
def test_rerun_of_one_day_replaces_exactly_its_rows(days: Ingest, tmp_path: Path) -> None:
    _write_days(tmp_path / "in", range(60), value=1)
    assert days.run("2024-01-01", "2024-02-29").success
    _write_days(tmp_path / "in", range(60), value=2, per_day=2)
    assert days.run("2024-01-31").success
    assert days.dataset().version == 2
    assert days.by_day() == {day: {2: 2} if day == 30 else {1: 3} for day in range(60)}
    assert days.run("2024-01-31").success
    assert days.by_day()[30] == {2: 2}


@pytest.mark.slow
def test_rerun_of_a_day_without_source_rows_removes_the_rows_of_the_day_and_a_second_rerun_commits_nothing(
    days: Ingest, tmp_path: Path
) -> None:
    _write_days(tmp_path / "in", range(3), value=1)
    assert days.run("2024-01-01", "2024-01-03").success
    (tmp_path / "in" / "0-3.parquet").unlink()
    _write_days(tmp_path / "in", range(2), value=1)
    assert days.run("2024-01-03").success
    assert days.by_day() == {0: {1: 3}, 1: {1: 3}}
    assert days.run("2024-01-03").success
    assert days.dataset().version == 2


@pytest.mark.slow
def test_append_for_a_day_adds_only_the_rows_of_the_day(days: Ingest, tmp_path: Path) -> None:
    _write_days(tmp_path / "in", range(5), value=1)
    assert days.run("2024-01-02", mode="append").success
    assert days.run("2024-01-02", mode="append").success
    assert days.by_day() == {1: {1: 6}}


def test_mode_overwrite_for_a_single_day_is_refused(days: Ingest, tmp_path: Path) -> None:
    _write_days(tmp_path / "in", range(5), value=1)
    result = days.run("2024-01-02", mode="overwrite")
    assert not result.success
    assert "mode overwrite would replace all rows with those of the run's partitions" in _failure(result)


@pytest.mark.slow
@pytest.mark.parametrize("inferred", ["string", "date"])
def test_days_of_csv_files_are_selected_as_text_or_dates(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance, inferred: str
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    rows = pa.table({"day": [str(_day(day)) for day in (0, 0, 1, 2)], "value": [1, 2, 3, 4]})
    csv.write_csv(rows, directory / "a.csv")
    ingest = Ingest(
        instance,
        uri=uri,
        source=FileSource(
            format=SourceFormat.CSV,
            paths=(str(directory),),
            options={"header": "true"},
            schema=f"day {inferred.upper()}, value BIGINT",
        ),
        mode=WriteMode.OVERWRITE_PARTITION,
        partitions=DAYS,
        partition_by="day",
    )
    assert ingest.run("2024-01-01").success
    assert ingest.run("2024-01-02", "2024-01-03").success
    assert ingest.run("2024-01-01").success
    assert sorted(ingest.dataset().to_table()["value"].to_pylist()) == [1, 2, 3, 4]
    assert ingest.dataset().version == 3


@pytest.mark.slow
def test_static_and_multi_dimensional_partitions_are_replaced(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    cells = [(_day(day), region) for day in range(3) for region in ("eu", "it's", None)]
    rows = pa.table(
        {"day": [day for day, _ in cells], "region": [region for _, region in cells], "value": list(range(9))}
    )
    pq.write_table(rows, directory / "a.parquet")
    ingest = Ingest(
        instance,
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(directory),)),
        mode=WriteMode.OVERWRITE_PARTITION,
        partitions=dg.MultiPartitionsDefinition(
            {"date": DAYS, "area": dg.StaticPartitionsDefinition(["eu", "it's", "none"])}
        ),
        partition_by=[
            PartitionColumn(column="day", dimension="date"),
            PartitionColumn(column="region", dimension="area", values={"none": None}),
        ],
    )
    # The keys are ordered by the names of their dimensions.
    assert ingest.run("it's|2024-01-02").success
    assert ingest.run("none|2024-01-01").success
    assert ingest.run("it's|2024-01-02").success
    found = ingest.dataset().to_table().to_pylist()
    assert sorted((row["day"], row["region"] or "", row["value"]) for row in found) == [
        (_day(0), "", 2), (_day(1), "it's", 4),
    ]  # fmt: skip


def test_partition_column_missing_from_the_source_fails_the_run_with_a_one_line_error(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance
) -> None:
    _write_days(tmp_path / "in", range(5), value=1)
    ingest = Ingest(
        instance,
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(tmp_path / "in"),)),
        mode=WriteMode.OVERWRITE_PARTITION,
        partitions=DAYS,
        partition_by="whem",
    )
    result = ingest.run("2024-01-02")
    assert "no column 'whem' to partition by; did you mean 'when'?" in _failure(result)


def _ingest_by_id(instance: dg.DagsterInstance, uri: str, directory: Path, mode: SchemaMode | None) -> Any:
    declaration = DatasetDeclaration(
        key="events",
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(directory),)),
        schema_mode=mode,
    )
    job = build_definitions([declaration]).resolve_job_def("events__ingest")
    return lambda: job.execute_in_process(instance=instance, raise_on_error=False)


@pytest.mark.slow
def test_schema_mode_add_adds_columns_once_and_appends_rows_once(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    ingest = _ingest_by_id(instance, uri, directory, SchemaMode.ADD)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), directory / "a.parquet")
    assert ingest().success
    pq.write_table(pa.table({"id": [2], "country": ["ch"]}), directory / "a.parquet")
    assert ingest().success
    dataset = lance_core.dataset(uri)
    assert dataset.version == 3
    assert [type(dataset.read_transaction(each).operation).__name__ for each in (2, 3)] == ["Merge", "Append"]
    run_ids = {dataset.read_transaction(each).transaction_properties["dagster.run_id"] for each in (2, 3)}
    assert len(run_ids) == 1
    assert dataset.to_table().to_pylist() == [
        {"id": 1, "name": "a", "country": None},
        {"id": 2, "name": None, "country": "ch"},
    ]
    assert ingest().success
    assert lance_core.dataset(uri).version == 4


@pytest.mark.slow
def test_schema_mode_error_refuses_a_new_column_and_a_missing_one(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    ingest = _ingest_by_id(instance, uri, directory, None)
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), directory / "a.parquet")
    assert ingest().success
    pq.write_table(pa.table({"id": [2], "name": ["b"], "country": ["ch"]}), directory / "a.parquet")
    assert "column 'country' of the source is not in the dataset" in _failure(ingest())
    pq.write_table(pa.table({"id": [2]}), directory / "a.parquet")
    assert "column 'name' of the dataset is not in the source" in _failure(ingest())
    assert lance_core.dataset(uri).version == 1


def test_a_column_whose_type_changed_is_refused_before_columns_are_added(
    spark: SparkSession, tmp_path: Path, uri: str, instance: dg.DagsterInstance
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    ingest = _ingest_by_id(instance, uri, directory, SchemaMode.ADD)
    pq.write_table(pa.table({"id": [1]}), directory / "a.parquet")
    assert ingest().success
    pq.write_table(pa.table({"id": ["one"], "more": [1]}), directory / "a.parquet")
    assert "column 'id' has type string in the source, but type int64 in the dataset" in _failure(ingest())
    assert lance_core.dataset(uri).version == 1
