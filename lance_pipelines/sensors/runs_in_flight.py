"""Runs of a dataset that are queued or under way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import dagster as dg

from lance_pipelines.dead_runs import fail_dead_runs
from lance_pipelines.silent_runs import describe_run, is_silent

__all__ = ["RunsInFlight", "find_runs_in_flight"]

_IN_FLIGHT: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsInFlight:
    """Runs that have not ended.

    Attributes:
        awaited: the run to wait for, in words; None when there is none.
        passed_over: runs that have been silent for too long, in words; empty when there are none.
    """

    awaited: str | None
    passed_over: str


def find_runs_in_flight(instance: dg.DagsterInstance, dataset: str, ops: Sequence[str]) -> RunsInFlight:
    """Runs of these operations on the dataset that have not ended.

    A run whose process is gone does not count; it is reported as failed on the way. A dry run changes nothing, so it
    does not count either.
    """
    filters = dg.RunsFilter(statuses=_IN_FLIGHT, tags={"lance/dataset": dataset, "lance/op": list(ops)})
    found = instance.get_runs(filters=filters)
    if found and fail_dead_runs(instance):
        found = instance.get_runs(filters=filters)
    awaited, silent = None, []
    for run in found:
        if _is_dry(run):
            continue
        if is_silent(instance, run):
            silent.append(describe_run(instance, run))
        else:
            awaited = awaited or describe_run(instance, run)
    return RunsInFlight(awaited=awaited, passed_over=", ".join(silent))


def _is_dry(run: dg.DagsterRun) -> bool:
    steps = run.run_config.get("ops")
    if not isinstance(steps, dict):
        return False
    configs = [step.get("config") for step in steps.values() if isinstance(step, dict)]
    return any(isinstance(config, dict) and config.get("dry_run") is True for config in configs)
