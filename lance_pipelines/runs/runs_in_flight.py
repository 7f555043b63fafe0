"""Runs of a dataset that are queued or in progress.

A run of one of the project's jobs is tagged with its dataset and operation. Other runs may ingest a dataset
too: runs launched from its asset in the web interface, and runs of a user's job. They are found in the event log, which
has an event for every asset that a run will materialize.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetKey, dataset_name, key_parts
from lance_pipelines.runs.dead_runs import PROCESS_TAG, fail_dead_runs
from lance_pipelines.runs.silent_runs import describe_run, is_silent

__all__ = ["CLAIM_TAG", "INGEST", "RunInFlight", "RunsInFlight", "find_runs_in_flight"]

INGEST: Final = "ingest"
"""Operation name of the runs that materialize the asset of a dataset."""

CLAIM_TAG: Final = "lance/awaited_by"
"""Run tag: when a sensor began to wait, and its operation, which is the next one to be requested."""

_IN_FLIGHT: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

_ASSET_EVENTS: Final = {
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInFlight:
    """A run that has not ended.

    Attributes:
        run_id: id of the run.
        op: the operation.
        claim: the value of its tag :data:`CLAIM_TAG`; None if no sensor has waited for the run.
        is_at_work: whether its first step, which records the process, has begun.
        text: description of the run.
    """

    run_id: str
    op: str
    claim: str | None
    is_at_work: bool
    text: str

    @property
    def is_ingest(self) -> bool:
        """Whether the run ingests the dataset instead of maintaining it."""
        return self.op == INGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsInFlight:
    """Runs that have not ended.

    Attributes:
        awaited: the runs to wait for, newest first.
        passed_over: description of the runs that are ignored because they have been silent for too long; empty if there
            are none.
    """

    awaited: tuple[RunInFlight, ...]
    passed_over: str


def find_runs_in_flight(instance: dg.DagsterInstance, dataset: DatasetKey, ops: Sequence[str]) -> RunsInFlight:
    """Find the unfinished runs of these operations on the dataset.

    Runs whose process no longer exists are marked as failed and are not returned. Dry runs are not returned either.

    Args:
        instance: the Dagster instance.
        dataset: the dataset's asset key.
        ops: the operations.
    """
    found = _find(instance, dataset, ops)
    if found and fail_dead_runs(instance):
        found = _find(instance, dataset, ops)
    awaited, silent = [], []
    for run, op in found:
        text = describe_run(instance, run)
        if is_silent(instance, run):
            silent.append(text)
        else:
            claim, at_work = run.tags.get(CLAIM_TAG), PROCESS_TAG in run.tags
            awaited.append(RunInFlight(run_id=run.run_id, op=op, claim=claim, is_at_work=at_work, text=text))
    return RunsInFlight(awaited=tuple(awaited), passed_over=", ".join(silent))


def _find(instance: dg.DagsterInstance, dataset: DatasetKey, ops: Sequence[str]) -> list[tuple[dg.DagsterRun, str]]:
    """Return each run, and its operation."""
    name, found = dataset_name(dataset), []
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=_IN_FLIGHT)):
        op = run.tags.get("lance/op") if run.tags.get("lance/dataset") == name else None
        if op is None and INGEST in ops and _is_to_materialize(instance, run, dataset):
            op = INGEST
        if op is not None and op in ops and (op == INGEST or not _is_dry(run)):
            found.append((run, op))
    return found


def _is_to_materialize(instance: dg.DagsterInstance, run: dg.DagsterRun, dataset: DatasetKey) -> bool:
    """Return whether a run was launched to materialize the dataset's asset, and has not done so yet."""
    key = dg.AssetKey(key_parts(dataset))
    events = [entry.get_dagster_event() for entry in instance.all_logs(run.run_id, of_type=_ASSET_EVENTS)]
    kinds = {event.event_type for event in events if event.asset_key == key}
    return kinds == {dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED}


def _is_dry(run: dg.DagsterRun) -> bool:
    steps = run.run_config.get("ops")
    if not isinstance(steps, dict):
        return False
    configs = [step.get("config") for step in steps.values() if isinstance(step, dict)]
    return any(isinstance(config, dict) and config.get("dry_run") is True for config in configs)
