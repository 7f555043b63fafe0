"""The report of a cleanup: what was removed, and where the removal deviated from the plan."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from lance_core.errors import StorageError
from lance_core.metadata import FileKind
from lance_pipelines.maintenance.cleanup_plan import FileTotals, files_left_alone
from lance_pipelines.maintenance.effect import Effect
from lance_pipelines.maintenance.plan_table import amount, format_bytes

if TYPE_CHECKING:
    from lance_core.metadata import ClassifiedPath, CleanupPlan, CleanupStats

__all__ = ["CleanupReport"]

_NAMED_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """Statistics of one cleanup.

    Attributes:
        uri: the dataset's location.
        plan: the plan of the cleanup.
        stats: statistics of what was removed.
    """

    uri: str
    plan: CleanupPlan
    stats: CleanupStats

    @property
    def op(self) -> str:
        """The operation."""
        return "cleanup"

    @property
    def version(self) -> int:
        """The latest version."""
        return self.plan.read_version

    @property
    def has_changed(self) -> bool:
        """Whether anything was removed."""
        return bool(self.stats.bytes_removed or self._files_removed)

    @property
    def _files_removed(self) -> int:
        stats = self.stats
        return (
            stats.old_versions
            + stats.data_files_removed
            + stats.deletion_files_removed
            + stats.transaction_files_removed
            + stats.index_files_removed
            + stats.residue_files_removed
        )

    @property
    def effect(self) -> Effect:
        """What the run did."""
        found = FileTotals.of(self.plan.paths)
        left = FileTotals(found.files - self._files_removed, found.num_bytes - self.stats.bytes_removed)
        return Effect(
            op=self.op,
            version_before=self.plan.read_version,
            version_after=self.plan.read_version,
            before=found.contents(),
            after=left.contents(),
            has_changed=self.has_changed,
            bytes_reclaimed=self.stats.bytes_removed,
        )

    @property
    def versions(self) -> int:
        """Number of remaining versions."""
        return len(self.plan.kept_versions) + len(self.plan.removed_versions) - self.stats.old_versions

    def metadata(self) -> dict[str, int | float | str]:
        """Return the metrics for an event."""
        stats = self.stats
        everything = FileTotals.of(self.plan.paths)
        return {
            "lance/summary": self.headline(),
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
            **files_left_alone(self.plan),
        }

    def headline(self) -> str:
        """Return the summary of the event: what was removed, and the latest version."""
        stats = self.stats
        sign = "-" if stats.old_versions else ""
        removed = f"{sign}{amount(stats.old_versions, 'version')}, {format_bytes(stats.bytes_removed)} reclaimed"
        return f"cleanup: {removed}, v{self.plan.read_version}"

    def warnings(self) -> list[str]:
        """Return messages about deviations from the plan; empty if there are none."""
        found = []
        if self.stats.failed_deletes:
            found.append(f"{self._failed()}; the next cleanup tries again")
        if self.stats.damaged_versions:
            versions = amount(self.stats.damaged_versions, "version")
            found.append(
                f"the cleanup had already removed files of {versions} when a tag, a branch, or a commit began to use "
                "those files"
            )
        return found

    def require_progress(self) -> None:
        """Fail if the cleanup could not remove anything.

        Raises:
            StorageError: none of the files could be removed.
        """
        if self.stats.failed_deletes and not self.has_changed:
            raise StorageError(
                f"{self.uri}: nothing was removed; {self._failed()}",
                uri=self.uri,
                failed_deletes=self.stats.failed_deletes,
            )

    def _failed(self) -> str:
        left = _files_left_of(self.plan, _NAMED_FILES)
        failed = f"{amount(self.stats.failed_deletes, 'file')} could not be removed"
        if not left:
            return failed
        more = ", …" if self.stats.failed_deletes > len(left) else ""
        return f"{failed}: {', '.join(left)}{more}"

    def summary(self) -> str:
        """Return one line for logs and terminals."""
        stats = self.stats
        place = f"{self.uri} version {self.plan.read_version}"
        if not self.has_changed and not stats.failed_deletes:
            return f"{place}: nothing to do ({amount(self.versions, 'version')})"
        line = (
            f"{place}: {amount(stats.old_versions, 'old version')} removed, {self.versions} remaining; "
            f"{amount(stats.data_files_removed, 'data file')} and "
            f"{amount(stats.deletion_files_removed, 'deletion file')} removed, {format_bytes(stats.bytes_removed)} "
            "reclaimed"
        )
        if stats.failed_deletes:
            line += f"; {amount(stats.failed_deletes, 'file')} could not be removed; the next cleanup tries again"
        return line


def _files_left_of(plan: CleanupPlan, max_files: int) -> list[str]:
    """Return paths of files that should have been removed but still exist.

    A manifest is kept as long as a file of its version exists; therefore, manifests are returned only if no such file
    exists.

    Args:
        plan: an executed plan.
        max_files: the maximum number of paths.
    """
    files: list[ClassifiedPath] = []
    manifests: list[ClassifiedPath] = []
    for file in plan.removable:
        (manifests if file.kind is FileKind.MANIFEST else files).append(file)
    for found in (files, manifests):
        left = list(islice((file.path for file in found if plan.still_exists(file)), max_files))
        if left:
            return left
    return []
