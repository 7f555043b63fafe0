"""Committing outside the lineage: :func:`lance_core.commit.commit.commit` for detached versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.commit.commit import commit_settings, manifest_of, with_hidden_columns
from lance_core.commit.draft_completion import DraftCompletion
from lance_core.commit.preflight import check_storage
from lance_core.errors import DatasetNotFoundError, NotSupportedError, VersionNotFoundError
from lance_core.transactions.detached import DetachedCommit

if TYPE_CHECKING:
    from lance_core.commit.options import CommitOptions
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.transaction import Transaction

__all__ = ["commit_outside_lineage"]


def commit_outside_lineage(
    log: VersionLog, transaction: Transaction, options: CommitOptions, *, known: Manifest | None = None
) -> Manifest:
    """Make a detached version and return its manifest; arguments as for ``commit``.

    Raises:
        NotSupportedError: the dataset does not exist yet, or uses V1 manifest names.
        DatasetNotFoundError: there is no dataset.
        VersionNotFoundError: there is no such read version.
        InvalidInputError: the fragments do not fit the dataset.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and nothing was made.
    """
    if transaction.read_version == 0 or transaction.operation.is_first_of_its_root:
        raise NotSupportedError(
            f"{log.root}: a detached version needs an existing version to build on; give a read version"
        )
    commit_settings(transaction, options, known=known)
    try:
        attempt = DetachedCommit(log, transaction, known)
    except VersionNotFoundError as error:
        if log.latest() is None:
            raise DatasetNotFoundError(f"there is no dataset at {log.root}", path=log.root) from error
        raise
    draft = with_hidden_columns(attempt.build, log, transaction.operation, attempt.current, options)
    check_storage(log, transaction, options, attempt.current)
    DraftCompletion(log, transaction.operation, options).complete(draft)
    return manifest_of(attempt.land(draft), log.root)
