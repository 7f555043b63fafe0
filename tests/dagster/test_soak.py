"""A dataset that ingests, two writers, and killed processes change for a long time, while the sensors maintain it.

::

    ingest        a sensor requests one run after another, each of which adds rows
    writers       pylance and this library append, delete, update, and upsert rows, in processes of their own
    kills         SIGKILL for a run that is in progress, or for the daemon, which is then started again
    maintenance   compaction, deletions, indices, and cleanup by their sensors; nobody else does anything

Throughout, the size of the table stays within bounds, and searches with an index find what scans find. In the end,
every row of the writers is there once, and the rows of each ingest run are all there, once, or not at all.

The environment variable ``LANCE_SOAK_MINUTES`` sets another duration; ``.ci/run`` sets it to two minutes. With
``LANCE_SOAK_CHART``, the path of an SVG file, the test draws the course of the figures.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import dagster as dg
import lance
import psutil
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.metadata import index_coverage
from tests.support.daemon import Daemon
from tests.support.processes import let_go, start_python
from tests.support.soak_chart import Sample, write_chart
from tests.support.soak_writer import DIMENSION, IDS_OF_WRITER, soak_rows

ROWS_PER_INGEST = 200
FIRST_INGEST = 1000
"""Number of the first ingest run's writer; those below belong to the processes."""

MAX_FRAGMENTS, MAX_VERSIONS = 250, 600
MAX_BYTES_PER_LIVE_BYTE, SPARE_BYTES = 40, 32 * 1024**2
"""Bounds at any moment: several times what is measured, because other processes may take the machine's time."""

RUNS_BETWEEN_KILLS, MIN_KILLS = 4, 4

RUN_MONITORING = {"start_timeout_seconds": 60, "poll_interval_seconds": 5}
"""How long Dagster waits for a run that never starts, because its daemon was killed while it launched the run.

Like the intervals of the sensors and the retention period, these times are far shorter than in production: the
processes commit about two versions per second, and the sensors wait for such a run.
"""

DEFINITIONS = f"""
from datetime import timedelta
from pathlib import Path

import dagster as dg

from lance_pipelines import (
    CleanupPolicy, CompactionPolicy, DatasetDeclaration, DeletionPolicy, FunctionSource, IndexDeclaration, IndexPolicy,
    MaintenancePolicy, build_definitions,
)
from lance_pipelines.ops import rewrite_fragments
from tests.support.no_spark import NoSpark, rewrite_without_session
from tests.support.soak_writer import soak_rows

rewrite_fragments.rewrite_tasks = rewrite_without_session


def new_rows(context):
    # Every run has rows of its own, and repeats them if it is executed again.
    writer = {FIRST_INGEST} + int(context.run_id[:6], 16)
    return soak_rows(writer, dict.fromkeys(range({ROWS_PER_INGEST}), 0))


events = DatasetDeclaration(
    key="events",
    uri=str(Path(__file__).parent / "lake" / "events.lance"),
    source=FunctionSource(function=new_rows),
    indices=[
        IndexDeclaration(column="id", type="BTREE"),
        IndexDeclaration(column="vector", type="IVF_FLAT", parameters={{"num_partitions": 4}}),
    ],
    maintenance=MaintenancePolicy(
        compaction=CompactionPolicy(target_rows_per_fragment=5000, min_small_fragments=10),
        deletion=DeletionPolicy(max_deleted_fraction=0.1),
        cleanup=CleanupPolicy(
            retain_versions=5, older_than=timedelta(seconds=60), min_age=timedelta(seconds=60), min_old_versions=20
        ),
        indices=IndexPolicy(min_unindexed_rows=200, min_unindexed_fragments=10),
    ),
)


@dg.sensor(job_name="events__ingest", minimum_interval_seconds=2, default_status=dg.DefaultSensorStatus.RUNNING)
def ingest_sensor(context):
    unfinished = context.instance.get_runs(
        dg.RunsFilter(job_name="events__ingest", statuses=[
            dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING,
            dg.DagsterRunStatus.STARTED,
        ])
    )
    if unfinished or (Path(__file__).parent / "stop").exists():
        return dg.SkipReason("an ingest is in progress, or the test ends")
    number = int(context.cursor or 0)
    return dg.SensorResult(run_requests=[dg.RunRequest(run_key=f"batch-{{number}}")], cursor=str(number + 1))


defs = dg.Definitions.merge(
    build_definitions(
        [events],
        spark=NoSpark(),
        sensor_interval_seconds=2,
        maintenance_status=dg.DefaultSensorStatus.RUNNING,
    ),
    dg.Definitions(sensors=[ingest_sensor], executor=dg.in_process_executor),
)
"""


