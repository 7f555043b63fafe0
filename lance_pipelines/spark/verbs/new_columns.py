"""Adds columns whose values are computed: tasks write one new data file for each fragment, and no other file changes.

After a conflict, only the files of fragments that have changed are written again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lance_core.metadata import ColumnTask, ColumnTasks
from lance_pipelines.spark.verbs.table_change import RETRIES, TableChange, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    import lance_core
    from lance_core.metadata import WrittenColumns

__all__ = ["add_columns"]


def add_columns(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    columns: Mapping[str, str] | Callable[[pa.RecordBatch], pa.RecordBatch],
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Add columns with computed values, in one version, and return the number of that version.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. A handle is moved to the new version.
        columns: maps the names of columns to SQL expressions, or a function that computes the columns of a batch of
            rows. Spark sends the function to the workers, so it must be picklable. A function that
            ``lance_core.batch_udf`` has given a schema is not called on the driver.
        read_columns: the columns that a function receives; None for all.
        batch_size: maximum number of rows for which the values are computed at a time; None for the default.
        retries: how often the change is planned again after a conflict with another writer.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: an expression is invalid, or the function fails.
        InvalidTypeError: ``columns`` is neither a dict, nor a function without a checkpoint file.
        SchemaMismatchError: the table already has one of the columns, or the function returns columns that do not match
            its schema.
        DatasetNotFoundError: the table does not exist.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    transforms = columns if callable(columns) else dict(columns)
    work = ColumnTasks(dataset, transforms, read_columns, batch_size)
    with TableChange(session, dataset, "addition of columns", retries=retries) as change:
        for attempt in change.attempts():
            with attempt:
                work.add(change.run(partial(_execute, change.file_token), work.tasks(dataset, change.parallelism())))
                work.commit(
                    dataset,
                    properties=properties,
                    transaction_uuid=transaction_uuid,
                    progress=change.progress(),
                )
                break
        change.leave_only(
            [fragment.metadata for fragment in dataset.get_fragments()], if_certain=change.num_attempts > 1
        )
        return dataset.version


def _execute(file_token: str, dataset: lance_core.LanceDataset, task: ColumnTask) -> WrittenColumns:
    return task.execute(dataset, file_token=file_token)
