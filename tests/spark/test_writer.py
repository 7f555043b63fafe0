"""Writes of frames as fragments: stored rows, counts, and leftovers of failed tasks."""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # PySpark's own convention

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    SchemaMismatchError,
    StorageError,
)
from lance_pipelines.spark.leftovers import discard_files
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.worker_daemon import DAEMON_MODULE
from lance_pipelines.spark.writer import FrameWrite, coalesce_small_partitions, write_frame

pytestmark = pytest.mark.spark


def write(frame: DataFrame, uri: str, token: str, **changes: Any) -> FrameWrite:
    arguments: dict[str, Any] = {
        "dataset_uri": uri,
        "mode": "overwrite",
        "target": None,
        "max_rows_per_file": 1024 * 1024,
        "max_bytes_per_file": 2 * 1024**3,
        "file_token": token,
    }
    arguments |= changes
    if arguments["target"] is None:
        arguments["target"] = plan_target_schema(frame.schema, {}, None)
    return write_frame(frame, **arguments)


def commit(uri: str, target: pa.Schema, written: FrameWrite) -> lance_core.LanceDataset:
    fragments = [lance_core.FragmentMetadata.from_json(document) for document in written.fragments]
    return lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Overwrite(target, fragments))


def data_files(uri: str) -> list[str]:
    return sorted(path.name for path in (Path(uri) / "data").glob("*"))


def fragment_files(written: FrameWrite) -> list[str]:
    return sorted(data_file["path"] for fragment in written.fragments for data_file in fragment["files"])


EVERY_TYPE = """
    SELECT CAST(id AS BIGINT) AS id, id % 2 = 0 AS flag, CAST(id AS TINYINT) AS tiny, CAST(id AS SMALLINT) AS small,
           CAST(id AS INT) AS number, CAST(id AS FLOAT) / 3 AS single, CAST(id AS DOUBLE) / 7 AS double,
           CAST(id AS DECIMAL(10, 2)) AS money, concat('row ', id) AS text, CAST(concat('b', id) AS BINARY) AS bytes,
           DATE '2024-02-29' + CAST(id AS INT) AS day, TIMESTAMP '2024-02-29 12:00:00.123456' AS instant,
           TIMESTAMP_NTZ '2024-02-29 12:00:00.5' AS wall, INTERVAL '3' DAY AS gap,
           IF(id % 3 = 0, NULL, array('a', NULL, concat('x', id))) AS words,
           IF(id % 4 = 0, NULL, struct(id AS x, array(id, id + 1) AS y)) AS pair,
           map('k', id, 'l', NULL) AS pairs, IF(id % 5 = 0, NULL, array(CAST(id AS FLOAT), 0.5f)) AS vector
    FROM ids
"""


@pytest.mark.parametrize("version", ["0.1", "2.0"])
@pytest.mark.sampled(1)
def test_the_storage_version_reaches_the_write_tasks(spark: SparkSession, uri: str, token: str, version: str) -> None:
    frame = spark.range(0, 20, 1, 2).selectExpr("id", "concat('row ', id) AS text", "struct(id AS x) AS pair")
    target = plan_target_schema(frame.schema, {}, None)
    dataset = commit(uri, target, write(frame, uri, token, target=target, data_storage_version=version))
    assert dataset.data_storage_version == version
    assert lance.dataset(uri).to_table().sort_by("id").equals(dataset.to_table().sort_by("id"))
    assert sorted(dataset.to_table()["text"].to_pylist()) == sorted(f"row {i}" for i in range(20))


def test_values_of_every_type_are_written_unchanged(spark: SparkSession, uri: str, token: str) -> None:
    spark.range(0, 100, 1, 3).createOrReplaceTempView("ids")
    frame = spark.sql(EVERY_TYPE)
    target = plan_target_schema(frame.schema, {"vector": 2}, None)
    written = write(frame, uri, token, target=target)
    table = commit(uri, target, written).to_table()

    assert table.schema.equals(target)
    assert written.rows_counted == written.rows_written == table.num_rows == 100
    assert written.bytes_written == sum(path.stat().st_size for path in (Path(uri) / "data").iterdir())
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    assert rows[7] == {
        "id": 7,
        "flag": False,
        "tiny": 7,
        "small": 7,
        "number": 7,
        "single": pytest.approx(7 / 3, rel=1e-6),
        "double": 1.0,
        "money": Decimal("7.00"),
        "text": "row 7",
        "bytes": b"b7",
        "day": date(2024, 3, 7),
        "instant": datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
        "wall": datetime(2024, 2, 29, 12, 0, 0, 500000),
        "gap": timedelta(days=3),
        "words": ["a", None, "x7"],
        "pair": {"x": 7, "y": [7, 8]},
        "pairs": [("k", 7), ("l", None)],
        "vector": [7.0, 0.5],
    }
    assert [rows[60][name] for name in ("words", "pair", "vector")] == [None, None, None]
    assert lance.dataset(uri).to_table().to_pylist() == table.to_pylist()


