"""Runs whose process was killed are marked as failed, so that they do not block other runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import dagster as dg
import psutil
import pytest

from lance_pipelines.ops.run_entry import begin_run
from lance_pipelines.runs import dead_runs
from lance_pipelines.runs.dead_runs import (
    MACHINE_TAG,
    PROCESS_TAG,
    fail_dead_runs,
    machine,
    note_run_process,
    stop_watching,
    watch_for_dead_runs,
)

POOL = "lance__events"


@dg.job
def job() -> None:
    """A job without effect, because each run needs a job."""


@pytest.fixture
def instance(tmp_path):
    pools = {"concurrency": {"pools": {"granularity": "op", "default_limit": 1}}}
    with dg.instance_for_test(overrides=pools, temp_dir=str(tmp_path)) as persistent:
        persistent.event_log_storage.initialize_concurrency_limit_to_default(POOL)
        yield persistent


@pytest.fixture
def dead_process() -> str:
    """Identity of a process that was killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = f"{process.pid}@{psutil.Process(process.pid).create_time():.0f}"
    process.kill()
    process.communicate()
    return identity


def start_run(instance: dg.DagsterInstance, **tags: str) -> str:
    return instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags).run_id


def status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus:
    return instance.get_run_by_id(run_id).status


def test_a_run_whose_process_was_killed_is_marked_as_failed_and_releases_its_slot(instance, dead_process) -> None:
    run_id = start_run(instance, **{MACHINE_TAG: machine(), PROCESS_TAG: dead_process})
    storage = instance.event_log_storage
    assert storage.claim_concurrency_slot(POOL, run_id, "events.commit_fragments").is_claimed
    waiting = start_run(instance)
    assert not storage.claim_concurrency_slot(POOL, waiting, "events.commit_fragments").is_claimed

    assert fail_dead_runs(instance) == [run_id]

    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE
    assert storage.claim_concurrency_slot(POOL, waiting, "events.commit_fragments").is_claimed
    assert fail_dead_runs(instance) == []


def test_a_run_that_begins_marks_dead_runs_as_failed(instance, dead_process) -> None:
    """This holds even if the run finds nothing to do and never enters a pool."""

    @dg.op
    def begin(context) -> None:
        begin_run(context)

    @dg.job
    def short() -> None:
        begin()

    run_id = start_run(instance, **{MACHINE_TAG: machine(), PROCESS_TAG: dead_process})
    assert short.execute_in_process(instance=instance).success
    assert status(instance, run_id) is dg.DagsterRunStatus.FAILURE


def test_a_run_whose_process_is_alive_is_not_marked_as_failed(instance) -> None:
    run_id = start_run(instance)
    note_run_process(instance, run_id)
    assert instance.get_run_by_id(run_id).tags[PROCESS_TAG].startswith(f"{os.getpid()}@")
    assert fail_dead_runs(instance) == []
    assert status(instance, run_id) is dg.DagsterRunStatus.STARTED


def test_a_process_id_reused_by_another_process_does_not_keep_a_run_alive(instance) -> None:
    long_ago = f"{os.getpid()}@{psutil.Process().create_time() - 3600:.0f}"
    run_id = start_run(instance, **{MACHINE_TAG: machine(), PROCESS_TAG: long_ago})
    assert fail_dead_runs(instance) == [run_id]


def test_runs_on_other_or_unknown_machines_are_not_marked_as_failed(instance, dead_process) -> None:
    start_run(instance, **{MACHINE_TAG: "elsewhere", PROCESS_TAG: dead_process})
    start_run(instance)
    assert fail_dead_runs(instance) == []


def test_a_run_whose_process_tag_was_lost_to_a_concurrent_tag_is_not_marked_as_failed(instance, monkeypatch) -> None:
    run_id = start_run(instance)
    before = instance.get_run_by_id(run_id)
    note_run_process(instance, run_id)
    with monkeypatch.context() as concurrently:
        concurrently.setattr(instance.run_storage, "_get_run_by_id", lambda _: before)
        instance.add_run_tags(run_id, {"added": "by a sensor that read the run before"})
    assert PROCESS_TAG not in instance.get_run_by_id(run_id).tags
    assert [run.run_id for run in instance.get_runs(dg.RunsFilter(tags={MACHINE_TAG: machine()}))] == [run_id]
    assert fail_dead_runs(instance) == []
    assert status(instance, run_id) is dg.DagsterRunStatus.STARTED


def test_finished_runs_are_not_marked_as_failed(instance, dead_process) -> None:
    tags = {MACHINE_TAG: machine(), PROCESS_TAG: dead_process}
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS, tags=tags)
    assert fail_dead_runs(instance) == []


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dead-runs"]


@pytest.mark.slow
def test_a_run_that_dies_while_another_waits_for_its_slot_is_detected(instance, dead_process, monkeypatch) -> None:
    monkeypatch.setattr(dead_runs, "_WATCH_SECONDS", 0.01)
    found = threading.Event()
    real = dead_runs.fail_dead_runs

    def look(watched: dg.DagsterInstance) -> list[str]:
        runs = real(watched)
        if runs:
            found.set()
        return runs

    monkeypatch.setattr(dead_runs, "fail_dead_runs", look)
    waiting = start_run(instance)
    watch_for_dead_runs(instance, waiting)
    dying = start_run(instance, **{MACHINE_TAG: machine(), PROCESS_TAG: dead_process})
    assert found.wait(timeout=60)
    assert status(instance, dying) is dg.DagsterRunStatus.FAILURE
    [watcher] = watchers()
    stop_watching(waiting)
    watcher.join(timeout=60)
    assert not watchers()


def test_a_run_stops_watching_for_dead_runs_when_it_ends(instance, monkeypatch) -> None:
    monkeypatch.setattr(dead_runs, "_WATCH_SECONDS", 0.01)
    finished = instance.create_run_for_job(job, status=dg.DagsterRunStatus.SUCCESS)
    watch_for_dead_runs(instance, finished.run_id)
    for watcher in watchers():
        watcher.join(timeout=60)
    assert not watchers()
    stop_watching(finished.run_id)
