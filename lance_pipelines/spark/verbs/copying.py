"""Copies a version of a table to another location: tasks copy the files, which keep their names.

A copy is independent of its source. Attempts that repeat a task write the same bytes to the same names, so nothing has
to be removed after them. If the copy fails, no version refers to the files, and a repeated copy replaces them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lance_core.metadata import CopyTask, commit_copy, plan_copy
from lance_pipelines.spark.tasks import default_parallelism, run_tasks
from lance_pipelines.spark.verbs.table_change import execute_on, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    import lance_core

__all__ = ["Copied", "copy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The result of a copy.

    Attributes:
        version: the version of the copy.
        num_bytes: total size of the copied files.
    """

    version: int
    num_bytes: int


def copy(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    target: str | Path,
    *,
    storage_options: Mapping[str, str] | None = None,
    target_storage_options: Mapping[str, str] | None = None,
) -> Copied:
    """Copy a version with all of its files, including those in other bases, to a new location.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. If a handle is given, its version is copied.
        target: location of the copy; no table may exist there.
        storage_options: credentials and settings of the store, if the table is given by its location.
        target_storage_options: credentials and settings of the store of the copy; None for those of the table.

    Raises:
        DatasetNotFoundError: the table does not exist.
        AlreadyExistsError: a table exists at the target.
        NotSupportedError: files in different bases have the same name, or values of a blob column refer to files below
            a base.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    options = dataset.storage_options if target_storage_options is None else dict(target_storage_options)
    location = str(target)
    num_tasks = max(1, min(len(dataset.manifest.fragments), 4 * default_parallelism(session)))
    tasks = plan_copy(dataset, location, num_tasks=num_tasks, storage_options=options)
    execute = partial(execute_on, _copy, dataset.uri, dataset.version, dataset.storage_options)
    done = run_tasks(session, execute, tasks, f"cannot copy {dataset.uri} to {location}")
    version = commit_copy(dataset, location, storage_options=options)
    return Copied(version=version, num_bytes=sum(done.results))


def _copy(dataset: lance_core.LanceDataset, task: CopyTask) -> int:
    return task.execute(dataset)