def test_fragments_are_returned_in_the_order_of_the_partitions(spark: SparkSession, uri: str, token: str) -> None:
    frame = spark.range(0, 1000, 1, 2).select("id", F.spark_partition_id().alias("partition"))
    written = write(frame, uri, token, max_rows_per_file=150)
    assert [fragment["physical_rows"] for fragment in written.fragments] == [150, 150, 150, 50] * 2
    assert written.num_tasks == 2
    table = commit(uri, plan_target_schema(frame.schema, {}, None), written).to_table()
    assert table["id"].to_pylist() == list(range(1000))
    assert all(name.endswith(f"{token}.lance") for name in data_files(uri))


def test_rows_are_appended_with_the_field_ids_and_order_of_the_dataset(
    spark: SparkSession, uri: str, token: str
) -> None:
    vector = pa.list_(pa.float32(), 2)
    first = pa.table({"v": pa.array([[0, 1]], vector), "id": pa.array([-1], pa.int64())})
    dataset = lance_core.write_dataset(first, uri)
    frame = spark.range(0, 10, 1, 2).select(
        F.col("id").cast("int"), F.array(F.lit(1.0).cast("float"), F.lit(2.0).cast("float")).alias("v")
    )
    target = plan_target_schema(frame.schema, {}, dataset.schema)
    written = write(frame, uri, token, mode="append", target=target)
    fragments = [lance_core.FragmentMetadata.from_json(document) for document in written.fragments]
    dataset = lance_core.LanceDataset.commit(uri, lance_core.LanceOperation.Append(fragments), read_version=1)
    table = dataset.to_table()
    assert table.schema.equals(first.schema)
    assert table["id"].to_pylist() == [-1, *range(10)]
    assert lance.dataset(uri).to_table().equals(table)


@pytest.mark.parametrize("condition", ["false", "id < 0", "id = 5"])
def test_empty_partitions_write_nothing(spark: SparkSession, uri: str, token: str, condition: str) -> None:
    frame = spark.range(0, 100, 1, 4).where(condition)
    written = write(frame, uri, token)
    expected = 1 if condition == "id = 5" else 0
    assert written.rows_counted == written.rows_written == len(written.fragments) == written.num_tasks == expected
    assert data_files(uri) == fragment_files(written)
    assert commit(uri, plan_target_schema(frame.schema, {}, None), written).count_rows() == expected


def test_small_partitions_are_merged(spark: SparkSession, uri: str, token: str) -> None:
    frame = spark.range(0, 10_000, 1, 300)
    written = write(frame, uri, token)
    assert len(written.fragments) == written.num_tasks == 2
    assert written.rows_counted == 10_000
    assert coalesce_small_partitions(frame, partition_bytes=8000).rdd.getNumPartitions() == 10
    assert coalesce_small_partitions(frame, partition_bytes=1).rdd.getNumPartitions() == 300
    assert coalesce_small_partitions(frame.coalesce(1)).rdd.getNumPartitions() == 1


