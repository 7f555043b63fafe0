"""Deletes the rows that match a predicate: tasks find them, and write the deletion files.

After a conflict, only fragments that have changed are searched again. Concurrent deletes of other rows are merged. As
in ``LanceDataset.delete``, a delete is also repeated if it is unknown whether newer versions were built on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.metadata import DeleteSearch, DeleteTasks, commit_delete
from lance_pipelines.spark.verbs.table_change import RETRIES, TableChange, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    import lance_core
    from lance_core.metadata import FoundRows

__all__ = ["Deleted", "delete", "search_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The result of a delete.

    Attributes:
        version: the version that the delete created; if it created none, the version in which no row matched. The same
            applies to the last repetition of a delete.
        num_deleted_rows: number of deleted rows.
        attempts: number of times that the delete was planned.
    """

    version: int
    num_deleted_rows: int
    attempts: int


def delete(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    predicate: str,
    *,
    only_if_found: bool = False,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Deleted:
    """Delete the rows that match a predicate, in one version.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. A handle is moved to the new version.
        predicate: SQL condition that selects the rows.
        only_if_found: whether to create no version if no row matches.
        retries: how often the change is planned again after a conflict with another writer.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: the predicate is invalid, or cannot be evaluated for a row.
        DatasetNotFoundError: the table does not exist.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the rows were deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    tasks = DeleteTasks(predicate)
    tasks.searches(dataset)  # refuses an invalid predicate at once
    num_found = 0
    with TableChange(session, dataset, "delete", retries=retries, is_idempotent=True) as change:
        for attempt in change.attempts():
            with attempt:
                tasks.add(change.run(search_rows, tasks.searches(dataset, change.parallelism())))
                is_repeated = change.may_be_committed
                num_before, num_found = num_found, tasks.num_rows(dataset)
                deleted = commit_delete(
                    dataset,
                    tasks,
                    only_if_found=only_if_found or is_repeated,
                    properties=properties,
                    transaction_uuid=transaction_uuid,
                    progress=change.progress(),
                )
                break
        num_deleted = num_found or (num_before if is_repeated else 0)
        return Deleted(version=deleted.version, num_deleted_rows=num_deleted, attempts=change.num_attempts)


def search_rows(dataset: lance_core.LanceDataset, task: DeleteSearch) -> FoundRows:
    """Execute one task of a delete; runs in a worker."""
    return task.execute(dataset)
