"""Committing: from a user's operation to a version, and from an outcome to an exception."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lance_core.cleanup.automatic import clean_up_after
from lance_core.commit.bases import declared_bases
from lance_core.commit.legacy_dictionaries import DictionaryAmendment
from lance_core.commit.preflight import storage_checks
from lance_core.commit.rewritten_index_files import with_index_files
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    CommitOvertakenError,
    DatasetNotFoundError,
    IncompatibleTransactionError,
    InvalidInputError,
    InvalidTypeError,
    NotSupportedError,
    RetryableCommitConflictError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.places.location import open_log
from lance_core.places.references import line_identity
from lance_core.public.arguments import whole_number
from lance_core.scan.early_fragments import rows_in_files, uncounted_fragments, with_row_counts
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.table.base_paths import BasePath, FileLocator
from lance_core.table.inner_bases import refuse_inner_bases
from lance_core.table.paths import is_detached_version
from lance_core.transactions.commit import commit_transaction
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.operation import NewTable
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Conflicted,
    Contended,
    NotLanded,
    Overtaken,
    TableExists,
    Unknown,
)
from lance_core.transactions.settings import CommitSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_core.commit.options import CommitOptions
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.table.version_log import VersionLog
    from lance_core.transactions.transaction import Transaction

__all__ = ["commit", "commit_settings", "manifest_of"]


def commit(
    log: VersionLog, transaction: Transaction, options: CommitOptions, *, known: Manifest | None = None
) -> Manifest:
    """Commit a transaction and return the manifest of its version.

    Old versions are cleaned up afterwards if the config of the new version asks for it.

    Args:
        log: the dataset's versions.
        transaction: what to commit.
        options: how.
        known: the manifest of the read version, when it is at hand.

    Raises:
        DatasetNotFoundError: there is no dataset, and the operation does not make one.
        AlreadyExistsError: a dataset exists that must not.
        InvalidInputError: the fragments do not fit the dataset (see ``commit_checks``).
        RetryableCommitConflictError: it conflicts with a later version; plan the change again.
        IncompatibleTransactionError: a later version invalidates the change.
        CommitOvertakenError: the version came too late, after a cleanup had freed its number, and was withdrawn.
        TooMuchWriteContentionError: every attempt lost its race.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed and nothing was made.
    """
    if is_detached_version(transaction.read_version):
        raise NotSupportedError(
            f"{log.root}: version {transaction.read_version} is detached; only another detached version can be "
            "committed on top of it",
            version=transaction.read_version,
        )
    refuse_inner_bases(log.root, declared_bases(transaction.operation))
    transaction = with_index_files(log, transaction)
    if known is not None and not transaction.operation.is_first_of_its_root:
        # What an operation claims of fragments that were never counted is compared with their files.
        known = with_row_counts(known, FileLocator(log.store, log.root, known.base_paths, options.storage_options))
    settings = commit_settings(log, transaction, options, known=known)
    try:
        outcome = commit_transaction(log, transaction, settings, known=known)
    except VersionNotFoundError as error:
        if log.latest() is None:
            raise DatasetNotFoundError(
                f"there is no dataset at {log.root}; only an Overwrite planned on no version creates one", path=log.root
            ) from error
        raise
    manifest = manifest_of(outcome, log.root)
    if isinstance(outcome, Committed) and not transaction.operation.is_first_of_its_root:
        clean_up_after(log, manifest)
    return manifest


def commit_settings(
    log: VersionLog, transaction: Transaction, options: CommitOptions, *, known: Manifest | None = None
) -> CommitSettings:
    """How a transaction is committed, with the checks that need storage; arguments as for :func:`commit`.

    Raises:
        InvalidInputError: a limit is out of its range.
    """
    if whole_number("max_retries", options.max_retries) < 0:
        raise InvalidInputError(f"max_retries is {options.max_retries}, expected 0 or more")
    if options.timeout is not None and not isinstance(options.timeout, timedelta):
        raise InvalidTypeError(f"commit_timeout must be a timedelta, found {options.timeout!r}")
    if options.timeout is not None and options.timeout <= timedelta(0):
        raise InvalidInputError(f"commit_timeout is {options.timeout}, expected a positive duration")
    return CommitSettings(
        max_retries=options.max_retries,
        timeout_seconds=None if options.timeout is None else options.timeout.total_seconds(),
        create_only=options.create_only,
        is_first_try=options.is_first_try,
        template=_template(transaction, options, known),
        affected_rows=options.affected_rows,
        storage_options=options.storage_options,
        progress=options.progress,
        check=storage_checks(log, transaction, options),
        amend=_amendment(log, transaction, options),
        identity_of=lambda current: line_identity(log, current.message.branch),
        hidden_columns=lambda current: hidden_columns_of(
            FileLocator(log.store, log.root, current.base_paths, options.storage_options)
        ),
    )


def _template(transaction: Transaction, options: CommitOptions, known: Manifest | None) -> Manifest:
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


def _amendment(log: VersionLog, transaction: Transaction, options: CommitOptions) -> Callable[[ManifestDraft], None]:
    """What data files, or their absence, say about the table and the operation does not."""
    operation = transaction.operation
    dictionaries = DictionaryAmendment(
        log,
        operation.added_fragments(),
        replaces=operation.replaces_all_files,
        storage_options=options.storage_options,
    )

    def amend(draft: ManifestDraft) -> None:
        if operation.makes_tables and not operation.added_fragments() and options.file_version is not None:
            draft.set_file_version(options.file_version)
        dictionaries(draft)
        uncounted = uncounted_fragments(draft.message)
        if uncounted:
            bases = map(BasePath.from_proto, draft.message.base_paths)
            locator = FileLocator(log.store, log.root, bases, options.storage_options)
            draft.set_row_counts(rows_in_files(uncounted, locator))

    return amend


def manifest_of(outcome: CommitOutcome, root: str) -> Manifest:
    """The manifest of a successful outcome; an exception for any other."""
    match outcome:
        case Committed(manifest) | AlreadyCommitted(manifest):
            return manifest
        case Conflicted(verdict, version, reason, is_removed):
            kind = RetryableCommitConflictError if verdict is Verdict.RETRYABLE else IncompatibleTransactionError
            advice = (
                "plan the change again on it"
                if verdict is Verdict.RETRYABLE
                else "the change cannot be applied after it"
            )
            raise kind(
                f"{root}: conflicts with version {version}: {reason}; {advice}",
                path=root,
                version=version,
                is_removed=is_removed,
            )
        case Contended(num_attempts):
            raise TooMuchWriteContentionError(
                f"{root}: too much contention: {num_attempts} attempts lost to other writers; nothing was committed",
                path=root,
                attempts=num_attempts,
            )
        case TableExists(version):
            raise AlreadyExistsError(f"a dataset exists at {root}, at version {version}", path=root, version=version)
        case NotLanded(cause):
            raise cause
        case Overtaken(version, latest):
            raise CommitOvertakenError(
                f"{root}: version {version} was created too late: a cleanup had removed another version {version}, or "
                "the version to restore, or the branch was made again, or the table was migrated. It was withdrawn; do "
                f"the operation again on the latest version, {latest}",
                path=root,
                version=version,
                latest=latest,
            )
        case Unknown(version, cause):
            raise CommitOutcomeUnknownError(
                f"{root}: could not determine whether this commit created version {version}: {cause}; "
                "read the versions before trying again",
                path=root,
                version=version,
            ) from cause
