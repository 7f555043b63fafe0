"""Spark Connect sessions: every use of Spark in a run, and unreachable servers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lance_core.errors import InvalidInputError, StorageError
from lance_pipelines.spark.connect_server import connect_server
from lance_pipelines.spark.session import start_session

REPOSITORY = Path(__file__).parents[2]


def test_an_unreachable_server_is_reported_immediately() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StorageError, match=f"no Spark Connect server answers at 127.0.0.1:{port}"):
        start_session({"spark.remote": f"sc://127.0.0.1:{port}"})
    with pytest.raises(InvalidInputError, match="expected sc://host:port"):
        start_session({"spark.remote": "sc://127.0.0.1:port"})


def test_a_server_refuses_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"cannot listen on 127.0.0.1:{port}"), connect_server(port=port):
            pass


REMOTE = """
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

import lance_core
from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.optimize import Compaction
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.spark.connect_server import connect_server
from lance_pipelines.spark.reader import read_version
from lance_pipelines.spark.session import start_session, stop_session
from lance_pipelines.spark.staging import rewrite_tasks, stage_write
from lance_pipelines.spark.verbs import (
    add_columns, compact, copy, delete, materialize_deletions, replace_rows, update, upsert, verify, write
)
from lance_pipelines.spark.writer import coalesce_small_partitions
from pyspark.sql.functions import spark_partition_id

directory = Path(sys.argv[1])


def stage(name, source, **declared):
    declaration = DatasetDeclaration(key=name, uri=str(directory / f"{name}.lance"), source=source, **declared)
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    return stage_write(declaration, remote, captured_at=moment, run_id="run", step_key="step").staged


def source(sql):
    return FileSource(format=SourceFormat.PARQUET, paths=[str(directory / "in")], sql=sql)


settings = {"spark.master": "local[2,2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
with connect_server(settings, port=0) as server:
    remote = start_session({"spark.remote": server.url})
    remote.range(0, 100, 1, 4).write.parquet(str(directory / "in"))
    staged = stage("events", source("SELECT id * 2 AS id FROM source"))
    assert staged.rows_written == staged.rows_counted == 100
    try:
        stage("bad", source("SELECT array(float(id)) AS v FROM source"), vector_columns={"v": 3})
    except SchemaMismatchError as error:
        assert "list of 1 values, expected 3" in str(error) or "list of length 1, expected 3" in str(error), error
    else:
        raise AssertionError("a list of the wrong length was written")
    assert list((directory / "bad.lance").rglob("*.lance")) == []
    merged = coalesce_small_partitions(remote.range(0, 100, 1, 8))
    assert merged.select(spark_partition_id()).distinct().count() == 2
    merged = coalesce_small_partitions(remote.range(0, 100, 1, 8).coalesce(1))
    assert merged.select(spark_partition_id()).distinct().count() == 1
    uri = str(directory / "small.lance")
    for start in range(4):
        dataset = lance_core.write_dataset(pa.table({"id": [start]}), uri, mode="append" if start else "create")
    assert sorted(row.id for row in read_version(remote, dataset).collect()) == [0, 1, 2, 3]
    plan = Compaction.plan(dataset, {})
    assert len(rewrite_tasks(remote, uri, [task.json() for task in plan.tasks]).results) == len(plan.tasks) == 1

    uri = str(directory / "verbs.lance")
    frame = remote.range(0, 1000, 1, 4).selectExpr("id", "id % 7 AS kind", "concat('row ', id) AS text")
    written = write(frame, uri, "create", max_rows_per_file=200)
    assert (written.version, written.num_rows) == (1, 1000)
    assert delete(remote, uri, "kind = 3").num_deleted_rows == 143
    assert update(remote, uri, {"text": "'updated'"}, "id < 7").num_updated_rows == 6
    new = remote.range(990, 1010).selectExpr("id", "id % 7 AS kind", "repeat('wide', 5000) AS text")
    done = upsert(new, uri, "id")
    assert (done.num_updated_rows, done.num_inserted_rows) == (8, 12), done
    part = remote.range(2000, 2010).selectExpr("id", "CAST(99 AS BIGINT) AS kind", "'part' AS text")
    assert replace_rows(part, uri, "kind = 99").num_inserted_rows == 10
    add_columns(remote, uri, {"length": "char_length(text)"})
    double = lambda batch: pa.record_batch({"double": pa.array([2 * number for number in batch["id"].to_pylist()])})
    add_columns(remote, uri, double)
    assert materialize_deletions(remote, uri, threshold=0.0).metrics.fragments_removed > 0
    assert compact(remote, uri).metrics.fragments_removed > 0
    assert verify(remote, uri, reads_pages=True) == []
    copied = copy(remote, uri, str(directory / "copied.lance"))
    assert copied.num_bytes > 0
    rows = lance_core.dataset(directory / "copied.lance").to_table().sort_by("id").to_pylist()
    ids = sorted({number for number in range(990) if number % 7 != 3} | {*range(990, 1010), *range(2000, 2010)})
    assert [row["id"] for row in rows] == ids
    for row in rows:
        number = row["id"]
        text = "updated" if number < 7 else f"row {number}"
        text = "part" if number >= 2000 else "wide" * 5000 if number >= 990 else text
        kind = 99 if number >= 2000 else number % 7
        assert row == {"id": number, "kind": kind, "text": text, "length": len(text), "double": 2 * number}, row
    try:
        delete(remote, uri, "no_such_column = 1")
    except InvalidInputError:
        pass
    else:
        raise AssertionError("a condition on an unknown column was accepted")
    stop_session(remote)
print("done")
"""


@pytest.mark.slow
def test_a_remote_session_supports_everything_that_a_local_session_does(tmp_path: Path) -> None:
    # A process can have either local or remote sessions.
    command = [sys.executable, "-c", REMOTE, str(tmp_path)]
    finished = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert finished.stdout.splitlines()[-1:] == ["done"], finished.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_stops_when_its_command_ends(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lance_pipelines", "spark-connect", "--port", "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        assert url.startswith("sc://127.0.0.1:")
        os.kill(process.pid, number)
        assert process.wait() == 0
    with pytest.raises(StorageError, match="no Spark Connect server"):
        start_session({"spark.remote": url})
