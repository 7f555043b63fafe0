"""Exactly-once commit of a staged write.

All attempts to commit one staged write (by a retried step, a re-executed run, or a second process) use the same
transaction, whose UUID is derived from the id of the write. Each attempt first checks whether a version after the read
version has this UUID::

    open latest -> committed already? --yes--> report that version
         ^              | no
         |          verify files, counts, schema
         |              |
         |          commit on top of the latest version -- committed --> report
         |              |
         +-- retryable conflict, or another writer created the dataset

The operation that is committed depends on the mode and on whether the dataset exists:

=============  ==============================  ====================================================================
Mode           No dataset                      A dataset
=============  ==============================  ====================================================================
``append``     create it; fail if the write    append, checked for conflicts with all versions since the read version
               is based on a version
``overwrite``  create it                       overwrite the latest version
``create``     create it                       fail
``upsert``     create it; fail if the write    delete the rows that have the keys of new rows, and append; planned
               is based on a version           again after every conflict
``overwrite_   create it; fail if the write    delete the matching rows of the latest version, and append; the deletion
partition``    is based on a version           is planned again after every conflict
=============  ==============================  ====================================================================

A dataset is created by a single attempt to commit version 1. If two first runs commit simultaneously, one of them
creates the dataset. The write of the other run is committed on top of it after its schema and field ids have been
compared with the dataset's.

Files are deleted only after a *definite* failure, and only if all versions since the read version can be read and none
of them contains this write. If the outcome is unknown, nothing is deleted.
"""

from __future__ import annotations

import random
import time
import uuid
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import lance_core
from lance_core import LanceFileVersion
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    DatasetNotFoundError,
    IncompatibleTransactionError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
    VersionNotFoundError,
)
from lance_core.metadata import (
    DeletePlanner,
    UpsertPlanner,
    commit_replacement,
    commit_transaction,
    commit_upsert,
    plan_delete,
)
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.verify import verify_files, verify_read_version, verify_row_counts, verify_schema
from lance_pipelines.ingest.write_plan import open_dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_pipelines.ingest.staged_write import StagedWrite
    from lance_pipelines.progress import Report

__all__ = [
    "WRITE_ID_PROPERTY",
    "WRITE_NUMBER_PROPERTY",
    "WriteOutcome",
    "commit_on",
    "commit_staged",
    "transaction_properties",
    "transaction_uuid",
]

WRITE_ID_PROPERTY: Final = "lance_pipelines.write_id"
"""Transaction property that contains the id of the write."""

WRITE_NUMBER_PROPERTY: Final = "lance_pipelines.write_number"
"""Transaction property that contains the number of the write within its step, unless it is the first one."""

_NAMESPACE: Final = uuid.UUID("6f0a2d52-9c0b-4d8e-8a53-0d9c1f4be7a1")
"""Namespace of the transaction UUIDs; changing it could cause pending writes to be committed twice."""

_MAX_ATTEMPTS: Final = 20
"""Maximum number of times that a call starts a commit, each time on top of the latest version; a commit also retries
internally, which is not counted."""

_MAX_WAIT_SECONDS: Final = 0.5
"""Maximum waiting time between two attempts."""

_BASED_ON_ROWS: Final = (WriteMode.APPEND, WriteMode.UPSERT, WriteMode.OVERWRITE_PARTITION)
"""Modes that keep existing rows, except for those that they replace."""

