"""Sensors that exclude each other take turns: the one that has waited longest goes first."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import lance
import pytest

import lance_core
from lance_pipelines.sensors import run_requests
from tests.dagster.test_sensors_maintenance import Watched, answer

COMPACT, DELETIONS, INDICES, CLEANUP = "compact", "materialize_deletions", "optimize_indices", "cleanup"
SMALL = "4 small fragments >= 4"
WORN = "4 fragments with more than 0.25 of the rows deleted, 16 deleted rows >= 2"


@pytest.fixture
def watched(instance: dg.DagsterInstance, tmp_path: Path) -> Watched:
    """A dataset for which a compaction and a materialization of deletions are both due, at every version."""
    watched = Watched(instance, tmp_path)
    watched.fill(4)
    lance.dataset(watched.uri()).delete("id < 4")
    return watched


def commit(watched: Watched) -> None:
    """Create a version, so that the next request is for new work."""
    lance_core.dataset(watched.uri()).update_config({"version": str(time.monotonic_ns())})


def start(watched: Watched, op: str) -> str:
    """Tick a sensor, which must request a run; return the run, which has started."""
    (request,) = watched.tick(op)
    return answer(watched, request, dg.DagsterRunStatus.STARTED)


def end(watched: Watched, run_id: str) -> None:
    run = watched.instance.get_run_by_id(run_id)
    event = dg.DagsterEvent(event_type_value=dg.DagsterEventType.RUN_SUCCESS.value, job_name=run.job_name)
    watched.instance.report_dagster_event(event, run_id)


def waits(watched: Watched, op: str, run_id: str) -> bool:
    """Tick a sensor, and return whether it waits for a run."""
    assert watched.tick(op) == []
    return watched.reason.startswith(f"events: waiting for run {run_id} (")


def test_a_sensor_that_waited_for_another_goes_first_and_the_two_take_turns(watched) -> None:
    due = {COMPACT: SMALL, DELETIONS: WORN}
    first, second = DELETIONS, COMPACT
    run_id = start(watched, first)
    for _ in range(4):
        assert waits(watched, second, run_id)
        commit(watched)
        end(watched, run_id)
        # The sensor whose run has ended has more work, and its tick comes first.
        for _ in range(2):
            watched.skip(
                f"events: {second} goes first, because it has waited for run {run_id} ({first}), {due[first]}", first
            )
        run_id = start(watched, second)
        first, second = second, first


def test_a_sensor_that_no_other_sensor_waited_for_requests_its_next_run_immediately(watched) -> None:
    for _ in range(3):
        run_id = start(watched, DELETIONS)
        commit(watched)
        end(watched, run_id)


def test_a_turn_that_is_not_used_ends_after_two_ticks(watched, monkeypatch) -> None:
    run_id = start(watched, DELETIONS)
    assert waits(watched, COMPACT, run_id)
    commit(watched)
    end(watched, run_id)
    assert watched.tick(DELETIONS) == []
    now = time.time()
    monkeypatch.setattr(run_requests, "time", SimpleNamespace(time=lambda: now + 50))
    assert watched.tick(DELETIONS) == []
    monkeypatch.setattr(run_requests, "time", SimpleNamespace(time=lambda: now + 70))
    start(watched, DELETIONS)


def test_the_sensor_that_has_waited_longest_goes_first_regardless_of_the_order_of_ticks(watched) -> None:
    lance.dataset(watched.uri()).create_scalar_index("id", "BTREE")
    watched.fill(4)
    run_id = start(watched, COMPACT)
    assert waits(watched, INDICES, run_id)
    assert waits(watched, DELETIONS, run_id)
    commit(watched)
    end(watched, run_id)
    for op in (DELETIONS, COMPACT):
        assert watched.tick(op) == []
        assert watched.reason.startswith(f"events: {INDICES} goes first, because it has waited for run {run_id} (")
    indexing = start(watched, INDICES)
    assert waits(watched, COMPACT, indexing)
    assert waits(watched, DELETIONS, indexing)
    end(watched, indexing)
    assert watched.tick(COMPACT) == []
    assert watched.reason.startswith(f"events: {DELETIONS} goes first, because it has waited for run {indexing} (")
    start(watched, DELETIONS)


def test_a_failed_run_passes_the_turn_to_the_sensor_that_waited(watched) -> None:
    run_id = start(watched, DELETIONS)
    assert waits(watched, COMPACT, run_id)
    commit(watched)
    watched.end_run(run_id)
    assert watched.tick(DELETIONS) == []
    assert watched.reason.startswith(f"events: {COMPACT} goes first")
    # A failure of the other kind does not keep this one waiting.
    watched.end_run(start(watched, COMPACT))
    start(watched, DELETIONS)


def test_a_cleanup_does_not_wait_for_the_turn_of_another_sensor(watched) -> None:
    run_id = start(watched, DELETIONS)
    assert waits(watched, COMPACT, run_id)
    end(watched, run_id)
    start(watched, CLEANUP)
