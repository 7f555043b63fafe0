"""Compaction jobs while pylance, in another process, appends and deletes rows without a pause."""

from __future__ import annotations

import json
import subprocess
import sys

import dagster as dg
import lance
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup
from lance_pipelines.build import build_definitions
from lance_pipelines.events.asset_metadata import event_value
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.ingest.sources import FileSource, SourceFormat
from lance_pipelines.jobs import request_config
from lance_pipelines.ops import rewrite_fragments
from lance_pipelines.resources.spark import SparkResource
from lance_pipelines.spark.session import start_session, stop_session
from tests.support.local_rewriting import ids, write_fragments
from tests.support.no_spark import NoSpark, rewrite_without_session

START_IDS = 200
WRITER = """
import json, random, sys, time
import lance, pyarrow as pa

uri, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
choice = random.Random(seed)
alive = set(range(200))
next_id, deadline, retries = 1000, time.monotonic() + seconds, 0
while time.monotonic() < deadline:
    if choice.random() < 0.5:
        rows = range(next_id, next_id + choice.randint(1, 20))
        next_id = rows.stop
        lance.write_dataset(pa.table({"id": pa.array(rows, pa.int64())}), uri, mode="append")
        alive |= set(rows)
    else:
        victims = choice.sample(sorted(alive), min(len(alive), choice.randint(1, 5)))
        while True:
            try:
                lance.dataset(uri).delete(f"id IN ({', '.join(map(str, victims))})")
                break
            except OSError as error:
                if "conflict" not in str(error).lower():
                    raise
                retries += 1
        alive -= set(victims)
print(json.dumps({"alive": sorted(alive), "retries": retries}))
"""


def race(uri: str, instance: dg.DagsterInstance, seconds: float, spark: SparkResource) -> None:
    """Compact repeatedly until the other writer ends, and check that the table has the rows that it reported."""
    declaration = DatasetDeclaration(key="events", uri=uri, source=FileSource(format=SourceFormat.ENVIRONMENT))
    definitions = build_definitions(declarations=[declaration], spark=spark)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, uri, str(seconds), "11"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    conflicts = rewritten = 0
    try:
        while writer.poll() is None:
            result = definitions.resolve_job_def("events__compact").execute_in_process(
                run_config=request_config("compact", target_rows_per_fragment=60), instance=instance
            )
            assert result.success
            for event in result.get_asset_observation_events():
                observation = event.asset_observation_data.asset_observation
                conflicts += event_value(observation, "lance/conflicts")
                rewritten += event_value(observation, "lance/groups")
    finally:
        writer.kill() if writer.poll() is None else None
        stdout, stderr = writer.communicate()
    assert writer.returncode == 0, stderr
    outcome = json.loads(stdout)
    print(f"{rewritten} groups, {conflicts} conflicts, {outcome['retries']} retries of the other writer")
    assert rewritten
    reference = lance.dataset(uri)
    reference.validate()
    assert ids(uri) == sorted(reference.to_table()["id"].to_pylist()) == outcome["alive"]
    # A cleanup would keep new files that no version refers to.
    plan = plan_cleanup(lance_core.dataset(uri), CleanupPolicy.of(retain_versions=1))
    assert [file.path for file in plan.protected if file.path.startswith("data/")] == []


@pytest.mark.parametrize(
    "seconds", [pytest.param(8, marks=pytest.mark.slow), pytest.param(120, marks=pytest.mark.soak)]
)
def test_compaction_concurrent_with_a_pylance_writer_neither_loses_nor_restores_rows(
    tmp_path, instance, monkeypatch, seconds
) -> None:
    uri = str(tmp_path / "events.lance")
    write_fragments(uri, START_IDS // 10)

    monkeypatch.setattr(rewrite_fragments, "rewrite_tasks", rewrite_without_session)
    race(uri, instance, seconds, NoSpark())


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")
def test_compaction_on_spark_concurrent_with_a_pylance_writer_neither_loses_nor_restores_rows(
    tmp_path, instance
) -> None:
    uri = str(tmp_path / "events.lance")
    write_fragments(uri, START_IDS // 10)
    session = start_session({"spark.master": "local[2,2]"})
    try:
        race(uri, instance, 120, SparkResource())
    finally:
        stop_session(session)
