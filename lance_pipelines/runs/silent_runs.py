"""Runs that have been silent for so long that other runs no longer wait for them.

Whether the process of a run is alive can be determined on its own machine, once its first step has recorded the process
(see ``dead_runs.py``). It cannot be determined for a run on another machine, for a run in a container that was
recreated under a different name, or for a run that was killed before its first step. Such a run must not block the
sensors of its dataset forever: after a period without any event, it is ignored. The length of that period is the value
of the run's tag ``dagster/max_runtime``; without this tag, it is the value of ``run_monitoring.max_runtime_seconds``
for the instance. Dagster's daemon ends runs after that time anyway. If neither is set, the period is six hours.

Two kinds of unfinished runs are never ignored: a queued run, which may wait for any length of time, and a run recorded
on this machine, which would be marked as failed if its process no longer existed.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import dagster as dg

from lance_pipelines.runs.dead_runs import MACHINE_TAG, machine

__all__ = ["describe_run", "is_silent"]

_DEFAULT_LIMIT: Final = timedelta(hours=6)

_MAX_RUNTIME_TAGS: Final = ("dagster/max_runtime", "dagster/max_runtime_seconds")


def is_silent(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether an unfinished run has been silent for too long; call this after marking dead runs as failed."""
    if run.status is dg.DagsterRunStatus.QUEUED or run.tags.get(MACHINE_TAG) == machine():
        return False
    last_event = _last_event_at(instance, run)
    return last_event is not None and _now() - last_event > _limit(instance, run)


def describe_run(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return the run's id, its operation, and the time of its last event."""
    last_event = _last_event_at(instance, run)
    since = "" if last_event is None else f", last event at {last_event:%Y-%m-%d %H:%M:%S} UTC"
    return f"run {run.run_id} ({run.tags.get('lance/op', run.job_name)}{since})"


def _limit(instance: dg.DagsterInstance, run: dg.DagsterRun) -> timedelta:
    for tag in _MAX_RUNTIME_TAGS:
        try:
            seconds = float(run.tags.get(tag, 0))
        except ValueError:
            continue
        if seconds > 0:
            return timedelta(seconds=seconds)
    seconds = float(instance.run_monitoring_max_runtime_seconds)
    return timedelta(seconds=seconds) if seconds > 0 else _DEFAULT_LIMIT


def _last_event_at(instance: dg.DagsterInstance, run: dg.DagsterRun) -> datetime | None:
    latest = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    if latest:
        return datetime.fromtimestamp(latest[0].timestamp, UTC)
    record = instance.get_run_record_by_id(run.run_id)
    return None if record is None else record.create_timestamp.astimezone(UTC)


def _now() -> datetime:
    return datetime.now(UTC)
