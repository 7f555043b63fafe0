"""Executes the tasks of a compaction plan in parallel, without committing anything.

One Spark job has a Spark task for each task of the plan. The Spark task receives the JSON of the rewrite task, reads
the old fragments at the plan's version, writes the new ones, and returns one row with the result as JSON. No data
passes through the driver or the JVM, and no version refers to the new files until the results are committed.

The name of every data file of one job ends in that job's *file token*. ``leftovers.py`` uses it to find the files of
failed attempts.

Source: ``DataFrame.mapInArrow`` of PySpark 4.3.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from pyspark import TaskContext

import lance_core
from lance_core.errors import InternalError
from lance_core.optimize import CompactionTask
from lance_pipelines.spark.failures import reported_to_driver, translated
from lance_pipelines.spark.leftovers import discard_lost_attempts
from lance_pipelines.spark.owned_jobs import owned_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Row, SparkSession

__all__ = ["execute_tasks"]

_TASK_DDL: Final = "task_index INT NOT NULL, task STRING NOT NULL"
_REPORT: Final = pa.schema(
    [
        pa.field("task_index", pa.int32(), nullable=False),
        pa.field("attempt_number", pa.int32(), nullable=False),
        pa.field("result", pa.string(), nullable=False),
    ]
)
_REPORT_DDL: Final = "task_index INT NOT NULL, attempt_number INT NOT NULL, result STRING NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobSettings:
    """The parameters of every task; sent to the workers."""

    dataset_uri: str
    file_token: str
    storage_options: dict[str, str] | None = field(repr=False)


def execute_tasks(
    session: SparkSession,
    tasks: Sequence[str],
    *,
    dataset_uri: str,
    file_token: str,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Execute rewrite tasks, one per Spark task. Nothing is committed.

    If this function fails, no task of the job is still running, and the files that the job wrote can be removed with
    :func:`~lance_pipelines.spark.leftovers.discard_files`.

    Args:
        session: a running Spark session, but not a Spark Connect session.
        tasks: the compaction tasks, each serialized by ``CompactionTask.json()``.
        dataset_uri: the dataset's location.
        file_token: 16 hex digits, unique to this job.
        storage_options: credentials and settings of the dataset's store.

    Returns:
        The result of each task, serialized by ``RewriteResult.json()``, in the order of the tasks.

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
        storage_options=None if storage_options is None else dict(storage_options),
    )
    with translated(f"cannot rewrite fragments of {dataset_uri}"), owned_jobs(session):
        # As many slices as rows: each rewrite is a separate Spark task, and is retried alone if it fails.
        shipped = session.sparkContext.parallelize(list(enumerate(tasks)), len(tasks))
        frame = session.createDataFrame(shipped, _TASK_DDL, verifySchema=False)
        reports = frame.mapInArrow(partial(_execute_partition, settings), _REPORT_DDL).collect()
    results = _one_result_each(reports, len(tasks), dataset_uri)
    if any(report.attempt_number for report in reports):
        fragments = [fragment for result in results for fragment in json.loads(result)["new_fragments"]]
        discard_lost_attempts(dataset_uri, file_token, fragments, storage_options=storage_options)
    return results


def _execute_partition(settings: _JobSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Execute one task and yield one report; runs in a worker."""
    attempt_number = cast("TaskContext", TaskContext.get()).attemptNumber()
    for batch in batches:
        indices, texts = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        for index, text in zip(indices, texts, strict=True):
            with reported_to_driver():
                result = _execute(settings, text)
            report = {"task_index": index, "attempt_number": attempt_number, "result": result}
            yield pa.RecordBatch.from_pylist([report], schema=_REPORT)


def _execute(settings: _JobSettings, text: str) -> str:
    task = CompactionTask.from_json(text)
    dataset = lance_core.dataset(
        settings.dataset_uri, version=task.read_version, storage_options=settings.storage_options
    )
    return task.execute(dataset, file_token=settings.file_token).json()


def _one_result_each(reports: Sequence[Row], num_tasks: int, dataset_uri: str) -> tuple[str, ...]:
    """Return one result per task, in order. If a task was attempted again, only its last attempt counts."""
    latest: dict[int, Row] = {}
    for report in reports:
        known = latest.get(report.task_index)
        if known is None or known.attempt_number < report.attempt_number:
            latest[report.task_index] = report
    if len(latest) != num_tasks:
        raise InternalError(
            f"{dataset_uri}: {num_tasks} rewrite tasks were started, but {len(latest)} returned a result"
        )
    return tuple(latest[index].result for index in range(num_tasks))
