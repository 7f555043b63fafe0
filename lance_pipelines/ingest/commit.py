"""Exactly-once commit of a staged write.

Every attempt to commit one staged write - a retried step, a re-executed run, a second process - proposes the same
transaction, and first checks whether a version since the planned one already has it::

    open latest -> committed already? --yes--> report that version
         ^              | no
         |          verify files, counts, schema
         |              |
         |          place it: create | append | overwrite
         |              |
         |          lance_core's commit loop -- committed --> report
         |              |
         +-- retryable conflict, or another writer created the dataset

Files are deleted only after a *definite* failure, and only when the whole history since the planned version is known
and does not contain this write. An unknown outcome deletes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    IncompatibleTransactionError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    StorageError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.placement import place, transaction_uuid
from lance_pipelines.ingest.planning import open_dataset
from lance_pipelines.ingest.verify import verify_files, verify_row_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    import lance_core
    from lance_pipelines.ingest.staged_write import StagedWrite

__all__ = ["Landing", "commit_staged"]

_MAX_PLACEMENTS: Final = 20
"""How often a write is placed again on a newer version before giving up; each has the commit loop's own retries."""

_DEFINITE_FAILURES: Final = (
    AlreadyExistsError,
    IncompatibleTransactionError,
    InvalidInputError,
    NotFoundError,
    NotSupportedError,
)
"""Errors that would recur whenever the same files are committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """The version of the dataset that holds a staged write.

    Attributes:
        version: the version that holds it.
        transaction_uuid: the transaction that created the version; None when it records none.
        committed: False when there was nothing to commit: no new rows for a dataset that exists.
        repeated: True when an earlier attempt had committed it.
        attempts: number of attempts of this call.
    """

    version: int
    transaction_uuid: str | None
    committed: bool = True
    repeated: bool = False
    attempts: int = 0

    @property
    def committed_now(self) -> bool:
        """True when this call created the version."""
        return self.committed and not self.repeated


def commit_staged(staged: StagedWrite, *, discard: Callable[[str, str], object]) -> Landing:
    """Commit a staged write, or find the version that an earlier attempt committed.

    Args:
        staged: the message of the write step.
        discard: called with the dataset's URI and the file token to delete the files of this write, after a failure
            that rules out that they will ever be part of a version.

    Raises:
        StagedWriteError: a file, a size or a row count differs from the message.
        SchemaMismatchError: the schema of the fragments does not match that of the dataset.
        AlreadyExistsError: the mode is ``create`` and another writer created the dataset.
        DatasetNotFoundError: the dataset of an append no longer exists.
        IncompatibleTransactionError: a later version invalidates this write.
        TooMuchWriteContentionError: other writers were faster at every attempt; the files are kept for another one.
        CommitOutcomeUnknownError: the commit may have succeeded; nothing was deleted.
        StorageError: a storage operation failed; the files are kept for another attempt when it is ``retryable``.
    """
    try:
        return _land(staged)
    except (*_DEFINITE_FAILURES, StorageError) as error:
        may_pass = isinstance(error, StorageError) and error.retryable
        if not may_pass and _is_absent_for_good(staged):
            _discard(staged, discard, error)
        raise


def _land(staged: StagedWrite) -> Landing:
    conflict: RetryableCommitConflictError | None = None
    for attempt in range(1, _MAX_PLACEMENTS + 1):
        dataset = open_dataset(staged.uri)
        if dataset is not None:
            landed = _find_landed(staged, dataset)
            if landed is not None:
                return landed
        if attempt == 1:
            verify_row_counts(staged)
            verify_files(staged)
        if dataset is not None and staged.mode is WriteMode.APPEND and not staged.fragments:
            return _nothing_to_commit(dataset)
        try:
            version = place(staged, dataset, is_first=attempt == 1)
        except RetryableCommitConflictError as error:
            conflict = error
            continue
        return Landing(version=version, transaction_uuid=transaction_uuid(staged.write_id), attempts=attempt)
    raise TooMuchWriteContentionError(
        f"{staged.uri}: giving up after {_MAX_PLACEMENTS} attempts to commit the write on the latest version",
        uri=staged.uri,
    ) from conflict


def _nothing_to_commit(dataset: lance_core.LanceDataset) -> Landing:
    transaction = dataset.read_transaction(dataset.version)
    return Landing(
        version=dataset.version,
        transaction_uuid=None if transaction is None else transaction.uuid,
        committed=False,
    )


def _find_landed(staged: StagedWrite, dataset: lance_core.LanceDataset) -> Landing | None:
    """Return the version since the planned one that carries this write's transaction.

    Raises:
        CommitOutcomeUnknownError: some of those versions were cleaned up, and the others are not this write.
    """
    wanted = transaction_uuid(staged.write_id)
    for version in range(dataset.version, staged.read_version, -1):
        try:
            transaction = dataset.read_transaction(version)
        except VersionNotFoundError as error:
            raise CommitOutcomeUnknownError(
                f"{staged.uri}: the write was planned on version {staged.read_version}, and version {version} was "
                "cleaned up in the meantime; whether it was this write can no longer be determined",
                uri=staged.uri,
                version=version,
                write_id=staged.write_id,
            ) from error
        if transaction is not None and transaction.uuid == wanted:
            return Landing(version=version, transaction_uuid=wanted, repeated=True)
    return None


def _is_absent_for_good(staged: StagedWrite) -> bool:
    try:
        dataset = open_dataset(staged.uri)
        return dataset is None or _find_landed(staged, dataset) is None
    except LanceError:
        return False


def _discard(staged: StagedWrite, discard: Callable[[str, str], object], error: LanceError) -> None:
    try:
        discard(staged.uri, staged.file_token)
    except LanceError as cleanup_error:
        # The commit's failure is the one to report; leftover files are unreferenced and have this token in their names.
        error.add_note(f"the files of this write ({staged.file_token}) could not be removed: {cleanup_error}")