_DEFINITE_FAILURES: Final = (
    AlreadyExistsError,
    IncompatibleTransactionError,
    InvalidInputError,
    NotFoundError,
    NotSupportedError,
)
"""Errors that would recur whenever the same files are committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """The version of the dataset that contains a staged write.

    Attributes:
        version: the version that contains the write.
        transaction_uuid: UUID of the transaction that created the version; None if the version records none.
        committed: False if there was nothing to commit: no new rows for an existing dataset.
        repeated: True if an earlier attempt had already committed the write.
        attempts: number of commit attempts in this call.
    """

    version: int
    transaction_uuid: str | None
    committed: bool = True
    repeated: bool = False
    attempts: int = 0

    @property
    def committed_now(self) -> bool:
        """True if this call created the version."""
        return self.committed and not self.repeated


def commit_staged(
    staged: StagedWrite,
    *,
    discard: Callable[[str, str], object],
    storage_options: dict[str, str] | None = None,
    report: Report = lambda progress: None,
) -> WriteOutcome:
    """Commit a staged write, or find the version that an earlier attempt committed.

    Args:
        staged: the message of the write step.
        discard: function that deletes the files of this write. It is called with the dataset's URI and the file token
            after a failure, if the files can no longer become part of a version.
        storage_options: credentials and settings of the dataset's store.
        report: receives the progress of the checks before the commit.

    Raises:
        StagedWriteError: a file, a size, or a row count differs from the message.
        SchemaMismatchError: the schema of the fragments does not match the dataset's schema.
        AlreadyExistsError: the mode is ``create`` and another writer created the dataset.
        DatasetNotFoundError: the dataset of an append no longer exists.
        IncompatibleTransactionError: a later version invalidates this write.
        TooMuchWriteContentionError: other writers committed first at every attempt; the files are kept for another try.
        CommitOutcomeUnknownError: the commit may have succeeded; nothing was deleted.
        StorageError: a storage operation failed; the files are kept for another try if the error is ``retryable``.
    """
    try:
        with _planner(staged) as planner:
            return _commit(staged, planner, discard, storage_options, report)
    except (*_DEFINITE_FAILURES, StorageError) as error:
        may_pass = isinstance(error, StorageError) and error.retryable
        if not may_pass and _is_absent_for_good(staged, storage_options):
            _discard(staged, discard, error)
        raise


def _planner(staged: StagedWrite) -> AbstractContextManager[DeletePlanner | UpsertPlanner | None]:
    """Return the object that finds the rows that a write replaces; None if the write replaces no rows or all rows."""
    if staged.mode is WriteMode.UPSERT:
        return UpsertPlanner(_fragments(staged), staged.keys)
    return nullcontext(None if staged.predicate is None else DeletePlanner(staged.predicate))


def _commit(
    staged: StagedWrite,
    planner: DeletePlanner | UpsertPlanner | None,
    discard: Callable[[str, str], object],
    storage_options: dict[str, str] | None,
    report: Report,
) -> WriteOutcome:
    conflict: RetryableCommitConflictError | None = None
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        dataset = open_dataset(staged.uri, storage_options)
        if dataset is not None:
            earlier = _find_commit(staged, dataset)
            if earlier is not None:
                return earlier
        if attempt == 1:
            verify_row_counts(staged)
            verify_files(staged, storage_options, report)
        if dataset is not None and _changes_nothing(staged, dataset):
            return _nothing_to_commit(dataset)
        try:
            version = commit_on(
                dataset,
                staged,
                is_first=attempt == 1,
                planner=planner,
                discard=discard,
                storage_options=storage_options,
            )
        except RetryableCommitConflictError as error:
            conflict = error
            # Writers that conflict must not meet again and again.
            time.sleep(random.uniform(0, _MAX_WAIT_SECONDS))
            continue
        return WriteOutcome(version=version, transaction_uuid=transaction_uuid(staged), attempts=attempt)
    raise TooMuchWriteContentionError(
        f"{staged.uri}: giving up after {_MAX_ATTEMPTS} attempts to commit the write on top of the latest version",
        uri=staged.uri,
    ) from conflict


def _changes_nothing(staged: StagedWrite, dataset: lance_core.LanceDataset) -> bool:
    if staged.fragments or staged.mode not in _BASED_ON_ROWS:
        return False
    return staged.predicate is None or not plan_delete(dataset, staged.predicate).rows_deleted


def _nothing_to_commit(dataset: lance_core.LanceDataset) -> WriteOutcome:
    transaction = dataset.read_transaction(dataset.version)
    return WriteOutcome(
        version=dataset.version,
        transaction_uuid=None if transaction is None else transaction.uuid,
        committed=False,
    )


def _find_commit(staged: StagedWrite, dataset: lance_core.LanceDataset) -> WriteOutcome | None:
    """Return the version after the read version that this write's transaction created; None if there is none.

    Raises:
        CommitOutcomeUnknownError: one of these versions was cleaned up, and this write created none of the later ones.
    """
    wanted = transaction_uuid(staged)
    for version in range(dataset.version, staged.read_version, -1):
        try:
            transaction = dataset.read_transaction(version)
        except VersionNotFoundError as error:
            raise CommitOutcomeUnknownError(
                f"{staged.uri}: the write is based on version {staged.read_version}, and version {version} was "
                "cleaned up in the meantime; it can no longer be determined whether this write created that version",
                uri=staged.uri,
                version=version,
                write_id=staged.write_id,
            ) from error
        if transaction is not None and transaction.uuid == wanted:
            return WriteOutcome(version=version, transaction_uuid=wanted, repeated=True)
    return None


def _is_absent_for_good(staged: StagedWrite, storage_options: dict[str, str] | None) -> bool:
    try:
        dataset = open_dataset(staged.uri, storage_options)
        return dataset is None or _find_commit(staged, dataset) is None
    except LanceError:
        return False


def _discard(staged: StagedWrite, discard: Callable[[str, str], object], error: LanceError) -> None:
    try:
        discard(staged.uri, staged.file_token)
    except LanceError as cleanup_error:
        # The commit's failure is the one to report; leftover files are unreferenced and have this token in their names.
        error.add_note(
            f"the files of this write (file token {staged.file_token}) could not be removed: {cleanup_error}"
        )


def commit_on(
    dataset: lance_core.LanceDataset | None,
    staged: StagedWrite,
    *,
    is_first: bool,
    planner: DeletePlanner | UpsertPlanner | None = None,
    discard: Callable[[str, str], object] = lambda uri, file_token: None,
    storage_options: dict[str, str] | None = None,
) -> int:
    """Commit a verified write and return the new version.

    Args:
        dataset: the dataset at its latest version; None if it does not exist.
        staged: the message of the write step.
        is_first: False after an attempt that failed with a retryable conflict.
        planner: plans which rows are replaced; None unless the mode is ``upsert`` or ``overwrite_partition``.
        discard: deletes the files of this write if the version contains its rows in other files.
        storage_options: credentials and settings of the dataset's store.

    Raises:
        RetryableCommitConflictError: another writer committed first; try again with the version that is now the latest.
        LanceError: see :func:`commit_staged`.
    """
    if dataset is None:
        return _create(staged, storage_options)
    if staged.mode is WriteMode.CREATE:
        raise AlreadyExistsError(
            f"{staged.uri}: another writer created the dataset while this one wrote its fragments (mode create)",
            uri=staged.uri,
        )
    if staged.mode is WriteMode.OVERWRITE:
        transaction = _transaction(staged, _overwrite(staged), dataset.version)
        return commit_transaction(dataset, transaction, data_storage_version=_file_version(staged))
    # The planned version, so that all later versions are checked for conflicts. 0, if there was no dataset, means the
    # latest version. All attempts use the same number, by which they recognize each other.
    read_version = staged.read_version
    if read_version:
        verify_read_version(staged, dataset)
        if not is_first:
            read_version = dataset.version
    _verify_schema(staged, dataset)
    if isinstance(planner, UpsertPlanner):
        upserted = commit_upsert(
            dataset, planner, transaction_uuid=transaction_uuid(staged), properties=_properties(staged)
        )
        if not upserted.uses_new_files:
            with suppress(LanceError):
                discard(staged.uri, staged.file_token)
        return upserted.version
    if planner is not None:
        # Planned on the version up to which all versions were searched for an earlier commit of this write.
        replaced = commit_replacement(
            dataset,
            planner,
            _fragments(staged),
            transaction_uuid=transaction_uuid(staged),
            properties=_properties(staged),
        )
        return replaced.version
    transaction = _transaction(staged, lance_core.LanceOperation.Append(_fragments(staged)), read_version)
    return lance_core.LanceDataset.commit(dataset, transaction).version


def _verify_schema(staged: StagedWrite, dataset: lance_core.LanceDataset) -> None:
    try:
        verify_schema(staged, dataset.lance_schema)
    except SchemaMismatchError as error:
        if not staged.read_version or dataset.version == staged.read_version:
            raise
        raise IncompatibleTransactionError(
            f"{staged.uri}: the write is based on version {staged.read_version}, but another "
            f"writer has changed the dataset's schema (latest version {dataset.version}): {error}",
            uri=staged.uri,
            planned=staged.read_version,
            found=dataset.version,
        ) from error


def _create(staged: StagedWrite, storage_options: dict[str, str] | None) -> int:
    if staged.mode in _BASED_ON_ROWS and staged.read_version:
        raise DatasetNotFoundError(
            f"{staged.uri}: the dataset was at version {staged.read_version} when the write was planned, but no "
            "longer exists",
            uri=staged.uri,
            planned=staged.read_version,
        )
    transaction = _transaction(staged, _overwrite(staged), 0)
    try:
        # An Overwrite alone would also be committed on top of a dataset that another writer creates at this moment.
        version = _file_version(staged)
        return commit_transaction(
            staged.uri,
            transaction,
            create_only=True,
            data_storage_version=version,
            storage_options=storage_options,
        )
    except AlreadyExistsError as error:
        raise RetryableCommitConflictError(
            f"{staged.uri}: another writer created the dataset first", uri=staged.uri
        ) from error


def _file_version(staged: StagedWrite) -> LanceFileVersion | None:
    """Return the file version of a dataset without rows; otherwise the data files determine it."""
    return None if staged.data_storage_version is None else LanceFileVersion.parse(staged.data_storage_version)


def transaction_uuid(staged: StagedWrite) -> str:
    """Return the UUID of the transaction that commits this write; the same for every attempt."""
    return str(uuid.uuid5(_NAMESPACE, staged.write_id))


def _transaction(
    staged: StagedWrite, operation: lance_core.LanceOperation.BaseOperation, read_version: int
) -> lance_core.Transaction:
    return lance_core.Transaction(
        read_version=read_version,
        operation=operation,
        uuid=transaction_uuid(staged),
        transaction_properties=_properties(staged),
    )


def transaction_properties(*, run_id: str, step_key: str, dataset: str) -> dict[str, str]:
    """Return the properties of a transaction that identify the run."""
    return {"dagster.run_id": run_id, "dagster.step_key": step_key, "lance_pipelines.dataset": dataset}


def _properties(staged: StagedWrite) -> dict[str, str]:
    own = transaction_properties(run_id=staged.run_id, step_key=staged.step_key, dataset=staged.dataset)
    numbered = {WRITE_NUMBER_PROPERTY: str(staged.number)} if staged.number else {}
    return own | {WRITE_ID_PROPERTY: staged.write_id} | numbered | staged.properties


def _overwrite(staged: StagedWrite) -> lance_core.LanceOperation.Overwrite:
    return lance_core.LanceOperation.Overwrite(staged.schema, _fragments(staged))


def _fragments(staged: StagedWrite) -> list[lance_core.FragmentMetadata]:
    return [lance_core.FragmentMetadata.from_json(fragment) for fragment in staged.fragments]
