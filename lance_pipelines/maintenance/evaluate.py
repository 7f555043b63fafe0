"""Decides whether maintenance is due by comparing a policy with the statistics of a table, without opening the table.

Each result contains a reason with numbers. The reason appears in the sensor's tick and in a tag of the requested run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from lance_pipelines.maintenance.index_plan import IndexAction
from lance_pipelines.maintenance.plan_table import amount, format_duration
from lance_pipelines.maintenance.policy import newest_versions

if TYPE_CHECKING:
    from lance_pipelines.maintenance.health import TableHealth
    from lance_pipelines.maintenance.index_plan import IndexForecast
    from lance_pipelines.maintenance.old_versions import OldVersions
    from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, IndexPolicy

__all__ = [
    "Due",
    "NotDue",
    "Verdict",
    "evaluate_cleanup",
    "evaluate_compaction",
    "evaluate_deletions",
    "evaluate_indices",
]


@dataclass(frozen=True, slots=True)
class Due:
    """The work is due.

    Attributes:
        reason: the reason, with numbers.
        subject: identifies the work, if the latest version alone does not identify it.
    """

    reason: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class NotDue:
    """The work is not due.

    Attributes:
        reason: the reason, with numbers.
        is_lasting: whether the result holds until the dataset or its policy changes.
    """

    reason: str
    is_lasting: bool = True


Verdict: TypeAlias = Due | NotDue


def evaluate_compaction(policy: CompactionPolicy | None, health: TableHealth) -> Verdict:
    """Return :class:`Due` if enough small fragments have neighbors to merge with.

    Small fragments between large ones are not counted, because no plan would contain them.
    """
    if policy is None:
        return NotDue("compaction is disabled")
    needed = policy.min_small_fragments
    if health.small_fragments < needed:
        return NotDue(f"{amount(health.small_fragments, 'small fragment')} < {needed}")
    if health.mergeable_fragments < needed:
        return NotDue(
            f"{amount(health.small_fragments, 'small fragment')}; with small neighbors: {health.mergeable_fragments} "
            f"< {needed}"
        )
    return Due(f"{amount(health.mergeable_fragments, 'small fragment')} >= {needed}")


def evaluate_deletions(policy: DeletionPolicy | None, health: TableHealth) -> Verdict:
    """Return :class:`Due` if a fragment has too many deleted rows, and enough rows would be dropped.

    If the table as a whole exceeds the allowed fraction, so does at least one fragment; the table needs no separate
    rule.
    """
    if policy is None:
        return NotDue("materializing deletions is disabled")
    allowed = f"{policy.max_deleted_fraction:.3g}"
    if not health.worn_fragments:
        overall = f"overall: {health.deletion_ratio:.3g}"
        return NotDue(f"no fragment has a fraction of deleted rows above {allowed} ({overall})")
    found = (
        f"{amount(health.worn_fragments, 'fragment')} with more than {allowed} of the rows deleted, "
        f"{amount(health.worn_rows, 'deleted row')}"
    )
    if health.worn_rows < policy.min_deleted_rows:
        return NotDue(f"{found} < {policy.min_deleted_rows}")
    return Due(f"{found} >= {policy.min_deleted_rows}")


def evaluate_cleanup(policy: CleanupPolicy, old: OldVersions) -> Verdict:
    """Return :class:`Due` if enough versions exceed both limits of the policy and are not used by a tag or a branch."""
    found = f"{amount(old.versions, 'version')}, {len(old.removable)} removable"
    if len(old.removable) >= policy.min_old_versions:
        return Due(f"{found} >= {policy.min_old_versions}", subject=f"up to {old.removable[-1]}")
    details = [f"keeping {newest_versions(policy)}"]
    if old.named:
        details.append(f"{old.named} tagged or used by a branch")
    if old.too_recent:
        details.append(f"{old.too_recent} within the retention period of {format_duration(policy.retention)}")
    if old.next_at is not None:
        details.append(f"the next can be removed at {datetime.fromtimestamp(old.next_at, UTC):%Y-%m-%d %H:%M:%S} UTC")
    return NotDue(f"{found} < {policy.min_old_versions} ({'; '.join(details)})")


def evaluate_indices(policy: IndexPolicy | None, forecast: IndexForecast) -> Verdict:
    """Return :class:`Due` if a declared index can be built, or if an index does not cover enough rows or fragments.

    Args:
        policy: the policy; None if it is disabled.
        forecast: the plan of ``optimize_indices``.
    """
    if policy is None:
        return NotDue("index maintenance is disabled")
    building = [work for work in forecast.works if work.action is not IndexAction.UPDATE]
    if building:
        return _index_verdict(forecast, f"{building[0].name}: {building[0].reason}", is_due=True)
    if not forecast.works:
        covered = (
            f"{amount(len(forecast.coverage), 'index', 'indices')} up to date" if forecast.coverage else "no indices"
        )
        return NotDue("; ".join([covered, *forecast.waiting]))
    rows = max(forecast.works, key=lambda work: work.unindexed_rows)
    if rows.unindexed_rows >= policy.min_unindexed_rows:
        reason = f"{rows.name}: {amount(rows.unindexed_rows, 'unindexed row')} >= {policy.min_unindexed_rows}"
        return _index_verdict(forecast, reason, is_due=True)
    fragments = max(forecast.works, key=lambda work: work.unindexed_fragments)
    found = f"{amount(fragments.unindexed_fragments, 'unindexed fragment')}"
    if fragments.unindexed_fragments >= policy.min_unindexed_fragments:
        reason = f"{fragments.name}: {found} >= {policy.min_unindexed_fragments}"
        return _index_verdict(forecast, reason, is_due=True)
    next_name = "," if rows.unindexed_fragments == fragments.unindexed_fragments else f"; {fragments.name}:"
    reason = (
        f"{rows.name}: {amount(rows.unindexed_rows, 'unindexed row')} < {policy.min_unindexed_rows}{next_name} {found} "
        f"< {policy.min_unindexed_fragments}"
    )
    return _index_verdict(forecast, reason, is_due=False)


def _index_verdict(forecast: IndexForecast, reason: str, *, is_due: bool) -> Verdict:
    if not is_due:
        return NotDue("; ".join([reason, *forecast.waiting]))
    # Installing pylance changes neither the dataset nor its policy.
    return NotDue(f"{reason}, but {forecast.problem}", is_lasting=False) if forecast.problem else Due(reason)
