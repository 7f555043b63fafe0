"""Two runs for one dataset in separate processes, each with its own Dagster instance and Spark session."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_core
from tests.support.processes import run_together, start_python

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORKER = """
import json, sys
import dagster as dg
from lance_pipelines import DatasetDeclaration, FileSource, SourceFormat, WriteMode, build_definitions

uri, source, *days = sys.argv[1:]
events = DatasetDeclaration(
    key="events",
    uri=uri,
    source=FileSource(format=SourceFormat.PARQUET, paths=(source,)),
    mode=WriteMode.OVERWRITE_PARTITION,
    partitions=dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-02-01"),
    partition_by="day",
)
job = build_definitions([events]).resolve_job_def("events__ingest")
print("ready", flush=True)
sys.stdin.readline()
with dg.DagsterInstance.ephemeral() as instance:
    done = [job.execute_in_process(partition_key=day, instance=instance).success for day in days]
    events = instance.fetch_materializations(dg.AssetKey("events"), limit=10).records
print(json.dumps([done, sorted(event.partition_key for event in events)]), flush=True)
"""


def test_runs_for_different_days_in_two_processes_are_both_committed(tmp_path: Path, uri: str) -> None:
    days = [date(2024, 1, 1) + timedelta(days=number) for number in range(3)]
    lance_core.write_dataset(pa.table({"day": days, "value": [0, -1, -2]}), uri)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"day": days, "value": range(3)}), tmp_path / "in" / "a.parquet")
    processes = [start_python("-c", WORKER, uri, str(tmp_path / "in"), str(day)) for day in days[1:]]
    answers = run_together(processes, timeout=1200)
    # Spark writes to standard output too.
    done = [json.loads(answer.splitlines()[-1]) for answer in answers]
    assert done == [[[True], [str(day)]] for day in days[1:]]
    for module in (lance, lance_core):
        assert sorted(module.dataset(uri).to_table()["value"].to_pylist()) == [0, 1, 2]
    dataset = lance_core.dataset(uri)
    assert dataset.version == 3
    assert [type(dataset.read_transaction(each).operation).__name__ for each in (2, 3)] == ["Update", "Update"]
