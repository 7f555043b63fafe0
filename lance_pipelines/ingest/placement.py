"""Committing a staged write on a version: which operation it becomes.

=============  ==============================  ====================================================================
Mode           No dataset                      A dataset
=============  ==============================  ====================================================================
``append``     create it; fail if the write    append, checked against everything since the planned version
               was planned on one
``overwrite``  create it                       overwrite the latest version
``create``     create it                       fail
=============  ==============================  ====================================================================

Creating is a single attempt to commit version 1. Of two simultaneous first runs, one creates the dataset; the other is
committed on top of it, after its schema and field ids were compared with it.

The transaction's UUID is derived from the staged write's id: all attempts to commit one staged write are one
transaction.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import lance_core
from lance_core import LanceFileVersion
from lance_core.errors import (
    AlreadyExistsError,
    DatasetNotFoundError,
    IncompatibleTransactionError,
    RetryableCommitConflictError,
    SchemaMismatchError,
)
from lance_core.metadata import commit_transaction
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.verify import verify_read_version, verify_schema

if TYPE_CHECKING:
    from lance_pipelines.ingest.staged_write import StagedWrite

__all__ = ["place", "transaction_uuid"]

_NAMESPACE: Final = uuid.UUID("6f0a2d52-9c0b-4d8e-8a53-0d9c1f4be7a1")
"""Namespace of the transaction UUIDs; changing it would let pending writes be committed twice."""


def transaction_uuid(write_id: str) -> str:
    """Return the UUID of the transaction that commits this write; the same for every attempt."""
    return str(uuid.uuid5(_NAMESPACE, write_id))


def place(staged: StagedWrite, dataset: lance_core.LanceDataset | None, *, is_first: bool) -> int:
    """Commit a verified write and return the new version.

    Args:
        staged: the message of the write step.
        dataset: the latest version; None when there is no dataset.
        is_first: False after an attempt that failed with a retryable conflict.

    Raises:
        RetryableCommitConflictError: try again on the version that is the latest now.
        LanceError: see :func:`~lance_pipelines.ingest.commit.commit_staged`.
    """
    if dataset is None:
        return _create(staged)
    if staged.mode is WriteMode.CREATE:
        raise AlreadyExistsError(
            f"{staged.uri}: another writer created the dataset while this one wrote its fragments (mode create)",
            uri=staged.uri,
        )
    if staged.mode is WriteMode.OVERWRITE:
        transaction = _transaction(staged, _overwrite(staged), dataset.version)
        return commit_transaction(dataset, transaction, data_storage_version=_file_version(staged))
    # The planned version, so that everything committed since is checked. 0, if there was no dataset, means
    # the latest version; the same number in every attempt lets them recognize each other.
    read_version = staged.read_version
    if read_version:
        verify_read_version(staged, dataset)
        if not is_first:
            read_version = dataset.version
    _verify_schema(staged, dataset)
    transaction = _transaction(staged, lance_core.LanceOperation.Append(_fragments(staged)), read_version)
    return lance_core.LanceDataset.commit(dataset, transaction).version


def _verify_schema(staged: StagedWrite, dataset: lance_core.LanceDataset) -> None:
    try:
        verify_schema(staged, dataset.lance_schema)
    except SchemaMismatchError as error:
        if not staged.read_version or dataset.version == staged.read_version:
            raise
        raise IncompatibleTransactionError(
            f"{staged.uri}: the write was planned on version {staged.read_version}; but another writer changed the "
            f"dataset's schema by version {dataset.version}: {error}",
            uri=staged.uri,
            planned=staged.read_version,
            found=dataset.version,
        ) from error


def _create(staged: StagedWrite) -> int:
    if staged.mode is WriteMode.APPEND and staged.read_version:
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
        return commit_transaction(staged.uri, transaction, create_only=True, data_storage_version=version)
    except AlreadyExistsError as error:
        raise RetryableCommitConflictError(f"{staged.uri}: another writer created it first", uri=staged.uri) from error


def _file_version(staged: StagedWrite) -> LanceFileVersion | None:
    """Return the file version of a dataset without rows; otherwise the data files determine it."""
    return None if staged.data_storage_version is None else LanceFileVersion.parse(staged.data_storage_version)


def _transaction(
    staged: StagedWrite, operation: lance_core.LanceOperation.BaseOperation, read_version: int
) -> lance_core.Transaction:
    return lance_core.Transaction(
        read_version=read_version,
        operation=operation,
        uuid=transaction_uuid(staged.write_id),
        transaction_properties={
            "dagster.run_id": staged.run_id,
            "dagster.step_key": staged.step_key,
            "lance_pipelines.write_id": staged.write_id,
            "lance_pipelines.dataset": staged.dataset,
        },
    )


def _overwrite(staged: StagedWrite) -> lance_core.LanceOperation.Overwrite:
    return lance_core.LanceOperation.Overwrite(staged.schema, _fragments(staged))


def _fragments(staged: StagedWrite) -> list[lance_core.FragmentMetadata]:
    return [lance_core.FragmentMetadata.from_json(fragment) for fragment in staged.fragments]
