"""The events of a dataset's commits.

A run commits, and then reports the commit as an event. It may end in between. So a commit by a run of this instance is
either reported, not reported yet by a run in progress, or unreported because the run ended. Runs can be configured with
another location than the declared one; their events do not count here.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

import dagster as dg

from lance_pipelines.dead_runs import fail_dead_runs
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.metadata import VERSION_KEY
from lance_pipelines.recorded_versions import event_value, is_event_at
from lance_pipelines.silent_runs import is_silent

__all__ = ["Report", "find_report"]

_EVENT_TYPES: Final = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}


class Report(Enum):
    """Whether a commit was reported as an event."""

    DONE = auto()
    """The event log has it."""

    PENDING = auto()
    """The run is still in progress."""

    LOST = auto()
    """The run ended without it, or has been silent for too long."""

    FOREIGN = auto()
    """This instance has no such run, so there will be no event."""


def find_report(instance: dg.DagsterInstance, run_id: str, declaration: DatasetDeclaration, version: int) -> Report:
    """Return whether a run has reported its commit of this version.

    An event of a later version covers it: a run that needs several commits reports the last one.
    """
    # The run first: an event that it logs after this look is then not taken for a lost one.
    run = _find_run(instance, run_id)
    if run is None:
        return Report.FOREIGN
    if any(reported >= version for reported in _reported_versions(instance, run_id, declaration)):
        return Report.DONE
    return Report.LOST if run.is_finished or is_silent(instance, run) else Report.PENDING


def _find_run(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun | None:
    run = instance.get_run_by_id(run_id)
    if run is not None and not run.is_finished and fail_dead_runs(instance):
        return instance.get_run_by_id(run_id)
    return run


def _reported_versions(instance: dg.DagsterInstance, run_id: str, declaration: DatasetDeclaration) -> Iterator[int]:
    key = dg.AssetKey(declaration.name)
    for entry in instance.all_logs(run_id, of_type=_EVENT_TYPES):
        event = entry.asset_materialization or entry.asset_observation
        if event is not None and event.asset_key == key and is_event_at(event, declaration.uri):
            version = event_value(event, VERSION_KEY)
            if isinstance(version, int):
                yield version