class Soak:
    """The dataset, the processes that change it, and what was seen of it."""

    def __init__(self, directory: Path, daemon: Daemon, rng: random.Random) -> None:
        self.directory = directory
        self.uri = str(directory / "lake" / "events.lance")
        self.daemon = daemon
        self.rng = rng
        self.samples: list[Sample] = []
        self.kills: list[float] = []
        self.killed_runs = 0
        self.searches = 0
        self._done_at_kill = 0
        lance_core.write_dataset(soak_rows(0, dict.fromkeys(range(500), 0)), self.uri)
        self._started = time.monotonic()

    def seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._started

    def sample(self) -> None:
        """Record the size of the table, and check its bounds."""
        dataset = lance_core.dataset(self.uri)
        # os.walk passes over directories that a cleanup has just removed.
        paths = [os.path.join(directory, name) for directory, _, names in os.walk(self.uri) for name in names]
        files = 0
        for path in paths:
            with suppress(FileNotFoundError):
                files += os.stat(path).st_size
        sample = Sample(
            seconds=self.seconds(),
            fragments=len(dataset.get_fragments()),
            versions=len(dataset.version_refs()),
            num_bytes=files,
            rows=dataset.count_rows(),
        )
        self.samples.append(sample)
        assert sample.fragments <= MAX_FRAGMENTS, sample
        assert sample.versions <= MAX_VERSIONS, sample
        assert sample.num_bytes <= MAX_BYTES_PER_LIVE_BYTE * sample.rows * (32 + 4 * DIMENSION) + SPARE_BYTES, sample

    def search(self) -> None:
        """Check that searches with the indices of the latest version find what scans without them find."""
        dataset = lance.dataset(self.uri)
        some = dataset.to_table(columns=["id"], use_scalar_index=False)["id"].to_pylist()
        present = self.rng.choice(some)
        absent = IDS_OF_WRITER // 2
        for number, expected in ((present, [present]), (absent, [])):
            assert dataset.to_table(filter=f"id = {number}", columns=["id"])["id"].to_pylist() == expected
        nearest = {"column": "vector", "q": [float(present)] * DIMENSION, "k": 3, "nprobes": 4}
        by_index = dataset.to_table(columns=["_distance"], nearest=nearest)["_distance"].to_pylist()
        by_scan = dataset.to_table(columns=["_distance"], nearest={**nearest, "use_index": False})["_distance"]
        assert by_index == by_scan.to_pylist()
        self.searches += 1

    def kill_in_turn(self) -> None:
        """Kill a run that is in progress, or the daemon, if enough runs have succeeded since the last time."""
        num_done = sum(run.is_success for run in self.daemon.runs())
        if num_done < self._done_at_kill + RUNS_BETWEEN_KILLS:
            return
        if len(self.kills) % 2:
            runs = self.daemon.run_processes()
            if not runs:
                return
            with suppress(psutil.NoSuchProcess):
                self.rng.choice(runs).kill()
                self.killed_runs += 1
        else:
            self.daemon.kill()
            self.daemon.start()
        self.kills.append(self.seconds())
        self._done_at_kill = num_done

    def is_maintained(self) -> bool:
        """Return whether nothing is in progress or due, and record the size of the table."""
        self.sample()
        dataset = lance_core.dataset(self.uri)
        fragments = dataset.get_fragments()
        deleted = [fragment.num_deletions / fragment.physical_rows for fragment in fragments]
        # Only small fragments that are next to another small one can be joined.
        small = [False, *(fragment.physical_rows < 5000 for fragment in fragments), False]
        joinable = [
            each and (before or after) for before, each, after in zip(small, small[1:], small[2:], strict=False)
        ]
        return (
            self.daemon.is_idle()
            and sum(joinable) < 10
            and max(deleted) <= 0.1
            and len(dataset.version_refs()) < 5 + 20
            and all(len(index.unindexed_fragments) < 10 for index in index_coverage(dataset))
        )

    def check_rows(self, written: dict[int, dict[int, int]]) -> None:
        """Check every row of the table, with both implementations."""
        statuses = {FIRST_INGEST + int(run.run_id[:6], 16): run.status for run in self._ingests()}
        for library in (lance, lance_core):
            rows = library.dataset(self.uri).to_table()
            assert rows.num_rows == len(pc.unique(rows["id"])), "a row is doubled"
            for writer, expected in {0: dict.fromkeys(range(500), 0), **written}.items():
                own = rows.filter(pc.equal(rows["writer"], writer))
                assert dict(zip(own["number"].to_pylist(), own["value"].to_pylist(), strict=True)) == expected
            ingested = rows.filter(pc.greater_equal(rows["writer"], FIRST_INGEST))
            counts = {each["values"]: each["counts"] for each in ingested["writer"].value_counts().to_pylist()}
            assert set(counts) <= set(statuses)
            assert set(counts.values()) == {ROWS_PER_INGEST}, "a run's rows are complete"
            missing = [writer for writer in statuses if writer not in counts]
            assert {statuses[writer] for writer in missing} <= {dg.DagsterRunStatus.FAILURE}

    def check_runs(self) -> None:
        """Check that every kind of work was done, and that no step failed: runs without success were killed."""
        runs = self.daemon.runs()
        failed = [
            (run.job_name, run.run_id)
            for run in runs
            if not run.is_success
            and self.daemon.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        ]
        assert failed == []
        assert {run.tags.get("lance/op") for run in runs if run.is_success} >= {
            "ingest",
            "compact",
            "cleanup",
            "optimize_indices",
        }

    def _ingests(self) -> list[dg.DagsterRun]:
        return [run for run in self.daemon.runs() if run.job_name == "events__ingest"]


