"""Jobs that ingest streams, in processes of their own: good and bad configurations, and runs that are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pyarrow as pa
import pytest
import yaml

import lance_core
from lance_core.errors import InvalidInputError
from lance_pipelines.build import build_definitions
from lance_pipelines.ingest.declaration import DatasetDeclaration, WriteMode
from lance_pipelines.ingest.sources import StreamSource
from lance_pipelines.ingest.write_report import WriteReport, combine_reports, report_no_write
from lance_pipelines.ops import ingest_stream
from tests.dagster.test_components import declared
from tests.dagster.test_maintenance_jobs import numbers
from tests.support.no_spark import NoSpark

FILES = StreamSource(format="json", path="/landing/events", schema="id BIGINT")


@pytest.mark.parametrize("mode", ["overwrite", "create", "overwrite_partition"])
def test_stream_in_a_mode_that_replaces_rows_is_refused(mode: str) -> None:
    with pytest.raises(InvalidInputError, match=f"a stream requires mode append or upsert, found {mode}"):
        DatasetDeclaration(key="events", uri="/lake/events.lance", source=FILES, mode=mode, partition_by="id")


def test_stream_with_partitions_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="a dataset whose source is a stream cannot have partitions"):
        DatasetDeclaration(
            key="events",
            uri="/lake/events.lance",
            source=FILES,
            partitions=dg.StaticPartitionsDefinition(["a"]),
            partition_by="id",
        )


def test_checkpoint_is_stored_beside_the_dataset_unless_a_location_is_declared() -> None:
    assert DatasetDeclaration(key="e", uri="/lake/e.lance/", source=FILES).checkpoint == "/lake/e.lance.checkpoint"
    declared_one = StreamSource(format="lance", path="/lake/a.lance", checkpoint="/checkpoints/e")
    assert DatasetDeclaration(key="e", uri="s3://lake/e.lance", source=declared_one).checkpoint == "/checkpoints/e"
    with pytest.raises(InvalidInputError, match="dataset e: the stream requires a checkpoint"):
        DatasetDeclaration(key="e", uri="s3://lake/e.lance", source=FILES)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "json", "path": "/landing"}, "a stream of format json requires a schema"),
        ({"format": "json", "schema": "id BIGINT"}, "a stream of format json requires a path"),
        ({"format": "lance"}, "a stream of format lance requires a path"),
        ({"format": "lance", "path": "/a", "schema": "id BIGINT"}, "a stream of format lance takes no schema"),
        ({"format": "kafka", "path": "topic"}, "a stream of format kafka takes no path, found 'topic'"),
        ({"format": "rate"}, "unknown stream format 'rate'; expected one of parquet, csv, json, orc, lance, kafka"),
        ({"format": "lance", "path": "/a", "sql": " "}, "sql of a stream of format lance is empty"),
        ({"format": "lance", "path": "/a", "checkpoint": ""}, "checkpoint of a stream of format lance is empty"),
    ],
)
def test_incomplete_stream_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        StreamSource(**fields)


def test_stream_is_declared_in_yaml() -> None:
    found = declared(
        mode="upsert",
        upsert_by="id",
        source={
            "type": "stream",
            "format": "kafka",
            "options": {"kafka.bootstrap.servers": "broker:9092", "subscribe": "events"},
            "sql": "SELECT CAST(value AS STRING) AS text FROM source",
            "checkpoint": "/checkpoints/events",
        },
    )
    assert found.mode is WriteMode.UPSERT
    assert found.source == StreamSource(
        format="kafka",
        options={"kafka.bootstrap.servers": "broker:9092", "subscribe": "events"},
        sql="SELECT CAST(value AS STRING) AS text FROM source",
        checkpoint="/checkpoints/events",
    )


def test_ingest_job_of_a_stream_has_a_preparation_step_and_an_ingest_step() -> None:
    declaration = DatasetDeclaration(key="events", uri="/lake/events.lance", source=FILES)
    job = build_definitions([declaration], spark=NoSpark()).resolve_job_def("events__ingest")
    steps = {node.name for node in job.graph.node_named("events").definition.nodes}
    assert steps == {"prepare_stream", "ingest_stream"}


def run_without_spark(monkeypatch, instance, uri: str, report: WriteReport | None) -> dg.ExecuteInProcessResult:
    monkeypatch.setattr(ingest_stream, "ingest_available", lambda *_, **__: report)
    declaration = DatasetDeclaration(key="events", uri=uri, source=FILES)
    job = build_definitions([declaration], spark=NoSpark()).resolve_job_def("events__ingest")
    return job.execute_in_process(instance=instance)


def test_run_of_a_stream_records_one_materialization_for_all_its_versions(
    monkeypatch, instance, tmp_path, capsys
) -> None:
    uri = str(tmp_path / "events.lance")
    reports = []
    for number in range(3):
        dataset = lance_core.write_dataset(pa.table({"id": [number]}), uri, mode="append")
        report = report_no_write(dataset, "events", WriteMode.APPEND)
        reports.append(replace(report, committed=True, rows_written=1, read_version=number, versions_written=1))
    result = run_without_spark(monkeypatch, instance, uri, combine_reports(reports))
    (event,) = result.get_asset_materialization_events()
    metadata = numbers(event.materialization)
    assert metadata["lance/summary"] == "append: +3 rows in 3 versions, v3"
    assert (metadata["lance/versions_written"], metadata["lance/rows_written"], metadata["lance/version"]) == (3, 3, 3)
    assert event.materialization.tags["dagster/data_version"].startswith("3-")
    assert capsys.readouterr().out.endswith("3 rows in 3 fragments; this run wrote 3 rows in 0 fragments\n")


def test_run_of_a_stream_without_new_data_records_no_materialization(monkeypatch, instance, tmp_path, capsys) -> None:
    result = run_without_spark(monkeypatch, instance, str(tmp_path / "events.lance"), None)
    assert result.success
    assert result.get_asset_materialization_events() == []
    assert "nothing to do (no row has arrived in the stream yet)" in capsys.readouterr().out


DEFINITIONS = """
import dagster as dg
from lance_pipelines import DatasetDeclaration, SparkResource, StreamSource, build_definitions
events = DatasetDeclaration(
    key="events",
    uri={uri!r},
    source=StreamSource(
        format="json", path={landing!r}, schema="id BIGINT, name STRING", options={{"maxFilesPerTrigger": "1"}}
    ),
)
spark = SparkResource(spark_config={{"spark.master": "local[2]"}})
defs = dg.Definitions.merge(build_definitions([events], spark=spark), dg.Definitions(executor=dg.in_process_executor))
"""


class Lake:
    """A stream of JSON files, the dataset that ingests it, and its job in separate processes."""

    def __init__(self, tmp_path: Path, command_line: Any) -> None:
        self.landing = tmp_path / "landing"
        self.landing.mkdir()
        self.uri = str(tmp_path / "events.lance")
        self.dagster = command_line()
        definitions = DEFINITIONS.format(uri=self.uri, landing=str(self.landing))
        (self.dagster.directory / "lake_definitions.py").write_text(definitions)

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            (self.landing / f".{number}").write_text(json.dumps({"id": number, "name": str(number)}))
            (self.landing / f".{number}").rename(self.landing / f"{number:03}.json")

    def start(self, config: dict[str, Any] | None = None) -> Any:
        path = self.dagster.directory / "run.yaml"
        path.write_text(yaml.safe_dump({"ops": {"events": {"config": config or {}}}}))
        return self.dagster.start(
            "job", "execute", "-f", "lake_definitions.py", "-j", "events__ingest", "-c", str(path)
        )

    def run(self, config: dict[str, Any] | None = None) -> tuple[int, str, str]:
        process = self.start(config)
        stdout, stderr = process.communicate(timeout=600)
        return process.returncode, stdout, stderr

    def ids(self) -> list[int]:
        return sorted(lance.dataset(self.uri).to_table(columns=["id"])["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path, command_line: Any) -> Lake:
    return Lake(tmp_path, command_line)


@pytest.mark.slow
def test_job_execute_ingests_a_stream_and_refuses_invalid_values_with_a_one_line_error(lake) -> None:
    lake.arrive(1, 2)
    code, stdout, stderr = lake.run()
    assert code == 0, stderr
    assert stdout.endswith("2 rows in 2 fragments; this run wrote 2 rows in 2 fragments\n")
    assert lake.ids() == [1, 2]
    for config, message in (
        ({"mode": "overwrite"}, "a stream requires mode append or upsert, found overwrite"),
        ({"source": {"path": "/x"}}, 'Received unexpected config entry "source"'),
        ({"mode": "upsert", "upsert_by": ["nope"]}, "upsert_by: "),
    ):
        lake.arrive(3)
        code, stdout, stderr = lake.run(config)
        (line,) = [line for line in stderr.splitlines() if line.startswith("FAILED ")]
        assert (code, stdout) == (1, "")
        assert message in line
    assert lake.ids() == [1, 2]
    assert lake.run()[0] == 0
    assert lake.ids() == [1, 2, 3]


@pytest.mark.soak
def test_killed_runs_neither_lose_nor_duplicate_a_row(lake) -> None:
    total = 16
    lake.arrive(*range(total))
    for least in (2, 7):
        process = lake.start()
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline:
            if _num_versions(lake.uri) > 2 * least:
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    before = len(lake.ids())
    assert before >= 6
    code, _, stderr = lake.run()
    assert code == 0, stderr
    assert lake.ids() == list(range(total))
    lance.dataset(lake.uri).validate()


def _num_versions(uri: str) -> int:
    return len(list(Path(uri, "_versions").glob("*.manifest")))
