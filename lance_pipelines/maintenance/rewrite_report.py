"""The report of a rewriting job: statistics of the job, and of the version that it created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import lance_core
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.plan_table import amount, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core import FragmentMetadata
    from lance_pipelines.maintenance.policy import MaintenancePolicy
    from lance_pipelines.maintenance.rewrite_commit import RewriteOutcome
    from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite

__all__ = ["RewriteReport", "left_by_time", "report_rewrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteReport:
    """Statistics of one rewriting job.

    Attributes:
        uri: the dataset's location.
        op: the operation, for example ``compact``.
        before: statistics of the version that the plan is based on.
        after: statistics of the version that the job created.
        groups: number of groups of fragments that were replaced.
        groups_unfinished: number of groups that conflicted in every round; the next run tries again.
        groups_left: number of groups that were not started within ``max_duration``; the next run plans them again.
        fragments_removed: number of fragments that were replaced.
        fragments_added: number of fragments that replace them.
        rows_rewritten: number of rows in the new fragments.
        deleted_rows_removed: number of deleted rows that the old fragments still contained.
        bytes_rewritten: total size of the data files written, in bytes.
        bytes_superseded: total size of the old data files, in bytes; a cleanup removes these files together with the
            versions that reference them.
        commit_attempts: number of commit attempts.
        conflicts: number of groups that conflicted with other writers, summed over the rounds.
        rounds: number of commit rounds.
        repeated: True if an earlier attempt had committed the whole rewrite.
    """

    uri: str
    op: str
    before: TableHealth
    after: TableHealth
    groups: int
    groups_unfinished: int
    groups_left: int
    fragments_removed: int
    fragments_added: int
    rows_rewritten: int
    deleted_rows_removed: int
    bytes_rewritten: int
    bytes_superseded: int
    commit_attempts: int
    conflicts: int
    rounds: int
    repeated: bool

    @property
    def version(self) -> int:
        """The version after the job."""
        return self.after.version

    @property
    def has_changed(self) -> bool:
        """Whether anything was replaced."""
        return self.groups > 0

    @property
    def effect(self) -> Effect:
        """What the run did."""
        return Effect(
            op=self.op,
            version_before=self.before.version,
            version_after=self.after.version,
            before=self.before.contents,
            after=self.after.contents,
            has_changed=self.has_changed,
            bytes_written=self.bytes_rewritten,
        )

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics of the job for an event, without the version's statistics, which every event has."""
        return {
            "lance/summary": self.headline(),
            "lance/read_version": self.before.version,
            "lance/groups": self.groups,
            "lance/groups_unfinished": self.groups_unfinished,
            "lance/groups_left": self.groups_left,
            "lance/fragments_before": self.before.fragments,
            "lance/fragments_removed": self.fragments_removed,
            "lance/fragments_added": self.fragments_added,
            "lance/rows_rewritten": self.rows_rewritten,
            "lance/deleted_rows_removed": self.deleted_rows_removed,
            "lance/bytes_rewritten": self.bytes_rewritten,
            "lance/bytes_superseded": self.bytes_superseded,
            "lance/bytes_reclaimed": 0,
            "lance/commit_attempts": self.commit_attempts,
            "lance/conflicts": self.conflicts,
            "lance/commit_rounds": self.rounds,
            "lance/committed_earlier": self.repeated,
        }

    def headline(self) -> str:
        """Return the summary of the event: what changed, and the version."""
        merged = f"{self.fragments_removed} → {amount(self.fragments_added, 'fragment')}"
        dropped = f", {amount(self.deleted_rows_removed, 'deleted row')} dropped" if self.deleted_rows_removed else ""
        left = f", {amount(self.groups_left, 'group')} left" if self.groups_left else ""
        return f"{self.op}: {merged}{dropped}{left}, v{self.after.version}"

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        place = f"{self.uri} version {self.after.version}"
        if not self.has_changed:
            return f"{place}: nothing left to do; other writers replaced the fragments in the meantime"
        line = (
            f"{place}: {amount(self.fragments_removed, 'fragment')} ({format_bytes(self.bytes_superseded)}) "
            f"rewritten into {self.fragments_added} ({format_bytes(self.bytes_rewritten)}), "
            f"{amount(self.deleted_rows_removed, 'deleted row')} dropped; the table has "
            f"{amount(self.after.fragments, 'fragment')}"
        )
        if self.groups_unfinished:
            line += (
                f"; {amount(self.groups_unfinished, 'group')} could not be committed because of conflicts with other "
                "writers; the next run tries again"
            )
        if self.groups_left:
            line += f"; {left_by_time(self.groups_left)}"
        return line


def left_by_time(groups: int) -> str:
    """Return how many groups were not started in time, in words."""
    return f"max_duration was reached, so the next run must rewrite {amount(groups, 'group')} of fragments"


def report_rewrite(
    planned: PlannedRewrite,
    outcome: RewriteOutcome,
    policy: MaintenancePolicy,
    *,
    storage_options: dict[str, str] | None = None,
) -> RewriteReport:
    """Return the report of a commit step; reads a manifest, but no data files."""
    written = [fragment for result in outcome.committed for fragment in result.new_fragments]
    read = [fragment for result in outcome.committed for fragment in result.original_fragments]
    # Fragments written by one round and merged by a later one are neither old fragments nor remaining ones.
    old = _without(read, written)
    new = _without(written, read)
    dataset = lance_core.dataset(planned.uri, version=outcome.version, storage_options=storage_options)
    return RewriteReport(
        uri=planned.uri,
        op=planned.op,
        before=planned.before,
        after=TableHealth.of(dataset, policy),
        groups=len(outcome.committed),
        groups_unfinished=outcome.unfinished,
        groups_left=outcome.left,
        fragments_removed=len(old),
        fragments_added=len(new),
        rows_rewritten=sum(fragment.num_rows for fragment in new),
        deleted_rows_removed=sum(fragment.num_deletions for fragment in old),
        bytes_rewritten=_num_bytes(written),
        bytes_superseded=_num_bytes(old),
        commit_attempts=outcome.attempts,
        conflicts=outcome.conflicts,
        rounds=outcome.rounds,
        repeated=bool(outcome.committed) and outcome.attempts == 0,
    )


def _without(fragments: Iterable[FragmentMetadata], others: Iterable[FragmentMetadata]) -> list[FragmentMetadata]:
    names = {file.path for fragment in others for file in fragment.files}
    return [fragment for fragment in fragments if names.isdisjoint(file.path for file in fragment.files)]


def _num_bytes(fragments: Iterable[FragmentMetadata]) -> int:
    return sum(file.file_size_bytes or 0 for fragment in fragments for file in fragment.files)
