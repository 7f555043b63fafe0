"""The tick that the maintenance sensors share: examine every dataset and request a run where one is due.

::

    latest version ── same as at the last tick, and no requested run has ended since? ──yes──▶ the reason of that tick
          │ no
    examine: the latest manifest, the policy ── not due ──▶ the reason, with numbers
          │ due
    requested before? ── in progress, or pausing after a run that did not complete the work ──▶ until when
          │ no, or the pause is over
    an ingest, or another run of this kind in flight? ──yes──▶ wait for it
          │ no
    has another kind of maintenance waited longer? ──yes──▶ let it go first (``turns.py``)
          │ no
    one run request

The result of every tick contains a reason for each dataset. A dataset that cannot be read does not prevent the others
from being examined.

A run is requested once per version and policy. If it fails or does not complete the work, another is requested after a
pause that grows with every attempt (``attempts.py``). A new version or a changed policy is new work, for which no pause
applies.

A request waits only for an ingest that was running when the work was first found to be due; otherwise, continuous
ingests would prevent maintenance. The maintenance job itself waits for the ingests that are running when it starts
(``run_entry.py``).
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import dagster as dg

from lance_core.errors import LanceError
from lance_pipelines.ingest.declaration import DatasetDeclaration
from lance_pipelines.maintenance.evaluate import Due, NotDue, Verdict
from lance_pipelines.runs.runs_in_flight import RunInFlight, find_runs_in_flight
from lance_pipelines.sensors.attempts import WORK_TAG, Attempts
from lance_pipelines.sensors.cursor import parse_cursor, serialize_cursor
from lance_pipelines.sensors.latest import Latest
from lance_pipelines.sensors.tick_budget import LEFT_FOR_NEXT_TICK, examine_in_budget
from lance_pipelines.sensors.turns import claim_turn, other_turn

__all__ = ["MaintenanceKind", "Target", "request_runs"]

_SUBJECT_DIGITS: Final = 8
_ASKED: Final = "a run was requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A dataset for which a sensor requests runs.

    Attributes:
        declaration: the dataset.
        job_name: name of the job that does the work for the dataset.
        run_config: the run configuration of that job.
        switched_off: why the sensor does not maintain this dataset; empty if it does.
    """

    declaration: DatasetDeclaration
    job_name: str
    run_config: Mapping[str, Any]
    switched_off: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceKind:
    """The kind of maintenance that one sensor requests.

    Attributes:
        sensor: the sensor's name, without the namespace.
        description: what the sensor does.
        op: the operation, as recorded in run tags.
        excludes: operations that must not be in progress when a run is requested, including ``op``.
        examine: called with a dataset and its versions; returns whether the work is due.
        becomes_due_with_age: True if work can become due without a commit; in that case, an unchanged dataset is
            examined too.
    """

    sensor: str
    description: str
    op: str
    excludes: tuple[str, ...]
    examine: Callable[[DatasetDeclaration, Latest], Verdict]
    becomes_due_with_age: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state that a sensor keeps for a dataset.

    Attributes:
        version: the latest version when the dataset was examined.
        stamp: size and modification time of the manifest of that version.
        policy: digest of the policy and the declared indices with which the dataset was examined.
        reason: the result of the examination, with numbers.
        work: identifies the requested work; the same for every attempt. None if no run was requested.
        run_key: the key of the latest requested run.
        ingest: id of the ingest run to wait for before a run is requested; None if there is none.
        claim: the claim with which the sensor waits for other kinds of maintenance; None if it does not wait.
    """

    version: int
    stamp: str
    policy: str
    reason: str
    work: str | None = None
    run_key: str | None = None
    ingest: str | None = None
    claim: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a tick for one dataset.

    Attributes:
        reason: the result, in one line.
        seen: the state to keep for the next tick; if None, the next tick examines the dataset again.
        request: the run to request; None if no run is requested.
    """

    reason: str
    seen: Seen | None = None
    request: dg.RunRequest | None = None


def request_runs(
    context: dg.SensorEvaluationContext, kind: MaintenanceKind, targets: Sequence[Target], *, interval_seconds: int
) -> dg.SensorResult:
    """Examine all datasets and return the result of the tick.

    Args:
        context: the context of the tick.
        kind: the kind of maintenance.
        targets: the datasets and their jobs.
        interval_seconds: seconds between two ticks.
    """
    known = parse_cursor(context.cursor, Seen)
    results = examine_in_budget(
        targets,
        lambda target: _look(context.instance, kind, target, known.get(target.declaration.name), interval_seconds),
        lambda target: Finding(reason=LEFT_FOR_NEXT_TICK, seen=known.get(target.declaration.name)),
    )
    findings = {target.declaration.name: finding for target, finding in zip(targets, results, strict=True)}
    requests = [finding.request for finding in findings.values() if finding.request is not None]
    reasons = "; ".join(f"{name}: {finding.reason}" for name, finding in findings.items())
    if requests:
        # A tick with requests has no skip reason, but a log.
        context.log.info(reasons)
    seen = {name: finding.seen for name, finding in findings.items() if finding.seen is not None}
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else reasons or "no dataset is declared",
        cursor=serialize_cursor(seen),
    )


