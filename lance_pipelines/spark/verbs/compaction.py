"""Rewrites fragments: merges small ones, and removes deleted rows from data files. Each task rewrites one group.

Groups that conflict with other writers are planned and rewritten again; the others are committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_core.errors import TooMuchWriteContentionError
from lance_core.optimize import CompactionMetrics, RewriteResult, commit_rewrites, plan_again
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.maintenance.rewrite_commit import verify_row_counts
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, plan_rewrite, task_documents, without_budget
from lance_pipelines.spark.staging import rewrite_tasks
from lance_pipelines.spark.verbs.table_change import RETRIES, opened

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    import lance_core

__all__ = ["Compacted", "compact", "materialize_deletions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The result of a compaction.

    Attributes:
        version: the latest version of the table; unchanged if there was nothing to do.
        metrics: statistics of the rewritten groups.
        attempts: number of times that groups were rewritten.
    """

    version: int
    metrics: CompactionMetrics
    attempts: int


def compact(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    *,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Compacted:
    """Merge small fragments, and remove the deleted rows from fragments that have many of them.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. A handle is moved to the new version.
        retries: how often groups that conflict with other writers are planned and rewritten again.
        properties: properties of the transactions.
        storage_options: credentials and settings of the store, if the table is given by its location.
        options: as for ``lance_core.optimize.Compaction.plan``, such as ``target_rows_per_fragment``.

    Raises:
        InvalidInputError: an option is unknown or invalid.
        RowsLostError: a rewritten group has more or fewer rows than before; nothing was committed.
        DatasetNotFoundError: the table does not exist.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created; nothing was deleted.
        StorageError: a storage operation failed, or workers exited repeatedly.
    """
    dataset = opened(dataset, storage_options)
    return _rewrite(session, dataset, RewriteOperation.COMPACT, options, retries, properties)


def materialize_deletions(
    session: SparkSession,
    dataset: lance_core.LanceDataset | str | Path,
    *,
    threshold: float = 0.1,
    retries: int = RETRIES,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Compacted:
    """Remove deleted rows from the data files of fragments that have many; other fragments are not rewritten.

    Args:
        session: a running Spark session.
        dataset: the table, or its location. A handle is moved to the new version.
        threshold: fraction of deleted rows above which a fragment is rewritten.
        retries: how often groups that conflict with other writers are planned and rewritten again.
        properties: properties of the transactions.
        storage_options: credentials and settings of the store, if the table is given by its location.
        options: as for ``lance_core.optimize.Compaction.plan``.

    Raises:
        LanceError: as for :func:`compact`.
    """
    dataset = opened(dataset, storage_options)
    chosen = {**options, "materialize_deletions_threshold": threshold}
    return _rewrite(session, dataset, RewriteOperation.MATERIALIZE_DELETIONS, chosen, retries, properties)


def _rewrite(
    session: SparkSession,
    dataset: lance_core.LanceDataset,
    operation: RewriteOperation,
    options: Mapping[str, Any],
    retries: int,
    properties: Mapping[str, str] | None,
) -> Compacted:
    tasks = plan_rewrite(dataset, operation, options).tasks
    metrics: list[CompactionMetrics] = []
    attempts = 0
    while tasks:
        if attempts > retries:
            raise TooMuchWriteContentionError(
                f"{dataset.uri}: giving up after {amount(attempts, 'attempt')}, because other writers changed "
                f"fragments of {amount(len(tasks), 'group')} that were being rewritten",
                uri=dataset.uri,
                attempts=attempts,
            )
        attempts += 1
        written = rewrite_tasks(session, dataset.uri, task_documents(tasks), storage_options=dataset.storage_options)
        results = [RewriteResult.from_json(text) for text in written.results]
        verify_row_counts(dataset.uri, results)
        done = commit_rewrites(
            dataset, results, transaction_properties=None if properties is None else dict(properties)
        )
        metrics.append(done.metrics)
        dataset.checkout_latest()
        tasks = plan_again(dataset, done.lost, without_budget(options)).tasks if done.lost else []
    return Compacted(version=dataset.version, metrics=CompactionMetrics.sum(metrics), attempts=attempts)
