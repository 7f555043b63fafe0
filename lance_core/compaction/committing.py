"""Committing executed tasks: those that still fit, all or none, or those that this process has just executed.

The commit itself is described in :mod:`~lance_core.compaction.landing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.compaction.landing import Landing
from lance_core.compaction.result import RewriteCommit
from lance_core.write.new_data_file import remove_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.compaction.result import RewriteResult
    from lance_core.scan.table_view import Handle

__all__ = ["RewriteCommit", "commit_all_rewrites", "commit_own_rewrites", "commit_rewrites"]


def commit_rewrites(
    dataset: Handle,
    rewrites: Iterable[RewriteResult],
    *,
    transaction_properties: Mapping[str, str] | None = None,
) -> RewriteCommit:
    """Commit the groups that no other writer changed since they were planned; the handle shows the new version.

    Calling it again with the same results is safe: committed groups are not committed again.

    Args:
        dataset: any version of the dataset.
        rewrites: the results of the tasks of a plan; for several plans, the oldest version counts.
        transaction_properties: kept with the Rewrite.

    Raises:
        InvalidInputError: two results rewrite one fragment or share a new file, a new file belongs to the dataset
            already or differs from its record, or a result was planned on a version that never existed.
        NotFoundError: a new file is missing.
        NotSupportedError: the table cannot be rewritten here.
        TooMuchWriteContentionError: every attempt lost its race.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and nothing was made.
    """
    return Landing(dataset, rewrites, transaction_properties, checks_files=True).run()


def commit_own_rewrites(
    dataset: Handle, rewrites: Iterable[RewriteResult], transaction_properties: Mapping[str, str] | None
) -> RewriteCommit:
    """Like :func:`commit_rewrites`, for results that only this process has.

    The new files need not be looked at. After a failure or an interrupt they are removed, unless a version may name
    them.
    """
    landing: Landing | None = None
    results = list(rewrites)
    try:
        landing = Landing(dataset, results, transaction_properties, checks_files=False)
        return landing.run()
    except BaseException:
        if landing is not None:
            landing.remove_files()
        else:
            names = [name for result in results for name in result.new_file_names()]
            remove_data_files(dataset.view.log.store, dataset.view.log.root, names)
        raise


def commit_all_rewrites(
    dataset: Handle, rewrites: Iterable[RewriteResult], transaction_properties: Mapping[str, str] | None = None
) -> RewriteCommit:
    """Commit every group or none; otherwise as :func:`commit_rewrites`.

    Raises:
        RetryableCommitConflictError: a group was touched. Its new files are removed, those of the others are not.
    """
    return Landing(dataset, rewrites, transaction_properties, checks_files=True).run(all_or_none=True)
