"""The plan of a cleanup: its statistics, and the message from the step that plans to the step that removes files.

The plan itself is not part of the message. The step that removes files plans again while it holds the dataset's pool
slot: between the steps, a version may have been tagged or committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import lance_core.metadata
from lance_core.metadata import FileKind, PathState, plan_cleanup
from lance_pipelines.maintenance.effect import Contents, Effect
from lance_pipelines.maintenance.plan_table import PlanLine, amount, format_bytes, format_duration, render_plan
from lance_pipelines.maintenance.policy import CleanupPolicy, newest_versions
from lance_pipelines.progress import Progress
from lance_pipelines.step_messages import StepMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.metadata import ClassifiedPath, CleanupPlan, CleanupStats
    from lance_pipelines.progress import Report

__all__ = ["CleanupForecast", "FileTotals", "PlannedCleanup", "files_left_alone", "plan_removal", "remove_planned"]

_SHOWN_KINDS: Final = (
    ("data files", FileKind.DATA),
    ("deletion files", FileKind.DELETION),
    ("transaction files", FileKind.TRANSACTION),
)


def plan_removal(dataset: lance_core.LanceDataset, policy: CleanupPolicy) -> CleanupPlan:
    """Plan a removal of old versions as of the current time. Tagged versions are kept and do not cause an error.

    Args:
        dataset: the dataset at its latest version.
        policy: determines which versions are removed.
    """
    return plan_cleanup(
        dataset,
        lance_core.metadata.CleanupPolicy.of(
            older_than=policy.retention,
            retain_versions=policy.retain_versions,
            delete_unverified=policy.delete_unverified,
            error_if_tagged_old_versions=False,
        ),
    )


def remove_planned(plan: CleanupPlan, report: Report) -> CleanupStats:
    """Execute a plan, and report how many of its files have been removed."""
    planned = FileTotals.of(plan.removable)

    def on_batch(num_files: int, num_bytes: int) -> None:
        report(
            Progress(
                stage="removing files",
                tasks=num_files,
                total_tasks=planned.files,
                unit="files",
                num_bytes=num_bytes,
                total_bytes=planned.num_bytes,
            )
        )

    return plan.execute(on_batch)


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Number and total size of some files."""

    files: int
    num_bytes: int

    @classmethod
    def of(cls, paths: Iterable[ClassifiedPath]) -> Self:
        """Return the number and total size of the given files."""
        listed = list(paths)
        return cls(len(listed), sum(path.num_bytes for path in listed))

    def contents(self, rows: int | None = None) -> Contents:
        """Return the totals in the form that all maintenance jobs report."""
        return Contents(files=self.files, num_bytes=self.num_bytes, rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupForecast:
    """A planned cleanup.

    Attributes:
        uri: the dataset's location.
        policy: determines which versions are removed.
        rows: number of rows in the latest version; a cleanup does not change it.
        plan: the plan: every file below the root, and whether the file is kept or removed.
    """

    uri: str
    policy: CleanupPolicy
    rows: int
    plan: CleanupPlan

    @property
    def has_work(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.plan.removable)

    @property
    def no_effect(self) -> Effect:
        """The effect of a run with nothing to do."""
        return Effect.none("cleanup", self.plan.read_version, FileTotals.of(self.plan.paths).contents(rows=self.rows))

    @property
    def versions(self) -> int:
        """Number of existing versions."""
        return len(self.plan.kept_versions) + len(self.plan.removed_versions)

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        everything, removable = FileTotals.of(self.plan.paths), FileTotals.of(self.plan.removable)
        return {
            "lance/read_version": self.plan.read_version,
            "lance/rows": self.rows,
            "lance/versions": self.versions,
            "lance/versions_after": len(self.plan.kept_versions),
            "lance/files": everything.files,
            "lance/files_after": everything.files - removable.files,
            "lance/storage_bytes": everything.num_bytes,
            "lance/storage_bytes_after": everything.num_bytes - removable.num_bytes,
            **files_left_alone(self.plan),
        }

    def headline(self) -> str:
        """Return one line that describes the plan."""
        place = f"{self.uri} version {self.plan.read_version}"
        terms = newest_versions(self.policy)
        if self.policy.retention:
            terms += f" and all versions from the last {format_duration(self.policy.retention)}"
        if not self.has_work:
            return f"{place}: nothing to do ({amount(self.versions, 'version')}; the policy keeps {terms})"
        removable = FileTotals.of(self.plan.removable)
        return (
            f"{place}: {len(self.plan.removed_versions)} of {amount(self.versions, 'version')} and "
            f"{amount(removable.files, 'file')} ({format_bytes(removable.num_bytes)}) will be removed; "
            f"the policy keeps {terms}"
        )

    def table(self) -> str:
        """Return the output of a dry run."""
        plan = self.plan
        lines = [
            PlanLine("versions", self.versions, len(plan.kept_versions)),
            PlanLine("rows of the latest version", self.rows, self.rows),
            *(_line(name, plan, kind) for name, kind in _SHOWN_KINDS),
            _line("all files", plan, None),
        ]
        everything, removable = FileTotals.of(plan.paths), FileTotals.of(plan.removable)
        remaining = everything.num_bytes - removable.num_bytes
        lines.append(PlanLine("bytes in storage", everything.num_bytes, remaining, is_bytes=True))
        notes = [f"Note: {warning}." for warning in plan.warnings()]
        return render_plan(f"cleanup {self.headline()}", lines, [*notes, "Dry run: nothing was changed."])


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCleanup(StepMessage):
    """The message from the plan step to the step that removes files.

    Attributes:
        uri: the dataset's location.
        policy: determines which versions are removed.
        data_version: the data version, read before any version was removed.
    """

    uri: str
    policy: CleanupPolicy
    data_version: str


def files_left_alone(plan: CleanupPlan) -> dict[str, int]:
    """Return the metrics of files that the cleanup keeps although no version references them."""
    unrecognized, residue, protected = map(FileTotals.of, (plan.unrecognized, plan.possibly_needed, plan.protected))
    return {
        "lance/unrecognized_files": unrecognized.files,
        "lance/unrecognized_bytes": unrecognized.num_bytes,
        "lance/residue_files": residue.files,
        "lance/residue_bytes": residue.num_bytes,
        "lance/protected_files": protected.files,
        "lance/protected_bytes": protected.num_bytes,
    }


def _line(name: str, plan: CleanupPlan, kind: FileKind | None) -> PlanLine:
    found = [path for path in plan.paths if kind is None or path.kind is kind]
    going = sum(path.state is PathState.REMOVABLE for path in found)
    return PlanLine(name, len(found), len(found) - going)
