"""Spark DataFrames are stored and loaded by the IO manager without passing rows through the driver."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_pipelines.io_managers.lance_io_manager import LanceIOManager

pytestmark = pytest.mark.spark


def test_frame_is_stored_and_loaded_by_spark_tasks(spark: SparkSession, tmp_path: Path) -> None:
    seen = []

    @dg.asset
    def first() -> DataFrame:
        return spark.range(0, 1000, 1, 2).selectExpr("id", "CAST(id AS STRING) AS word")

    @dg.asset(ins={"first": dg.AssetIn(metadata={"columns": ["id"], "filter": "id < 10"})})
    def second(first: DataFrame) -> DataFrame:
        seen.append(first.columns)
        return first.selectExpr("id * 2 AS twice")

    with dg.DagsterInstance.ephemeral() as instance:
        io_manager = LanceIOManager(base_uri=str(tmp_path))
        result = dg.materialize([first, second], resources={"io_manager": io_manager}, instance=instance)
    assert result.success
    assert seen == [["id"]]
    stored = lance.dataset(str(tmp_path / "first.lance"))
    assert (stored.count_rows(), stored.schema.names) == (1000, ["id", "word"])
    twice = lance.dataset(str(tmp_path / "second.lance")).to_table()["twice"].to_pylist()
    assert sorted(twice) == list(range(0, 20, 2))


def test_frame_keeps_its_version_while_another_run_commits_and_cleans_up(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "first.lance")
    seen = []

    @dg.asset
    def first() -> pa.Table:
        return pa.table({"id": [1, 2]})

    @dg.asset
    def second(first: DataFrame) -> DataFrame:
        lance_core.write_dataset(pa.table({"id": [3]}), uri, mode="overwrite").cleanup_old_versions(timedelta(0))
        seen.append([row.id for row in first.collect()])
        return first

    with dg.DagsterInstance.ephemeral() as instance:
        io_manager = LanceIOManager(base_uri=str(tmp_path))
        dg.materialize([first, second], resources={"io_manager": io_manager}, instance=instance)
    assert seen == [[1, 2]]
    assert lance.dataset(str(tmp_path / "second.lance")).to_table()["id"].to_pylist() == [1, 2]
    assert lance.dataset(uri).tags.list() == {}


@pytest.mark.slow
def test_row_of_another_partition_fails_the_write(spark: SparkSession, tmp_path: Path) -> None:
    wanted = ["eu", "us"]

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["eu", "us"]), metadata={"partition_expr": "region"})
    def regions() -> DataFrame:
        return spark.createDataFrame([(region,) for region in wanted], "region STRING")

    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"io_manager": LanceIOManager(base_uri=str(tmp_path))}
        options = {"resources": resources, "instance": instance, "partition_key": "eu", "raise_on_error": False}
        (failure,) = dg.materialize([regions], **options).get_step_failure_events()
        wanted.remove("us")
        assert dg.materialize([regions], **options).success
    assert "does not belong to the partitions of the run" in failure.step_failure_data.error_display_string
    assert lance.dataset(str(tmp_path / "regions.lance")).to_table().to_pydict() == {"region": ["eu"]}
