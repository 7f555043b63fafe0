"""Executes the tasks of a compaction plan in parallel, without committing anything.

One Spark job has a Spark task for each task of the plan (``tasks.py``). The Spark task receives the JSON of the rewrite
task, reads the old fragments at the plan's version, writes the new ones, and returns the result as JSON. No data passes
through the driver or the JVM, and no version refers to the new files until the results are committed.

The name of every data file of one job ends in that job's *file token*. ``leftovers.py`` uses it to find the files of
failed attempts.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import lance_core
from lance_core.optimize import CompactionTask
from lance_pipelines.spark.leftovers import discard_lost_attempts
from lance_pipelines.spark.tasks import run_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

__all__ = ["execute_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobSettings:
    """The parameters of every task; sent to the workers."""

    dataset_uri: str
    file_token: str
    stop_at: float | None
    storage_options: dict[str, str] | None = field(repr=False)


def execute_tasks(
    session: SparkSession,
    tasks: Sequence[str],
    *,
    dataset_uri: str,
    file_token: str,
    storage_options: Mapping[str, str] | None = None,
    stop_at: float | None = None,
) -> tuple[str, ...]:
    """Execute rewrite tasks, one per Spark task. Nothing is committed.

    The first task is always executed. From ``stop_at`` on, no other task is started; those in progress are completed.

    If this function fails, no task of the job is still running, and the files that the job wrote can be removed with
    :func:`~lance_pipelines.spark.leftovers.discard_files`.

    Args:
        session: a running Spark session.
        tasks: the compaction tasks, each serialized by ``CompactionTask.json()``.
        dataset_uri: the dataset's location.
        file_token: 16 hex digits, unique to this job.
        storage_options: credentials and settings of the dataset's store.
        stop_at: time, in seconds since the epoch, by the clocks of the workers; None for no limit.

    Returns:
        The result of each executed task, serialized by ``RewriteResult.json()``, in the order of the tasks.

    Raises:
        NotFoundError: a file of the plan's version is missing.
        CorruptDataError: a file cannot be decoded.
        StorageError: a storage operation failed, in a worker or in Spark.
        InternalError: an unexpected failure occurred.
    """
    if not tasks:
        return ()
    settings = _JobSettings(
        dataset_uri=dataset_uri,
        file_token=file_token,
        stop_at=stop_at,
        storage_options=None if storage_options is None else dict(storage_options),
    )
    numbered = list(enumerate(tasks))
    done = run_tasks(session, partial(_execute, settings), numbered, f"cannot rewrite fragments of {dataset_uri}")
    results = tuple(result for result in done.results if result is not None)
    if done.lost_attempts:
        fragments = [fragment for result in results for fragment in json.loads(result)["new_fragments"]]
        discard_lost_attempts(dataset_uri, file_token, fragments, storage_options=storage_options)
    return results


def _execute(settings: _JobSettings, numbered: tuple[int, str]) -> str | None:
    """Return the result of a task; None if it is too late to start it."""
    number, text = numbered
    if number > 0 and settings.stop_at is not None and time.time() >= settings.stop_at:
        return None
    task = CompactionTask.from_json(text)
    dataset = lance_core.dataset(
        settings.dataset_uri, version=task.read_version, storage_options=settings.storage_options
    )
    return task.execute(dataset, file_token=settings.file_token).json()
