"""Maintenance runs killed without warning: the dataset keeps its rows, and the next run finishes the work."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path
from typing import Any

import dagster as dg
import lance
import pytest
import yaml

import lance_core
from lance_pipelines.jobs import request_config
from lance_pipelines.runs.dead_runs import PROCESS_TAG
from tests.support.local_rewriting import ids, write_fragments
from tests.support.processes import DEADLINE_SECONDS, kill, kill_when

pytestmark = pytest.mark.spark

FRAGMENTS = 12
SPARK = {"spark.master": "local[2,2]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
LEFT = [number for number in range(10 * FRAGMENTS) if number % 7]


class Lake:
    """The project's dataset in a temporary directory, and processes that run its maintenance jobs."""

    def __init__(self, command_line: Any, directory: Path) -> None:
        self.home = directory / "home"
        self.uri = directory / "lake" / "events.lance"
        self.dagster = command_line(self.home)
        self.directory = directory

    def write(self) -> None:
        write_fragments(str(self.uri), FRAGMENTS).delete("id % 7 = 0")

    def start(self, operation: str, **values: Any) -> subprocess.Popen[str]:
        document = request_config(operation, uri=str(self.uri), **values)
        if operation in ("compact", "materialize_deletions"):
            document["resources"] = {"lance_spark": {"config": {"spark_config": SPARK}}}
        path = self.directory / f"{operation}.yaml"
        path.write_text(yaml.safe_dump(document))
        return self.dagster.start(
            "job",
            "execute",
            "-m",
            "lance_pipelines.definitions",
            "-j",
            f"installed_files__{operation}",
            "-c",
            str(path),
        )

    def finish(self, operation: str, **values: Any) -> str:
        process = self.start(operation, **values)
        stdout, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, stderr
        return stdout

    def check(self) -> None:
        """Check that every version has the correct rows and passes the validation of the reference."""
        for ref in lance_core.dataset(str(self.uri)).version_refs():
            version = lance.dataset(str(self.uri), version=ref["version"])
            version.validate()
            if ref["version"] > FRAGMENTS:
                assert ids(str(self.uri), ref["version"]) == sorted(version.to_table()["id"].to_pylist()) == LEFT

    def assert_dead_runs_are_marked(self) -> None:
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            noted = [run for run in instance.get_runs() if PROCESS_TAG in run.tags]
        assert noted
        assert {run.status for run in noted} <= {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}


@pytest.fixture
def lake(command_line, tmp_path) -> Lake:
    lake = Lake(command_line, tmp_path)
    lake.write()
    return lake


@pytest.mark.slow
def test_compactions_killed_while_writing_or_committing_lose_no_rows(lake) -> None:
    uri, options = lake.uri, {"target_rows_per_fragment": 30}
    before = len(list(uri.glob("data/*.lance")))
    kill_when(lake.start("compact", **options), lambda: len(list(uri.glob("data/*.lance"))) > before)
    assert lance_core.dataset(str(uri)).version == FRAGMENTS + 1
    lake.check()

    # A transaction file is written inside the commit step, which holds the dataset's pool slot.
    before = len(list(uri.glob("_transactions/*.txn")))
    kill_when(lake.start("compact", **options), lambda: len(list(uri.glob("_transactions/*.txn"))) > before)
    lake.check()

    lake.finish("compact", **options)
    lake.check()
    assert len(lance_core.dataset(str(uri)).get_fragments()) == 3
    assert "nothing to do" in lake.finish("compact", **options)
    lake.assert_dead_runs_are_marked()


@pytest.mark.slow
def test_a_killed_cleanup_is_finished_by_the_next_one(lake) -> None:
    lake.finish("compact", target_rows_per_fragment=30)
    terms = {"retain_versions": 1, "older_than": "0", "min_age": "0"}
    before = len(list(lake.uri.rglob("*")))
    kill_when(lake.start("cleanup", **terms), lambda: len(list(lake.uri.rglob("*"))) < before)
    assert ids(str(lake.uri)) == LEFT
    lake.finish("cleanup", **terms)
    assert len(lance_core.dataset(str(lake.uri)).version_refs()) == 1
    lake.check()
    lake.assert_dead_runs_are_marked()


@pytest.mark.slow
def test_a_delete_killed_while_it_commits_can_be_repeated(lake) -> None:
    before = len(list(lake.uri.glob("_transactions/*.txn")))
    process = lake.start("delete_rows", predicate="id < 15")
    kill_when(process, lambda: len(list(lake.uri.glob("_transactions/*.txn"))) > before)
    lake.finish("delete_rows", predicate="id < 15")
    expected = [number for number in LEFT if number >= 15]
    assert ids(str(lake.uri)) == sorted(lance.dataset(str(lake.uri)).to_table()["id"].to_pylist()) == expected
    lance.dataset(str(lake.uri)).validate()
    lake.assert_dead_runs_are_marked()


@pytest.mark.soak
def test_compactions_killed_at_random_moments_lose_no_rows(lake) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    started = time.monotonic()
    lake.finish("compact", target_rows_per_fragment=15)
    usual_seconds = time.monotonic() - started
    for attempt in range(6):
        process = lake.start("compact", target_rows_per_fragment=20 + attempt)
        try:
            process.communicate(timeout=moments.uniform(0, usual_seconds))
        except subprocess.TimeoutExpired:
            kill(process)
        lake.check()
    lake.finish("compact", target_rows_per_fragment=1000)
    lake.check()
    assert len(lance_core.dataset(str(lake.uri)).get_fragments()) == 1
    lake.assert_dead_runs_are_marked()
