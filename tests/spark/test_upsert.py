"""Upserts of rows that Spark writes: from files in an ingest job, and of a DataFrame by the IO manager."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_core.errors import InvalidMergeError
from lance_pipelines import (
    DatasetDeclaration,
    FileSource,
    LanceIOManager,
    SourceFormat,
    WriteMode,
    build_definitions,
)
from lance_pipelines.spark.staging import stage_frame

pytestmark = pytest.mark.spark


def found(uri: str) -> dict[int, str]:
    rows = lance.dataset(uri).to_table().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["name"] for row in rows}


def test_ingest_upserts_the_rows_of_source_files(spark: SparkSession, tmp_path: Path, uri: str) -> None:
    landing = tmp_path / "in"
    landing.mkdir()
    declaration = DatasetDeclaration(
        key="users",
        uri=uri,
        source=FileSource(format=SourceFormat.PARQUET, paths=(str(landing),)),
        mode=WriteMode.UPSERT,
        upsert_by="id",
        max_rows_per_file=40,
    )
    job = build_definitions([declaration]).resolve_job_def("users__ingest")
    for first, name in ((0, "old"), (50, "new")):
        numbers = list(range(first, first + 100))
        pq.write_table(pa.table({"id": numbers, "name": [name] * 100}), landing / "users.parquet")
        with dg.DagsterInstance.ephemeral() as instance:
            assert job.execute_in_process(instance=instance).success
    assert found(uri) == {number: "old" if number < 50 else "new" for number in range(150)}
    assert lance.dataset(uri).version == 2


def test_io_manager_upserts_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    frames = [spark.createDataFrame([(1, "a"), (2, "b")], "id long, name string")]
    frames.append(spark.createDataFrame([(2, "B"), (3, "c")], "id long, name string"))

    @dg.asset(metadata={"lance/mode": "upsert", "lance/upsert_by": "id"})
    def users() -> DataFrame:
        return frames.pop(0)

    resources = {"io_manager": LanceIOManager(base_uri=str(tmp_path))}
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            assert dg.materialize([users], resources=resources, instance=instance).success
    assert found(str(tmp_path / "users.lance")) == {1: "a", 2: "B", 3: "c"}


def test_keys_that_are_repeated_across_tasks_fail_the_upsert_and_leave_no_files(
    spark: SparkSession, tmp_path: Path, uri: str
) -> None:
    declaration = DatasetDeclaration(key="users", uri=uri, mode=WriteMode.UPSERT, upsert_by="id")
    frame = spark.createDataFrame([(1, "a"), (2, "b"), (1, "c")], "id long, name string").repartition(3)
    with pytest.raises(InvalidMergeError, match="several source rows have the key id = 1"):
        stage_frame(declaration, frame, run_id="run", step_key="write")
    assert not list(Path(uri).glob("data/*"))
