"""Runs killed without warning: the latest version of the dataset is always complete, and the next run works."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import dagster as dg
import lance
import psutil
import pytest

import lance_core
from lance_pipelines.runs.dead_runs import MACHINE_TAG, PROCESS_TAG, machine
from tests.support.processes import DEADLINE_SECONDS, kill, kill_when, wait_until

pytestmark = pytest.mark.spark

ROWS_PER_RUN = 10


def committed_versions(uri: Path) -> int:
    """Return the latest version after checking that version n contains all rows of exactly n runs."""
    if not (uri / "_versions").exists() or not list((uri / "_versions").glob("*.manifest")):
        return 0
    dataset = lance_core.dataset(str(uri))
    rows = Counter(dataset.to_table(columns=["id"])["id"].to_pylist())
    assert rows == Counter(dict.fromkeys(range(ROWS_PER_RUN), dataset.version))
    dataset.validate()
    lance.dataset(str(uri)).validate()
    return dataset.version


def assert_dead_runs_are_marked(home: Path) -> None:
    """Check that no run whose first step started is still recorded as running."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        noted = [run for run in instance.get_runs() if PROCESS_TAG in run.tags]
    assert {run.status for run in noted} <= {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}


@pytest.mark.slow
def test_an_ingest_succeeds_after_runs_were_killed_while_writing_and_committing(
    command_line, run_config, ten_rows, tmp_path
) -> None:
    home, uri = tmp_path / "home", tmp_path / "lake" / "events.lance"
    dagster = command_line(home)
    config = run_config({"source": ten_rows, "uri": str(uri)})

    kill_when(dagster.start_ingest(config), lambda: any(uri.glob("data/*.lance")), whole_tree=False)
    assert committed_versions(uri) == 0

    # The transaction file is written inside the commit step, which holds the dataset's pool slot.
    kill_when(dagster.start_ingest(config), lambda: any(uri.glob("_transactions/*.txn")), whole_tree=True)
    before = committed_versions(uri)

    done = dagster.ingest(config, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert committed_versions(uri) == before + 1
    assert_dead_runs_are_marked(home)


@pytest.mark.soak
def test_ingest_runs_killed_at_random_moments_leave_only_complete_versions(
    command_line, run_config, ten_rows, tmp_path
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    home, uri = tmp_path / "home", tmp_path / "lake" / "events.lance"
    dagster = command_line(home)
    config = run_config({"source": ten_rows, "uri": str(uri)})
    started = time.monotonic()
    assert dagster.ingest(config).returncode == 0
    usual_seconds = time.monotonic() - started

    before = committed_versions(uri)
    for _ in range(10):
        process = dagster.start_ingest(config)
        try:
            process.communicate(timeout=moments.uniform(0, usual_seconds))
        except subprocess.TimeoutExpired:
            kill(process, whole_tree=moments.random() < 0.5)
        now = committed_versions(uri)
        assert now in (before, before + 1)
        before = now

    done = dagster.ingest(config, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert committed_versions(uri) == before + 1
    assert_dead_runs_are_marked(home)


@pytest.mark.slow
def test_a_run_that_waits_for_the_slot_of_a_killed_run_continues(command_line, run_config, ten_rows, tmp_path) -> None:
    home, uri = tmp_path / "home", tmp_path / "lake" / "events.lance"
    dagster = command_line(home)
    pool = "lance__installed_files"
    with (
        dg.DagsterInstance.from_config(str(home)) as instance,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as holder,
    ):
        identity = f"{holder.pid}@{psutil.Process(holder.pid).create_time():.0f}"
        holding = instance.create_run_for_job(
            dg.GraphDefinition(name="holding").to_job(),
            status=dg.DagsterRunStatus.STARTED,
            tags={MACHINE_TAG: machine(), PROCESS_TAG: identity},
        )
        slots = instance.event_log_storage
        slots.initialize_concurrency_limit_to_default(pool)
        assert slots.claim_concurrency_slot(pool, holding.run_id, "commit_fragments").is_claimed

        process = dagster.start_ingest(run_config({"source": ten_rows, "uri": str(uri)}))
        wait_until(process, lambda: slots.get_concurrency_info(pool).pending_step_count > 0)
        holder.kill()
        _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 0, stderr
        assert instance.get_run_by_id(holding.run_id).status is dg.DagsterRunStatus.FAILURE
    assert committed_versions(uri) == 1


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_cleans_up_after_itself(command_line, run_config, ten_rows, tmp_path, number) -> None:
    """Ctrl-C, or the button in the web interface, in the middle of a write that would take hours."""
    uri = tmp_path / "lake" / "events.lance"
    dagster = command_line()
    source = {**ten_rows, "sql": "SELECT s.id, s.name, uuid() AS noise FROM source s, range(1000000000)"}
    process = dagster.start_ingest(run_config({"source": source, "uri": str(uri), "max_rows_per_file": 50_000}))
    wait_until(process, lambda: any(uri.glob("data/*.lance")))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode != 0
    assert "RUN_FAILURE" in stderr or "RUN_CANCELED" in stderr
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive, f"left running: {alive}"
    assert [path.name for path in uri.rglob("*") if path.is_file()] == [], stderr
