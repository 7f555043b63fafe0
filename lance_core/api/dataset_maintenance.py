"""The maintenance methods of a dataset: tags, compaction, removal of old versions."""

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
    """The maintenance methods of a dataset."""

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

        The options are combined with "and". The version of this handle and all newer ones are kept, and so are tagged
        versions and those that a branch still uses. A branch is cleaned up through a handle on it; shallow clones are
        not taken into account. Files that no version has ever referenced are removed when they are 7 days old.

        Args:
            older_than: only versions older than this; two weeks if no option is given.
            retain_versions: keep this many of the newest versions.
            delete_unverified: remove files that no version has ever referred to at any age. Only safe when
                nobody else writes.
            error_if_tagged_old_versions: fail when a tagged version matches, instead of keeping it.
            delete_rate_limit: deletions per second.
            versions: only these versions.
            delete_concurrency: deletions at a time.

        Raises:
            InvalidCleanupError: an option is out of range, or a tagged version matches.
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
            older_than: see :meth:`cleanup_old_versions`.
            retain_versions: see :meth:`cleanup_old_versions`.
            delete_unverified: see :meth:`cleanup_old_versions`.
            error_if_tagged_old_versions: see :meth:`cleanup_old_versions`.
            delete_rate_limit: has no effect.
            versions: see :meth:`cleanup_old_versions`.
            include_files: whether to list files.
            max_files: the maximum number.

        Raises:
            InvalidCleanupError: an option is out of range, or a tagged version matches.
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
