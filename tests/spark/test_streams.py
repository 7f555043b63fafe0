"""Tables as sources and sinks of streaming queries."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import lance_core
from lance_core.errors import (
    CommitOutcomeUnknownError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
)
from lance_pipelines.spark import register, translated
from lance_pipelines.spark.data_source.epochs import begin_epoch, epoch_properties, epoch_uuid
from lance_pipelines.spark.data_source.source import LanceDataSource

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def append(uri: str, *ids: int) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array(ids, pa.int64())}), uri, mode="append")


def copy_available(spark: SparkSession, source: str, sink: str, checkpoint: Path, **options: object) -> int:
    """Copy all available rows of a stream, and return the number of micro-batches with rows."""
    stream = spark.readStream.format("lance").options(**{name: str(value) for name, value in options.items()})
    query = (
        stream.load(source)
        .writeStream.format("lance")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(sink)
    )
    try:
        with translated("the query failed"):
            query.awaitTermination()
    finally:
        query.stop()
    return sum(1 for progress in query.recentProgress if progress.numInputRows)


def ids(uri: str) -> list[int]:
    return sorted(lance_core.dataset(uri).to_table()["id"].to_pylist())


def test_a_stream_copies_a_table_to_another_table(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    append(uri, 1, 2)
    append(uri, 3)
    sink = f"{uri}_copy"
    assert copy_available(spark, uri, sink, tmp_path / "checkpoint", maxRowsPerTrigger=2) == 2
    assert ids(sink) == [1, 2, 3]
    append(uri, 4)
    lance_core.dataset(uri).optimize.compact_files()
    assert copy_available(spark, uri, sink, tmp_path / "checkpoint") == 1
    assert ids(sink) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_stream_reads_the_table_and_then_the_rows_of_later_appends(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    sink, checkpoint = f"{uri}_copy", tmp_path / "checkpoint"
    append(uri, 1, 2)
    append(uri, 3)
    assert copy_available(spark, uri, sink, checkpoint) == 1
    assert ids(sink) == [1, 2, 3]
    append(uri, 4)
    append(uri, 5, 6)
    lance_core.dataset(uri).optimize.compact_files()
    lance_core.dataset(uri).update_config({"a": "b"})
    append(uri, 7)
    assert copy_available(spark, uri, sink, checkpoint, maxRowsPerTrigger=3) == 2
    assert ids(sink) == [1, 2, 3, 4, 5, 6, 7]
    versions = lance_core.dataset(sink).latest_version
    copy_available(spark, uri, sink, checkpoint)
    assert lance_core.dataset(sink).latest_version == versions
    lance_core.dataset(uri).delete("id = 7")
    with pytest.raises(NotSupportedError, match=r"version 9 of .* was created by the operation 'delete'"):
        copy_available(spark, uri, sink, checkpoint)
    lance_core.dataset(uri).update({"id": "id + 100"}, where="id = 1")
    copy_available(spark, uri, sink, checkpoint, onChange="append")
    assert ids(sink) == [1, 2, 3, 4, 5, 6, 7, 101]


@pytest.mark.slow
def test_streams_respect_starting_versions_and_limits_and_report_lost_versions(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    for number in range(6):
        append(uri, number)
    sink = f"{uri}_from_3"
    batches = copy_available(spark, uri, sink, tmp_path / "a", startingVersion=3, maxFilesPerTrigger=2)
    assert (batches, ids(sink)) == (2, [2, 3, 4, 5])
    copy_available(spark, uri, f"{uri}_new", tmp_path / "b", startingVersion="latest")
    append(uri, 6)
    copy_available(spark, uri, f"{uri}_new", tmp_path / "b", startingVersion="latest")
    assert ids(f"{uri}_new") == [6]
    append(uri, 7)
    append(uri, 8)
    lance_core.dataset(uri).cleanup_old_versions(retain_versions=1)
    with pytest.raises(LanceError, match=r"version 8 .* no longer exists"):
        copy_available(spark, uri, f"{uri}_new", tmp_path / "b")
    copy_available(spark, uri, f"{uri}_new", tmp_path / "b", failOnDataLoss="false")
    assert ids(f"{uri}_new") == [6, 8]


def test_a_stream_refuses_a_table_that_replaced_the_one_it_has_read(uri: str) -> None:
    for number in range(3):
        append(uri, number)
    schema = LanceDataSource({"path": uri}).schema()
    reader = LanceDataSource({"path": uri}).streamReader(schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    shutil.rmtree(uri)
    append(uri, 7)
    with pytest.raises(NotFoundError, match=r"latest version of .* is 1, but the streaming query has read version 3"):
        reader.latestOffset(end, ReadAllAvailable())
    tolerant = LanceDataSource({"path": uri, "failOnDataLoss": "false"}).streamReader(schema)
    assert tolerant.latestOffset(end, ReadAllAvailable()) == end
    patient = LanceDataSource({"path": uri, "startingVersion": "9"}).streamReader(schema)
    future = patient.initialOffset()
    assert patient.latestOffset(future, ReadAllAvailable()) == future


def test_a_stream_refuses_positions_in_another_table_and_in_another_source(uri: str) -> None:
    other = f"{uri}-other"
    for number in range(3):
        append(uri, number)
        append(other, number)
    read = LanceDataSource({"path": uri})
    reader = read.streamReader(read.schema())
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    append(other, 3)
    for continues in ("latestOffset", "partitions"):
        moved = LanceDataSource({"path": other}).streamReader(read.schema())
        with pytest.raises(InvalidInputError, match=f"has read {uri}, and cannot continue with {other}; start a query"):
            getattr(moved, continues)(end, end)
    tolerant = LanceDataSource({"path": other, "failOnDataLoss": "false"}).streamReader(read.schema())
    assert tolerant.latestOffset(end, ReadAllAvailable())["version"] == 5
    assert reader.latestOffset({name: end[name] for name in end if name != "table"}, ReadAllAvailable()) is not None
    with pytest.raises(InvalidInputError, match="'logOffset': 3}, which is not a position in a Lance table"):
        reader.latestOffset({"logOffset": 3}, ReadAllAvailable())


def test_options_for_batch_reads_are_refused_for_streams(uri: str) -> None:
    append(uri, 1)
    source = LanceDataSource({"path": uri, "version": "1"})
    with pytest.raises(InvalidInputError, match="'version' does not apply to a stream read"):
        source.streamReader(source.schema())


def commit_epoch(uri: str, query: str, epoch: int, row: int) -> bool:
    """Commit an epoch as the sink does, and return whether the epoch was new."""
    dataset = lance_core.dataset(uri)
    if not begin_epoch(dataset, query, epoch):
        return False
    fragments = lance_core.write_fragments(pa.table({"id": pa.array([row], pa.int64())}), uri)
    transaction = lance_core.Transaction(
        dataset.version,
        lance_core.LanceOperation.Append(fragments),
        epoch_uuid(query, epoch),
        epoch_properties(query, epoch),
    )
    lance_core.LanceDataset.commit(dataset, transaction)
    return True


def test_an_epoch_is_committed_once_by_each_query(uri: str) -> None:
    append(uri, 0)
    was_new = [commit_epoch(uri, "one", epoch, 10 + epoch) for epoch in (0, 0, 1, 0, 1, 2)]
    assert was_new == [True, False, True, False, False, True]
    assert commit_epoch(uri, "two", 0, 20)
    assert not commit_epoch(uri, "one", 2, 12)
    assert ids(uri) == [0, 10, 11, 12, 20]


def test_a_started_but_uncommitted_epoch_can_be_committed_later(uri: str) -> None:
    append(uri, 0)
    assert begin_epoch(lance_core.dataset(uri), "one", 0)
    append(uri, 1)
    assert commit_epoch(uri, "one", 0, 10)
    assert not commit_epoch(uri, "one", 0, 10)
    assert ids(uri) == [0, 1, 10]


def test_two_drivers_that_commit_the_same_epoch_commit_it_once(uri: str) -> None:
    append(uri, 0)
    other = lance_core.dataset(uri)
    assert begin_epoch(other, "one", 0)
    assert commit_epoch(uri, "one", 0, 10)
    fragments = lance_core.write_fragments(pa.table({"id": pa.array([10], pa.int64())}), uri)
    again = lance_core.Transaction(
        other.version, lance_core.LanceOperation.Append(fragments), epoch_uuid("one", 0), epoch_properties("one", 0)
    )
    assert lance_core.LanceDataset.commit(other, again).version == lance_core.dataset(uri).version
    assert ids(uri) == [0, 10]


def test_committed_epochs_are_recognized_after_compaction_and_cleanup(uri: str) -> None:
    append(uri, 0)
    for epoch in range(3):
        commit_epoch(uri, "one", epoch, epoch)
    append(uri, 9)
    lance_core.dataset(uri).optimize.compact_files()
    lance_core.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert not commit_epoch(uri, "one", 1, 1)
    # Epoch 2 was the last one, and it is unknown whether Spark repeats the epoch.
    with pytest.raises(CommitOutcomeUnknownError, match="unknown whether epoch 2 of streaming query one was committed"):
        commit_epoch(uri, "one", 2, 2)
    assert commit_epoch(uri, "one", 3, 3)
    assert ids(uri) == [0, 0, 1, 2, 3, 9]


KILLED_QUERY = """
import os, signal, sys
from lance_pipelines.spark import register
from lance_pipelines.spark.session import start_session