def _look(
    instance: dg.DagsterInstance, kind: MaintenanceKind, target: Target, seen: Seen | None, interval_seconds: int
) -> Finding:
    if target.switched_off:
        return Finding(reason=target.switched_off, seen=seen)
    try:
        latest = Latest.find(target.declaration.uri, target.declaration.resolved_storage_options())
        if latest is None:
            return Finding(reason="the dataset does not exist yet")
        return _examine(instance, kind, target, latest, seen, interval_seconds)
    except LanceError as error:
        return Finding(reason=f"cannot be examined: {error}", seen=seen)


def _examine(
    instance: dg.DagsterInstance,
    kind: MaintenanceKind,
    target: Target,
    latest: Latest,
    seen: Seen | None,
    interval_seconds: int,
) -> Finding:
    now = Seen(version=latest.version, stamp=latest.stamp, policy=target.declaration.upkeep_digest(), reason="")
    if seen is not None and _is_unchanged(seen, now) and not kind.becomes_due_with_age:
        known = _known(instance, seen)
        if known is not None:
            return Finding(reason=f"version {now.version} unchanged: {known}", seen=seen)
    verdict = kind.examine(target.declaration, latest)
    if isinstance(verdict, NotDue):
        lasting = replace(now, reason=verdict.reason) if verdict.is_lasting else None
        return Finding(reason=verdict.reason, seen=lasting)
    work = _work(kind, target.declaration.name, now, verdict)
    attempts = Attempts.find(instance, work)
    asked_for = None if seen is None else seen.run_key
    waited_for = _waited_for(instance, attempts, asked_for)
    if waited_for is not None:
        waiting = replace(now, reason=verdict.reason, work=work, run_key=asked_for)
        return Finding(reason=f"{waited_for}, {verdict.reason}", seen=waiting)
    asked = replace(now, reason=verdict.reason, work=work, run_key=attempts.run_key)
    others = find_runs_in_flight(instance, target.declaration.key, kind.excludes)
    ingest, claim = (None, None) if seen is None else (seen.ingest, seen.claim)
    awaited = [run for run in others.awaited if not run.is_ingest or ingest in (None, run.run_id)]
    # Without a stamp the dataset is examined again at the next tick.
    waiting = replace(now, stamp="", ingest=ingest or _oldest_ingest(awaited), claim=claim)
    if awaited:
        claim = claim_turn(instance, awaited, kind.op, claim, now=time.time())
        return Finding(reason=f"waiting for {awaited[0].text}, {verdict.reason}", seen=replace(waiting, claim=claim))
    others_turn = other_turn(
        instance, target.declaration.key, kind.op, now=time.time(), interval_seconds=interval_seconds
    )
    if others_turn is not None:
        return Finding(reason=f"{others_turn}, {verdict.reason}", seen=waiting)
    silent = f"; not waiting for runs without recent events: {others.passed_over}" if others.passed_over else ""
    reason = f"{_ASKED}, {verdict.reason}{silent}"
    request = _request(kind, target, now, verdict, attempts)
    return Finding(reason=reason, seen=asked, request=request)


def _oldest_ingest(runs: Sequence[RunInFlight]) -> str | None:
    return next((run.run_id for run in reversed(runs) if run.is_ingest), None)


def _is_unchanged(seen: Seen, now: Seen) -> bool:
    return (seen.version, seen.stamp, seen.policy) == (now.version, now.stamp, now.policy)


def _known(instance: dg.DagsterInstance, seen: Seen) -> str | None:
    """Return the known result for a dataset that did not change; None if it must be examined again."""
    if seen.work is None:
        return seen.reason
    waited_for = _waited_for(instance, Attempts.find(instance, seen.work), seen.run_key)
    return None if waited_for is None else f"{waited_for}, {seen.reason}"


def _waited_for(instance: dg.DagsterInstance, attempts: Attempts, asked_for: str | None) -> str | None:
    """Return why no run is requested now, for work that is due; None if one is requested."""
    if attempts.run_key == asked_for or attempts.is_under_way(instance):
        return _ASKED
    return attempts.pause(time.time())


def _work(kind: MaintenanceKind, dataset: str, now: Seen, due: Due) -> str:
    """Return the version, the policy, and a digest that distinguishes datasets with the same version number."""
    subject = hashlib.sha256(f"{now.stamp} {due.subject}".encode()).hexdigest()[:_SUBJECT_DIGITS]
    return f"{dataset}:{kind.op}:{now.version}:{now.policy}:{subject}"


def _request(kind: MaintenanceKind, target: Target, now: Seen, due: Due, attempts: Attempts) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=attempts.run_key,
        job_name=target.job_name,
        run_config=dict(target.run_config),
        tags={
            "lance/dataset": target.declaration.name,
            "lance/op": kind.op,
            "lance/read_version": str(now.version),
            "lance/reason": due.reason,
            WORK_TAG: attempts.work,
        },
    )