def failing(frame: DataFrame, *, attempts: int, partition: int = 1) -> DataFrame:
    """Return the frame with one partition whose first attempts fail after their rows were read."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task.partitionId() == partition and task.attemptNumber() < attempts:
            raise ValueError("it broke off")

    return frame.mapInArrow(pass_on, frame.schema)


@pytest.mark.slow
def test_a_retried_task_counts_once_and_leaves_no_files(spark: SparkSession, uri: str, token: str) -> None:
    frame = failing(spark.range(0, 100_000, 1, 2), attempts=2)
    # A small file is complete long before the attempt fails.
    written = write(frame, uri, token, max_rows_per_file=20_000)
    assert written.rows_counted == written.rows_written == 100_000
    assert data_files(uri) == fragment_files(written)
    table = commit(uri, plan_target_schema(frame.schema, {}, None), written).to_table()
    assert sorted(table["id"].to_pylist()) == list(range(100_000))


@pytest.mark.slow
def test_a_failed_write_leaves_no_running_task_and_can_be_discarded(spark: SparkSession, uri: str, token: str) -> None:
    def endless(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
        while TaskContext.get().partitionId() == 0:
            time.sleep(0.05)
            yield batch

    # One partition would write forever; the other fails each time.
    frame = failing(spark.range(0, 100_000, 1, 2).mapInArrow(endless, "id BIGINT"), attempts=9)
    with pytest.raises(InternalError, match=f"cannot write fragments of {uri}: ValueError in a worker: it broke off"):
        write(frame, uri, token, max_rows_per_file=20_000)

    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    assert sum(executor.numRunningTasks() for executor in executors) == 0
    # Finished files, and the file of the stopped task, whose Python process may end after the task.
    discarded: set[str] = set()
    deadline = time.monotonic() + 60
    while not discarded or data_files(uri):
        discarded.update(discard_files(uri, token))
        assert time.monotonic() < deadline
    assert discard_files(uri, token) == ()


def test_discarding_removes_only_files_with_the_token_of_the_write(uri: str, token: str) -> None:
    data = Path(uri) / "data"
    (data / f"deeper{token}.lance").mkdir(parents=True)
    other = "0" * 16
    kept = [f"x{other}.lance", f"{token}x.lance", f"x{token}.lance.bak", f"x{token}.txt", f".tmp{other}", ".tmp1234"]
    ours = [f"x{token}.lance", f"1010{token}.lance", f".tmp12-x{token}.lance"]
    for name in [*kept, *ours]:
        (data / name).touch()
    (data / f"deeper{token}.lance" / "file").touch()
    assert sorted(Path(path).name for path in discard_files(uri, token, keep=[f"1010{token}.lance"])) == sorted(
        [f"x{token}.lance", f".tmp12-x{token}.lance"]
    )
    assert data_files(uri) == sorted([*kept, f"1010{token}.lance", f"deeper{token}.lance"])
    for malformed in ("", "*", "../../" + token, token.upper() + "A"):
        with pytest.raises(InvalidInputError, match="16 lowercase hex"):
            discard_files(uri, malformed)


def test_discarding_files_of_an_empty_directory_does_nothing(uri: str, token: str) -> None:
    assert discard_files(uri, token) == ()
    assert not Path(uri).exists()


@pytest.mark.slow
def test_a_list_of_the_wrong_length_is_named_in_the_error(spark: SparkSession, uri: str, token: str) -> None:
    frame = spark.range(0, 100, 1, 1).selectExpr("id", "IF(id = 42, array(1.0f), array(1.0f, 2.0f)) AS v")
    target = plan_target_schema(frame.schema, {"v": 2}, None)
    with pytest.raises(SchemaMismatchError) as raised:
        write(frame, uri, token, target=target)
    assert str(raised.value) == "column 'v': row 42 has a list of length 1, expected 2"
    assert raised.value.context["row"] == 42
    assert raised.value.__cause__ is not None
    assert data_files(uri) == [] if Path(uri).exists() else True


@pytest.mark.slow
def test_a_corrupt_source_file_is_named_in_the_error(spark: SparkSession, uri: str, token: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    pq.write_table(pa.table({"id": range(1000)}), source / "a.parquet")
    (source / "b.parquet").write_bytes((source / "a.parquet").read_bytes()[:-9])
    frame = spark.read.schema("id BIGINT").parquet(str(source))
    with pytest.raises(CorruptDataError, match=f"cannot write fragments of {uri}: {source}/b.parquet cannot be read"):
        write(frame, uri, token)


def test_a_source_file_that_disappeared_is_named_in_the_error(
    spark: SparkSession, uri: str, token: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet"))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(NotFoundError, match=f"{tmp_path}/a.parquet no longer exists"):
        write(frame, uri, token)


def test_a_query_that_fails_on_a_row_raises_invalid_input(spark: SparkSession, uri: str, token: str) -> None:
    frame = spark.range(0, 10, 1, 1).selectExpr("1 DIV (id - 5) AS x")
    with pytest.raises(InvalidInputError, match="Division by zero"):
        write(frame, uri, token)


@pytest.mark.slow
def test_a_worker_killed_repeatedly_fails_the_write(spark: SparkSession, uri: str, token: str) -> None:
    def die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        yield from batches
        os._exit(137)

    frame = spark.range(0, 10, 1, 1).mapInArrow(die, "id BIGINT")
    with pytest.raises(StorageError, match="a worker process repeatedly exited unexpectedly") as raised:
        write(frame, uri, token)
    assert raised.value.retryable


def test_a_malformed_token_is_refused(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInputError, match="16 lowercase hex"):
        write(spark.range(1), uri, "token")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_fails_the_write_with_a_storage_error(spark: SparkSession, small_disk: Path, token: str) -> None:
    frame = spark.range(0, 300_000, 1, 2).selectExpr("id", "rand(7) AS x")
    uri = str(small_disk / "full.lance")
    with pytest.raises(StorageError, match=r"full\.lance.*No space left on device") as raised:
        write(frame, uri, token, max_rows_per_file=20_000)
    assert not raised.value.retryable
    discard_files(uri, token)
    assert data_files(uri) == []


def limit_file_sizes(num_bytes: int) -> None:
    """Limit the file size for the Python workers of this session and for the processes that they fork."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any(argument in {DAEMON_MODULE, "pyspark.daemon"} for argument in process.cmdline()):
                process.rlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))


@pytest.mark.slow
def test_a_file_size_limit_of_the_operating_system_fails_the_write_with_a_storage_error(
    spark: SparkSession, uri: str, token: str
) -> None:
    spark.range(2).mapInArrow(lambda batches: batches, "id BIGINT").collect()
    limit_file_sizes(500_000)
    try:
        with pytest.raises(StorageError, match="File too large"):
            write(spark.range(0, 300_000, 1, 2).selectExpr("id", "rand(7) AS x"), uri, token)
    finally:
        limit_file_sizes(resource.RLIM_INFINITY)