source, sink, checkpoint, run = sys.argv[1:]
spark = start_session({"spark.master": "local[2,4]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
register(spark)
query = (
    spark.readStream.format("lance").option("maxFilesPerTrigger", 1).load(source)
    .writeStream.format("lance").option("checkpointLocation", checkpoint).start(sink)
)
while query.lastProgress is None or query.lastProgress.batchId < 2 * int(run):
    if query.exception() is not None:
        raise query.exception()
    query.awaitTermination(0.05)
os.killpg(0, signal.SIGKILL)
"""


@pytest.mark.parametrize(
    "num_kills", [pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.soak)]
)
def test_a_query_that_is_killed_repeatedly_writes_every_epoch_once(uri: str, tmp_path: Path, num_kills: int) -> None:
    for number in range(20):
        append(uri, number)
    sink, checkpoint = f"{uri}_copy", tmp_path / "checkpoint"
    for run in range(1, num_kills + 1):
        ended = subprocess.run(
            [sys.executable, "-c", KILLED_QUERY, uri, sink, str(checkpoint), str(run)],
            capture_output=True,
            text=True,
            timeout=300,
            start_new_session=True,
        )
        assert ended.returncode == -9, ended.stderr
        # As if the query had been killed before Spark recorded its last epoch.
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    rows = ids(sink)
    assert len(rows) == len(set(rows)) > 2 * (num_kills - 1)
    assert rows == list(range(len(rows)))