@pytest.mark.parametrize(
    "minutes", [pytest.param(10, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.soak)]
)
def test_a_busy_dataset_with_killed_processes_stays_small_and_keeps_every_row(tmp_path, minutes) -> None:
    minutes = float(os.environ.get("LANCE_SOAK_MINUTES", minutes))
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Daemon(tmp_path, DEFINITIONS, run_monitoring=RUN_MONITORING) as daemon:
        soak = Soak(tmp_path, daemon, rng)
        writers = {
            number: start_python("-m", "tests.support.soak_writer", library, soak.uri, str(number), str(seed))
            for number, library in ((1, "lance"), (2, "lance_core"))
        }
        try:
            let_go(list(writers.values()))
            while soak.seconds() < minutes * 60 or len(soak.kills) < MIN_KILLS:
                soak.sample()
                soak.search()
                soak.kill_in_turn()
                for writer in writers.values():
                    assert writer.poll() is None, writer.stderr.read()
            written = {number: _rows_of(writer) for number, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.kill()
        (tmp_path / "stop").touch()
        try:
            daemon.wait_until(soak.is_maintained, "the table is not maintained", seconds=600)
            soak.search()
        finally:
            _report(soak)
        soak.check_rows(written)
        soak.check_runs()
        for reference in lance_core.dataset(soak.uri).version_refs():
            lance.dataset(soak.uri, version=reference["version"]).validate()


def _rows_of(writer: subprocess.Popen[str]) -> dict[int, int]:
    """End a writer, and return the values of its rows by their numbers."""
    output, errors = writer.communicate(timeout=300)
    assert writer.returncode == 0, errors
    return {int(number): value for number, value in json.loads(output).items()}


def _report(soak: Soak) -> None:
    runs = soak.daemon.runs()
    operations = [run.tags.get("lance/op", "") for run in runs]
    print({operation: operations.count(operation) for operation in sorted(set(operations))})
    print(f"{soak.searches} searches, {len(soak.kills)} kills, of which {soak.killed_runs} of runs")
    columns = [asdict(sample) for sample in soak.samples]
    print({name: max(column[name] for column in columns) for name in columns[0]}, soak.samples[-1])
    chart = os.environ.get("LANCE_SOAK_CHART")
    if chart:
        write_chart(Path(chart), soak.samples, soak.kills)
