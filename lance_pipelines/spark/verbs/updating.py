"""Sets columns to new values in the rows that match a condition, in one version: tasks move the rows to new fragments.

After a conflict, results for fragments that have not changed are kept; only the others are updated again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lance_core.metadata import RowChanges, UpdateTask, commit_update, plan_update
from lance_pipelines.spark.verbs.table_change import RETRIES, TableChange, opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    import lance_core
    from lance_core.metadata import Fragment

__all__ = ["Updated", "update"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The result of an update.

    Attributes:
        version: the version that the update created.
        num_updated_rows: number of rows that matched the condition.
        attempts: number of times that the update was planned.
    """

    version: int
    num_updated_rows: int
    attempts: int


def update(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    updates: Mapping[str, str],
    where: str | None = None,
    *,
    data_storage_version: str | None = None,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    transaction_uuid: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Updated:
    """Update the rows that match a condition, in one version.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. A handle is moved to the new version.
        updates: maps the names of columns to SQL expressions.
        where: SQL condition that selects the rows; None for all.
        data_storage_version: format version of the new data files; None for that of the table.
        retries: how often the change is planned again after a conflict with another writer.
        properties: properties of the transaction.
        transaction_uuid: UUID of the transaction; a new one if None.
        storage_options: credentials and settings of the store, if the table is given by its location.

    Raises:
        InvalidInputError: an update or the condition is invalid, or cannot be evaluated for a row.
        SchemaMismatchError: a new value does not fit its column.
        DatasetNotFoundError: the table does not exist.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    known: list[_Done] = []
    with TableChange(session, dataset, "update", retries=retries) as change:
        for attempt in change.attempts():
            with attempt:
                known = [done for done in known if done.fits(dataset)]
                left = _left(dataset, known)
                tasks: Sequence[UpdateTask] = []
                if left or not known:
                    plan = plan_update(dataset, updates, where, num_tasks=1, data_storage_version=data_storage_version)
                    tasks = _divided(plan.tasks[0], left, change.parallelism())
                results = change.run(partial(_execute, change.file_token), tasks)
                known += [_Done.of(dataset, task, result) for task, result in zip(tasks, results, strict=True)]
                changes = [dataclasses.replace(done.changes, read_version=dataset.version) for done in known]
                made = commit_update(
                    dataset,
                    changes,
                    properties,
                    transaction_uuid=transaction_uuid,
                    progress=change.progress(),
                )
                break
        change.leave_only(
            [fragment.metadata for fragment in dataset.get_fragments()], if_certain=change.num_attempts > 1
        )
        return Updated(version=dataset.version, num_updated_rows=made.rows_updated, attempts=change.num_attempts)


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of a task, and what it depends on.

    Attributes:
        schema: the columns of the version that the task has read.
        content_keys: identify the rows of the fragments that the task has searched.
        changes: the result.
    """

    schema: object
    content_keys: frozenset[str]
    changes: RowChanges

    @classmethod
    def of(cls, dataset: lance_core.LanceDataset, task: UpdateTask, changes: RowChanges) -> _Done:
        wanted = set(task.fragment_ids)
        keys = frozenset(each.content_key for each in dataset.manifest.fragments if each.id in wanted)
        return cls(dataset.lance_schema, keys, changes)

    def fits(self, dataset: lance_core.LanceDataset) -> bool:
        """Return whether the result is also valid for another version."""
        present = {each.content_key for each in dataset.manifest.fragments}
        return self.schema == dataset.lance_schema and self.content_keys <= present


def _left(dataset: lance_core.LanceDataset, known: Sequence[_Done]) -> list[Fragment]:
    """Return the fragments that no result covers."""
    covered = frozenset().union(*(done.content_keys for done in known))
    return [fragment for fragment in dataset.manifest.fragments if fragment.content_key not in covered]


def _divided(task: UpdateTask, fragments: Sequence[Fragment], num_tasks: int) -> list[UpdateTask]:
    """Divide a task among several; each gets neighboring fragments."""
    num_tasks = max(1, min(num_tasks, len(fragments)))
    ids = [fragment.id for fragment in fragments]
    edges = [len(ids) * part // num_tasks for part in range(num_tasks + 1)]
    return [
        dataclasses.replace(task, fragment_ids=tuple(ids[edges[part] : edges[part + 1]])) for part in range(num_tasks)
    ]


def _execute(file_token: str, dataset: lance_core.LanceDataset, task: UpdateTask) -> RowChanges:
    return task.execute(dataset, file_token=file_token)
