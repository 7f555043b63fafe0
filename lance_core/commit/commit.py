"""Commits a user's operation as a new version, which may be detached, and returns the manifest of that version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lance_core.cleanup.automatic import clean_up_after
from lance_core.commit.checks import check_storage
from lance_core.commit.draft_completion import DraftCompletion
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    CommitOvertakenError,
    DatasetNotFoundError,
    IncompatibleTransactionError,
    NotSupportedError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.places.location import open_log
from lance_core.scan.early_fragments import with_row_counts
from lance_core.table.base_paths import FileLocator
from lance_core.table.inner_bases import refuse_inner_bases
from lance_core.table.paths import is_detached_version
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.detached import DetachedCommit
from lance_core.transactions.operations.operation import NewTable
from lance_core.transactions.optimistic_commit import OptimisticCommit
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Conflicted,
    Contended,
    NotCreated,
    Overtaken,
    TableExists,
    Unknown,
)
from lance_core.transactions.public_transaction import transaction_to_core, with_index_files, with_known_field_ids
from lance_core.transactions.transaction import Transaction, new_uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.scan.table_view import Destination, TableView
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.operations.operation import Operation
    from lance_core.transactions.public_transaction import Transaction as PublicTransaction

__all__ = ["commit", "commit_change", "commit_outside_lineage", "commit_requested"]


def commit(
    log: VersionLog, transaction: Transaction, options: CommitOptions, *, known: Manifest | None = None
) -> Manifest:
    """Commit a transaction and return the manifest of the version that it creates.

    Old versions are cleaned up afterward if the config of the new version requires it.

    Args:
        log: the dataset's versions.
        transaction: the transaction to commit.
        options: the options of the commit.
        known: the manifest of the read version, if the caller has already read it.

    Raises:
        DatasetNotFoundError: no dataset exists, and the operation does not create one.
        AlreadyExistsError: the dataset already exists, and ``create_only`` is set.
        InvalidInputError: the fragments are incompatible with the dataset (see :mod:`~lance_core.commit.checks`).
        RetryableCommitConflictError: the change conflicts with a later version; plan the change again.
        IncompatibleTransactionError: a later version invalidates the change.
        CommitOvertakenError: the version was created too late, for example after a cleanup had removed another version
            with the same number; the new version is not part of the table.
        TooMuchWriteContentionError: other writers committed first, until the maximum number of attempts or the time
            limit was reached.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and no version was created.
    """
    if is_detached_version(transaction.read_version):
        raise NotSupportedError(
            f"{log.uri}: version {transaction.read_version} is detached; only another detached version can be "
            "committed on top of it",
            version=transaction.read_version,
        )
    refuse_inner_bases(log.root, [base.path for base in transaction.operation.added_bases()])
    transaction = with_index_files(log, transaction)
    if known is not None and not transaction.operation.is_first_of_its_root:
        # If the row counts of fragments were never recorded, those of the operation are compared with the data files.
        known = with_row_counts(known, FileLocator(log.store, log.root, known.base_paths, options.storage_options))
    template = _template(transaction, options, known)
    try:
        outcome = _run(log, transaction, options, template, known)
    except VersionNotFoundError as error:
        if log.latest() is None:
            raise DatasetNotFoundError(
                f"no dataset exists at {log.uri}; to create one, commit an Overwrite without a read version",
                path=log.root,
            ) from error
        raise
    manifest = _manifest_of(outcome, log.root)
    if isinstance(outcome, Committed) and not transaction.operation.is_first_of_its_root:
        clean_up_after(log, manifest)
    return manifest


def commit_outside_lineage(
    log: VersionLog, transaction: Transaction, options: CommitOptions, *, known: Manifest | None = None
) -> Manifest:
    """Create a detached version and return its manifest. The arguments are the same as for :func:`commit`.

    Raises:
        NotSupportedError: the transaction has no read version or creates a dataset, or the dataset uses V1 manifest
            names.
        DatasetNotFoundError: no dataset exists at this location.
        VersionNotFoundError: the read version does not exist.
        InvalidInputError: the fragments are incompatible with the dataset.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and no version was created.
    """
    if transaction.operation.is_first_of_its_root:
        raise NotSupportedError(f"{log.uri}: a clone is the first version of a dataset, so it cannot be detached")
    if transaction.read_version == 0:
        raise NotSupportedError(
            f"{log.uri}: a detached version must be based on an existing version; specify a read version"
        )
    try:
        attempt = DetachedCommit(log, transaction, known)
    except VersionNotFoundError as error:
        if log.latest() is None:
            raise DatasetNotFoundError(f"no dataset exists at {log.uri}", path=log.root) from error
        raise
    completion = DraftCompletion(log, transaction.operation, options)
    draft = completion.build(attempt, attempt.current)
    check_storage(log, transaction, options, attempt.current)
    completion.complete(draft)
    return _manifest_of(attempt.create(draft), log.root)


def commit_change(
    view: TableView,
    operation: Operation,
    options: CommitOptions | None = None,
    *,
    read_version: int | None = None,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
) -> TableView:
    """Commit a change that was planned on a version, and return a view of the new version.

    Args:
        view: the version that the change was planned on.
        operation: the operation.
        options: the options of the commit; those that follow from the view are added. If None, the change is new, and
            refers to no newly written files.
        read_version: the read version to record in the transaction; if None, the version of the view.
        properties: properties of the transaction.
        transaction_uuid: the UUID of the transaction; a new one if None.

    Raises:
        LanceError: the commit failed; see :func:`commit`.
    """
    version = view.version if read_version is None else read_version
    transaction = Transaction(
        read_version=version,
        operation=operation,
        uuid=transaction_uuid or new_uuid(),
        properties=dict(properties or {}),
    )
    options = replace(options or CommitOptions(is_first_try=True), storage_options=view.storage_options)
    options.progress.line = view.line
    return view.showing(commit(view.log, transaction, options, known=view.counted_manifest))


def commit_requested(
    destination: Destination, requested: PublicTransaction, options: CommitOptions, *, detached: bool
) -> TableView:
    """Commit a user's transaction, and return a view of the version that it created, now or earlier.

    Args:
        destination: the dataset.
        requested: the transaction, possibly without field ids that the table determines.
        options: the options of the commit.
        detached: whether to create a detached version, as :func:`commit_outside_lineage` does.

    Raises:
        LanceError: the commit failed; see :func:`commit` and :func:`commit_outside_lineage`.
    """
    log, known = destination.log, destination.manifest
    transaction = transaction_to_core(with_known_field_ids(requested, log, known))
    make = commit_outside_lineage if detached else commit
    return destination.showing(make(log, transaction, options, known=known), options.progress.line)


def _run(
    log: VersionLog, transaction: Transaction, options: CommitOptions, template: Manifest, known: Manifest | None
) -> CommitOutcome:
    """Run the steps of a commit; data files are read here, between the steps."""
    completion = DraftCompletion(log, transaction.operation, options)
    is_checked = False
    with OptimisticCommit(log, transaction, options, template, known) as attempts:
        while (current := attempts.advance()) is not None:
            draft = completion.build(attempts, current)
            if not is_checked:
                check_storage(log, transaction, options, current)
                is_checked = True
            completion.complete(draft)
            attempts.create(draft)
    return attempts.outcome


def _template(transaction: Transaction, options: CommitOptions, known: Manifest | None) -> Manifest:
    """Return the empty manifest from which the operation would start a new table."""
    operation, source = transaction.operation, None
    if operation.cloned_version is not None:
        root, version = operation.cloned_version
        source = known or open_log(root, options.storage_options).read_version(version)
    return operation.starting_point(
        NewTable(
            naming=options.naming,
            stable_row_ids=options.stable_row_ids,
            file_version=options.file_version,
            source=source,
        )
    )


def _manifest_of(outcome: CommitOutcome, root: str) -> Manifest:
    """Return the manifest of a successful outcome, or raise the exception for any other outcome."""
    match outcome:
        case Committed(manifest) | AlreadyCommitted(manifest):
            return manifest
        case Conflicted(verdict, version, reason, is_removed):
            kind = RetryableCommitConflictError if verdict is Verdict.RETRYABLE else IncompatibleTransactionError
            advice = (
                "plan the change again, based on that version"
                if verdict is Verdict.RETRYABLE
                else "the change cannot be applied to that version"
            )
            raise kind(
                f"{root}: the change conflicts with version {version}: {reason}; {advice}",
                path=root,
                version=version,
                is_removed=is_removed,
            )
        case Contended(num_attempts):
            raise TooMuchWriteContentionError(
                f"{root}: too much contention: other writers committed first each time "
                f"(number of attempts: {num_attempts}); this change was not committed",
                path=root,
                attempts=num_attempts,
            )
        case TableExists(version):
            raise AlreadyExistsError(
                f"a dataset already exists at {root} (version {version})", path=root, version=version
            )
        case NotCreated(cause):
            raise cause
        case Overtaken(version, latest):
            raise CommitOvertakenError(
                f"{root}: version {version} was created too late and is not part of the table. One of the following "
                "happened first: a cleanup removed another version with the same number, a cleanup removed the version "
                "to restore, the branch was recreated, or the table was migrated. The new version was removed or "
                f"reverted; repeat the operation on the latest version, {latest}",
                path=root,
                version=version,
                latest=latest,
            )
        case Unknown(version, cause, is_created):
            raise CommitOutcomeUnknownError(
                f"{root}: could not determine whether this commit created version {version}: {cause}; "
                "check the versions of the dataset before trying again",
                path=root,
                version=version,
                is_created=is_created,
            ) from cause
