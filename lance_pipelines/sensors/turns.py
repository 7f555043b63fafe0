"""Lets the sensor that has waited longest go first, so that no maintenance waits forever behind other kinds.

Rewrites and index updates of a dataset exclude each other. Without a rule, a sensor whose work is always due could
request a run just before every tick of another sensor, which would find a run in progress each time. ::

    deletion_sensor      requests run 1                       compact goes first      waits for run 2
    compaction_sensor           waits for run 1: tags it              requests run 2

A sensor that waits for a run of another kind tags it with a claim: the time since which it has waited, and its
operation. The oldest claim remains. Once the run has ended, only the operation of the claim is requested for the
dataset. If its sensor makes no use of this (it was stopped, or the work is no longer due), the others continue after
the time of two ticks, or after a minute if that is longer. A sensor keeps its claim until its run is requested.

The claim is in the run records, because a sensor sees only its own cursor.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import dagster as dg

from lance_pipelines.ingest.declaration import DatasetKey, dataset_name
from lance_pipelines.runs.runs_in_flight import CLAIM_TAG, RunInFlight

__all__ = ["TAKING_TURNS", "claim_turn", "other_turn"]

TAKING_TURNS: Final = ("compact", "materialize_deletions", "build_index", "optimize_indices")
"""Operations on a dataset that exclude each other: a rewrite of indexed fragments would undo an index update."""

_MIN_TURN_SECONDS: Final = 60


def claim_turn(
    instance: dg.DagsterInstance, awaited: Sequence[RunInFlight], op: str, claim: str | None, *, now: float
) -> str | None:
    """Claim the turn after the newest of the awaited runs, unless that run is of the same kind, or has an older claim.

    Args:
        instance: the Dagster instance.
        awaited: the runs for which the sensor waits, newest first.
        op: the operation that the sensor requests.
        claim: the sensor's claim, if it has waited before.
        now: the current time, in seconds since the epoch.

    Returns:
        The sensor's claim.
    """
    newest = next((run for run in awaited if not run.is_ingest), None)
    if newest is None or newest.op == op:
        return claim
    if claim is None:
        claim = f"{datetime.fromtimestamp(now, UTC).isoformat(timespec='microseconds')} {op}"
    if newest.claim is None or claim < newest.claim:
        instance.add_run_tags(newest.run_id, {CLAIM_TAG: claim})
    return claim


def other_turn(
    instance: dg.DagsterInstance, dataset: DatasetKey, op: str, *, now: float, interval_seconds: int
) -> str | None:
    """Return why another kind of maintenance goes first; None if this one may be requested.

    Args:
        instance: the Dagster instance.
        dataset: the dataset's asset key.
        op: the operation that the sensor requests.
        now: the current time, in seconds since the epoch.
        interval_seconds: seconds between two ticks of a sensor.
    """
    if op not in TAKING_TURNS:
        return None
    tags = {"lance/dataset": dataset_name(dataset), "lance/op": list(TAKING_TURNS)}
    latest = next(iter(instance.get_run_records(dg.RunsFilter(tags=tags), limit=1)), None)
    if latest is None or not latest.dagster_run.is_finished:
        return None
    run = latest.dagster_run
    claimant = run.tags.get(CLAIM_TAG, "").rpartition(" ")[2]
    ended_at = latest.end_time or latest.update_timestamp.timestamp()
    if claimant in ("", op) or now >= ended_at + max(2 * interval_seconds, _MIN_TURN_SECONDS):
        return None
    return f"{claimant} goes first, because it has waited for run {run.run_id} ({run.tags['lance/op']})"
