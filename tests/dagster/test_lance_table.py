"""LanceTableResource: assets that read and write a dataset, with pinned versions, leases, and data versions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import lance
import polars as pl
import pyarrow as pa
import pytest

import lance_core
from lance_pipelines import LanceTableResource

REGIONS = dg.StaticPartitionsDefinition(["eu", "us"])


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> LanceTableResource:
    return LanceTableResource(asset="raw/events", uri=str(tmp_path / "events.lance"))


def writer(rows: list[pa.Table], mode: str = "overwrite"):
    def events(table):
        return table.write(rows.pop(0), mode=mode)

    events.__annotations__ = {"table": LanceTableResource, "return": dg.MaterializeResult}
    return dg.asset(events, key_prefix="raw")


def reader(body):
    def report(table):
        body(table)

    report.__annotations__ = {"table": LanceTableResource, "return": None}
    return dg.asset(report, deps=[dg.AssetKey(["raw", "events"])])


def run(instance: dg.DagsterInstance, table: LanceTableResource, *assets, **options):
    return dg.materialize(assets, resources={"table": table}, instance=instance, **options)


def test_written_frame_is_recorded_as_a_materialization_with_data_version_and_row_count(table, instance) -> None:
    run(instance, table, writer([pl.DataFrame({"id": [1, 2]})]))
    transaction = lance_core.dataset(table.uri).read_transaction(1)
    (record,) = instance.fetch_materializations(dg.AssetKey(["raw", "events"]), limit=1).records
    event = record.asset_materialization
    assert event.tags["dagster/data_version"] == f"1-{transaction.uuid[:8]}"
    assert event.metadata["dagster/row_count"].value == 2
    assert transaction.transaction_properties["dagster.step_key"] == "raw__events"
    assert lance.dataset(table.uri).to_table()["id"].to_pylist() == [1, 2]


def test_read_returns_the_requested_type_with_only_the_requested_columns_and_rows(table, instance) -> None:
    lance_core.write_dataset(pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]}), table.uri)
    seen = []

    def body(table: LanceTableResource) -> None:
        seen.append(table.read(pl.DataFrame, columns=["word"], filter="id > 1")["word"].to_list())
        seen.append(table.read().num_rows)
        seen.append(table.dataset().version)

    run(instance, table, reader(body))
    assert seen == [["b", "c"], 3, 1]


def test_step_keeps_its_version_while_another_run_commits_and_cleans_up(table, instance) -> None:
    seen = []

    def body(table: LanceTableResource) -> None:
        lazy = table.read(pl.LazyFrame)
        run(instance, table, events)
        lance_core.dataset(table.uri).cleanup_old_versions(timedelta(0))
        seen.append(lazy.collect()["id"].to_list())
        seen.append(table.read()["id"].to_pylist())

    events = writer([ids(1), ids(2)])
    run(instance, table, events)
    run(instance, table, reader(body))
    assert seen == [[1], [1]]
    assert lance.dataset(table.uri).tags.list() == {}


def test_retried_step_reads_the_same_version_again(table, instance) -> None:
    seen = []

    def report(table):
        seen.append(table.read()["id"].to_pylist())
        if len(seen) == 1:
            run(instance, table, events)
            raise dg.RetryRequested(max_retries=1)

    report.__annotations__ = {"table": LanceTableResource}
    events = writer([ids(1), ids(2)])
    run(instance, table, events)
    run(instance, table, dg.asset(report, deps=[dg.AssetKey(["raw", "events"])]))
    assert seen == [[1], [1]]


def test_resource_outside_a_run_uses_the_latest_version(table) -> None:
    for number in (1, 2):
        result = table.write(ids(number), mode="append")
    assert result.metadata["dagster/row_count"].value == 2
    assert table.read()["id"].to_pylist() == [1, 2]
    assert lance.dataset(table.uri).tags.list() == {}


def test_missing_dataset_fails_the_step_with_an_error_that_names_the_asset(table, instance) -> None:
    result = run(instance, table, reader(lambda table: table.read()), raise_on_error=False)
    (failure,) = result.get_step_failure_events()
    assert "raw/events: " in failure.step_failure_data.user_failure_data.description
    assert "DatasetNotFoundError" in failure.step_failure_data.user_failure_data.description


@pytest.mark.parametrize(
    ("frame", "mode", "message"),
    [
        (None, "append", "expected a data frame, found None"),
        ({"id": 1}, "append", "frames of type builtins.dict are not supported"),
        (ids(1), "replace", "unknown mode 'replace'; expected one of append, overwrite"),
    ],
)
def test_values_that_cannot_be_written_are_rejected(table, frame, mode, message) -> None:
    with pytest.raises(dg.Failure, match=message):
        table.write(frame, mode=mode)
    assert not Path(table.uri).exists()


def test_storage_options_are_read_from_the_environment_and_never_shown(
    table, instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_SECRET", "canary-Passw0rd")
    table = LanceTableResource(asset=table.asset, uri=table.uri, storage_options={"secret": dg.EnvVar("LAKE_SECRET")})
    seen = []
    result = run(instance, table, writer([ids(1)]), reader(lambda table: seen.append(table.dataset())))
    assert seen[0].storage_options == {"secret": "canary-Passw0rd"}
    assert "canary" not in repr(instance.all_logs(result.run_id)) + repr(table)


def test_each_write_of_a_retried_step_is_committed_once(table, instance) -> None:
    failures = [1]

    def events(table):
        table.write(ids(1), mode="append")
        if failures:
            failures.pop()
            raise RuntimeError("not yet")
        return table.write(ids(2), mode="append")

    events.__annotations__ = {"table": LanceTableResource, "return": dg.MaterializeResult}
    asset = dg.asset(events, key_prefix="raw", retry_policy=dg.RetryPolicy(max_retries=1))
    assert run(instance, table, asset).success
    assert lance.dataset(table.uri).to_table()["id"].to_pylist() == [1, 2]
    assert run(instance, table, asset).success
    assert lance.dataset(table.uri).to_table()["id"].to_pylist() == [1, 2, 1, 2]


def partitioned(**options):
    def events(context, table):
        rows = pa.table({"region": [context.partition_key], "run": [context.run_id]})
        return table.write(rows, **options)

    events.__annotations__ = {"table": LanceTableResource, "return": dg.MaterializeResult}
    return dg.asset(events, key_prefix="raw", partitions_def=REGIONS)


def test_run_for_a_partition_replaces_only_its_rows(table, instance) -> None:
    asset = partitioned(partition_by="region")
    runs = [run(instance, table, asset, partition_key=key).run_id for key in ("eu", "us", "eu")]
    stored = lance.dataset(table.uri).to_table().to_pylist()
    assert stored == [{"region": "us", "run": runs[1]}, {"region": "eu", "run": runs[2]}]


def test_run_for_a_partition_without_partition_by_keeps_the_rows_of_other_partitions(table, instance) -> None:
    run(instance, table, partitioned(mode="append"), partition_key="eu")
    failed = run(instance, table, partitioned(), partition_key="us", raise_on_error=False)
    assert "requires partition_by" in str(failed.get_step_failure_events()[0].step_failure_data)
    assert lance.dataset(table.uri).count_rows() == 1


def partition_reader(seen: list[list[str]], **options):
    def report(table):
        seen.append(table.read(partition_by="region", filter="run != '' -- all")["region"].to_pylist())

    report.__annotations__ = {"table": LanceTableResource, "return": None}
    return dg.asset(report, deps=[dg.AssetKey(["raw", "events"])], **options)


def test_read_returns_the_rows_of_the_partitions_that_the_step_depends_on(table, instance) -> None:
    seen = []
    events = partitioned(partition_by="region")
    report = partition_reader(seen, partitions_def=REGIONS)
    for key in ("eu", "us"):
        run(instance, table, events, report, partition_key=key)
    run(instance, table, events, partition_reader(seen), selection=["report"])
    assert seen == [["eu"], ["us"], ["eu", "us"]]


def test_read_of_partitions_by_a_step_that_depends_on_no_partitions_is_refused(table, instance) -> None:
    run(instance, table, writer([pa.table({"region": ["eu"], "run": ["1"]})]))
    failed = run(instance, table, partition_reader([]), raise_on_error=False)
    message = failed.get_step_failure_events()[0].step_failure_data.user_failure_data.description
    assert "this step does not depend on partitions of raw/events" in message


def test_read_of_partitions_outside_a_run_returns_all_rows(table) -> None:
    table.write(pa.table({"region": ["eu", "us"]}))
    assert table.read(partition_by="region").num_rows == 2


def test_write_adds_columns_in_schema_mode_add(table) -> None:
    table.write(ids(1))
    table.write(pa.table({"id": [2], "word": ["two"]}), mode="append", schema_mode="add")
    assert lance.dataset(table.uri).to_table().to_pydict() == {"id": [1, 2], "word": [None, "two"]}
    with pytest.raises(dg.Failure, match="unknown schema mode 'ad'; expected one of error, add, overwrite"):
        table.write(ids(1), mode="append", schema_mode="ad")
