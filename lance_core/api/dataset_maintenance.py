"""The verbs of a dataset that keep it small and fast: tags, compaction, removal of old versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.cleanup.plan import DEFAULT_MAX_FILES, plan_for
from lance_core.cleanup.policy import CleanupPolicy
from lance_core.refs.tags import Tags
from lance_core.scan.dataset_handle import DatasetHandle

if TYPE_CHECKING:
    from datetime import timedelta

    from lance_core.cleanup.records import CleanupExplanation, CleanupStats
    from lance_core.compaction.optimizer import DatasetOptimizer

__all__ = ["DatasetMaintenance"]


class DatasetMaintenance(DatasetHandle):
    """What can be done to keep a dataset in shape."""

    @property
    def tags(self) -> Tags:
        """The dataset's tags. A tagged version is never cleaned up."""
        return Tags(self.log, self.manifest)

    @property
    def optimize(self) -> DatasetOptimizer:
        """Compaction: fewer and larger fragments without deleted rows."""
        # Imported late: most handles only read.
        from lance_core.compaction.optimizer import DatasetOptimizer

        return DatasetOptimizer(self)

    def cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        delete_concurrency: int | None = None,
    ) -> CleanupStats:
        """Remove old versions, and the files that no version refers to.

        The terms are joined by "and". The version of this handle and everything newer stays, and so do tagged versions
        and those that a branch still uses. A branch is cleaned up by a handle on it; shallow clones are not known.
        Files that no version has ever referred to go when they are 7 days old.

        Args:
            older_than: only versions committed longer ago; two weeks when no term is given.
            retain_versions: keep the newest that many.
            delete_unverified: remove files that no version has ever referred to at any age. Only safe when
                nobody else writes.
            error_if_tagged_old_versions: refuse when a tagged version matches the policy, instead of leaving it out.
            delete_rate_limit: deletions per second.
            versions: only these versions.
            delete_concurrency: deletions at a time.

        Raises:
            InvalidCleanupError: a term is out of its range, or a tagged version matches the policy.
            CorruptDataError: a manifest, a tag or a branch cannot be read; nothing was removed.
            StorageError: a storage operation failed.
        """
        policy = CleanupPolicy.of(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            versions=versions,
            delete_concurrency=delete_concurrency,
        )
        return plan_for(self.log, self.manifest, policy).execute()

    def explain_cleanup_old_versions(
        self,
        older_than: timedelta | None = None,
        retain_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        delete_rate_limit: int | None = None,
        versions: list[int] | None = None,
        include_files: bool = False,
        max_files: int = DEFAULT_MAX_FILES,
    ) -> CleanupExplanation:
        """What :meth:`cleanup_old_versions` would remove; nothing is changed.

        Args:
            older_than: as there.
            retain_versions: as there.
            delete_unverified: as there.
            error_if_tagged_old_versions: as there.
            delete_rate_limit: has no effect.
            versions: as there.
            include_files: whether to list files.
            max_files: how many at most.

        Raises:
            InvalidCleanupError: a term is out of its range, or a tagged version matches the policy.
            CorruptDataError: a manifest, a tag or a branch cannot be read.
            StorageError: a storage operation failed.
        """
        policy = CleanupPolicy.of(
            older_than,
            retain_versions,
            delete_unverified=delete_unverified,
            error_if_tagged_old_versions=error_if_tagged_old_versions,
            delete_rate_limit=delete_rate_limit,
            versions=versions,
        )
        plan = plan_for(self.log, self.manifest, policy)
        return plan.explanation(include_files=include_files, max_files=max_files)
