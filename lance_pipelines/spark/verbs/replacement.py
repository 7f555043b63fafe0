"""Replaces the rows that match a predicate, such as a partition, with those of a frame, in one version.

::

    write     the rows of the frame, as fragments to which no version refers yet
    search    tasks find the rows to delete, write the deletion files, and check that new rows match the predicate
    commit    one version; after a conflict, only fragments that have changed are searched again
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_core.metadata import DeleteTasks, commit_replacement
from lance_pipelines.ingest.declaration import DECLARED_MAX_BYTES_PER_FILE, DECLARED_MAX_ROWS_PER_FILE
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.verbs.deletion import search_rows
from lance_pipelines.spark.verbs.table_change import RETRIES, TableChange, opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame

    import lance_core

__all__ = ["Replaced", "replace_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """The result of a replacement.

    Attributes:
        version: the version that the replacement created.
        num_deleted_rows: number of rows that matched the predicate.
        num_inserted_rows: number of rows of the frame.
        attempts: number of times that the replacement was planned.
    """

    version: int
    num_deleted_rows: int
    num_inserted_rows: int
    attempts: int


def replace_rows(
    frame: DataFrame,
    dataset: lance_core.LanceDataset | str | Path,
    predicate: str,
    *,
    data_storage_version: str | None = None,
    target_bases: Sequence[str] | None = None,
    max_rows_per_file: int = DECLARED_MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = DECLARED_MAX_BYTES_PER_FILE,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Replaced:
    """Delete the rows that match a predicate, and add those of a frame, in one version.

    Args:
        frame: the new rows, with all columns of the table; each must match the predicate.
        dataset: the table, or its location. A handle is moved to the new version.
        predicate: SQL condition that selects the rows to delete.
        data_storage_version: format version of the new data files; None for that of the table.
        target_bases: names or paths of the bases to which new files are written in turn.
        max_rows_per_file: number of rows at which a task starts its next file.
        max_bytes_per_file: approximate number of bytes at which a task starts its next file.
        retries: how often the change is planned again after a conflict with another writer.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: the predicate is invalid, or a row of the frame does not match it.
        SchemaMismatchError: the frame does not fit the table.
        DatasetNotFoundError: the table does not exist.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    target = plan_target_schema(frame.schema, {}, dataset.schema)
    tasks = DeleteTasks(predicate)
    tasks.searches(dataset)  # refuses an invalid predicate at once
    with TableChange(frame.sparkSession, dataset, "replacement", retries=retries) as change:
        fragments = change.write(
            frame,
            target,
            mode="append",
            max_rows_per_file=max_rows_per_file,
            max_bytes_per_file=max_bytes_per_file,
            data_storage_version=data_storage_version,
            target_bases=target_bases,
        )
        for attempt in change.attempts():
            with attempt:
                searches = tasks.searches(dataset, change.parallelism(), fragments)
                tasks.add(change.run(search_rows, searches))
                made = commit_replacement(
                    dataset,
                    tasks,
                    fragments,
                    properties=properties,
                    transaction_uuid=transaction_uuid,
                    progress=change.progress(),
                )
                break
        change.leave_only(fragments)
        return Replaced(
            version=made.version,
            num_deleted_rows=made.rows_deleted,
            num_inserted_rows=made.rows_added,
            attempts=change.num_attempts,
        )
