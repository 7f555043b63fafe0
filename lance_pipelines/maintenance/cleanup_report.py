"""What a cleanup will remove, and what it has removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from lance_core.errors import StorageError
from lance_core.metadata import FileKind, PathState
from lance_pipelines.maintenance.plan_table import Figure, amount, format_bytes, format_duration, render_plan
from lance_pipelines.maintenance.planned_cleanup import files_left_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.metadata import ClassifiedPath, CleanupPlan, CleanupStats
    from lance_pipelines.maintenance.policy import CleanupPolicy

__all__ = ["CleanupForecast", "CleanupReport", "FileTotals"]

_NAMED_FILES = 3

_SHOWN_KINDS = (
    ("data files", FileKind.DATA),
    ("deletion files", FileKind.DELETION),
    ("transaction files", FileKind.TRANSACTION),
)


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Number and bytes of some files."""

    files: int
    num_bytes: int

    @classmethod
    def of(cls, paths: Iterable[ClassifiedPath]) -> Self:
        """Count files."""
        listed = list(paths)
        return cls(len(listed), sum(path.num_bytes for path in listed))


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupForecast:
    """A planned cleanup.

    Attributes:
        uri: the dataset's location.
        policy: which versions are removed.
        rows: rows of the latest version; a cleanup does not change them.
        plan: every file below the root, and whether it is kept or removed.
    """

    uri: str
    policy: CleanupPolicy
    rows: int
    plan: CleanupPlan

    @property
    def has_work(self) -> bool:
        """Whether anything is to be removed."""
        return bool(self.plan.removable)

    @property
    def versions(self) -> int:
        """Versions that exist."""
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
            **_left_alone(self.plan),
        }

    def headline(self) -> str:
        """One line that describes the plan."""
        place = f"{self.uri} version {self.plan.read_version}"
        terms = f"the newest {self.policy.retain_versions}"
        if self.policy.retention:
            terms += f" and all of the last {format_duration(self.policy.retention)}"
        if not self.has_work:
            return f"{place}: nothing to do ({amount(self.versions, 'version')}; {terms} are kept)"
        removable = FileTotals.of(self.plan.removable)
        return (
            f"{place}: {len(self.plan.removed_versions)} of {amount(self.versions, 'version')}, "
            f"{amount(removable.files, 'file')} ({format_bytes(removable.num_bytes)}) will be removed; {terms} are kept"
        )

    def table(self) -> str:
        """Return the output of a dry run."""
        plan = self.plan
        lines = [
            Figure("versions", self.versions, len(plan.kept_versions)),
            Figure("rows of the latest version", self.rows, self.rows),
            *(_figure(name, plan, kind) for name, kind in _SHOWN_KINDS),
            _figure("all files", plan, None),
        ]
        everything, removable = FileTotals.of(plan.paths), FileTotals.of(plan.removable)
        remaining = everything.num_bytes - removable.num_bytes
        lines.append(Figure("bytes on storage", everything.num_bytes, remaining, is_bytes=True))
        notes = [f"Note: {warning}." for warning in plan.warnings()]
        return render_plan(f"cleanup {self.headline()}", lines, [*notes, "Dry run: nothing was changed."])


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """Statistics of one cleanup.

    Attributes:
        uri: the dataset's location.
        plan: what was to be removed.
        stats: what was removed.
    """

    uri: str
    plan: CleanupPlan
    stats: CleanupStats

    @property
    def has_changed(self) -> bool:
        """Whether anything was removed."""
        stats = self.stats
        return any(
            (
                stats.bytes_removed,
                stats.old_versions,
                stats.data_files_removed,
                stats.deletion_files_removed,
                stats.transaction_files_removed,
                stats.index_files_removed,
                stats.residue_files_removed,
            )
        )

    @property
    def versions(self) -> int:
        """Versions that are left."""
        return len(self.plan.kept_versions) + len(self.plan.removed_versions) - self.stats.old_versions

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        stats = self.stats
        everything = FileTotals.of(self.plan.paths)
        return {
            "lance/versions_removed": stats.old_versions,
            "lance/versions_spared": stats.spared_versions,
            "lance/versions_damaged": stats.damaged_versions,
            "lance/data_files_removed": stats.data_files_removed,
            "lance/deletion_files_removed": stats.deletion_files_removed,
            "lance/transaction_files_removed": stats.transaction_files_removed,
            "lance/index_files_removed": stats.index_files_removed,
            "lance/failed_deletes": stats.failed_deletes,
            "lance/bytes_rewritten": 0,
            "lance/bytes_reclaimed": stats.bytes_removed,
            "lance/storage_bytes": everything.num_bytes - stats.bytes_removed,
            "lance/commit_attempts": 0,
            "lance/conflicts": 0,
            **_left_alone(self.plan),
        }

    def warnings(self) -> list[str]:
        """Messages about what was not removed as planned; empty when everything was."""
        found = []
        if self.stats.failed_deletes:
            found.append(f"{self._failed()}; the next run tries again")
        if self.stats.damaged_versions:
            versions = amount(self.stats.damaged_versions, "version")
            found.append(
                f"{versions} got a tag, a branch or a commit too late: some of their files had already been removed"
            )
        return found

    def require_progress(self) -> None:
        """Fail if the cleanup could not remove anything.

        Raises:
            StorageError: none of the files could be removed.
        """
        if self.stats.failed_deletes and not self.has_changed:
            raise StorageError(
                f"{self.uri}: nothing could be removed, {self._failed()}",
                uri=self.uri,
                failed_deletes=self.stats.failed_deletes,
            )

    def _failed(self) -> str:
        left = files_left_of(self.plan, _NAMED_FILES)
        more = ", …" if self.stats.failed_deletes > len(left) else ""
        return f"{amount(self.stats.failed_deletes, 'file')} could not be removed: {', '.join(left)}{more}"

    def summary(self) -> str:
        """One line for logs and terminals."""
        stats = self.stats
        place = f"{self.uri} version {self.plan.read_version}"
        if not self.has_changed and not stats.failed_deletes:
            return f"{place}: nothing to do, {amount(self.versions, 'version')}"
        line = (
            f"{place}: {amount(stats.old_versions, 'old version')} removed, {self.versions} left; "
            f"{amount(stats.data_files_removed, 'data file')}, "
            f"{amount(stats.deletion_files_removed, 'deletion file')}, {format_bytes(stats.bytes_removed)} reclaimed"
        )
        if stats.failed_deletes:
            line += f"; {amount(stats.failed_deletes, 'file')} could not be removed; the next run tries again"
        return line


def _figure(name: str, plan: CleanupPlan, kind: FileKind | None) -> Figure:
    found = [path for path in plan.paths if kind is None or path.kind is kind]
    going = sum(path.state is PathState.REMOVABLE for path in found)
    return Figure(name, len(found), len(found) - going)


def _left_alone(plan: CleanupPlan) -> dict[str, int]:
    unrecognized, residue, protected = map(FileTotals.of, (plan.unrecognized, plan.residue, plan.protected))
    return {
        "lance/unrecognized_files": unrecognized.files,
        "lance/unrecognized_bytes": unrecognized.num_bytes,
        "lance/residue_files": residue.files,
        "lance/residue_bytes": residue.num_bytes,
        "lance/protected_files": protected.files,
        "lance/protected_bytes": protected.num_bytes,
    }
