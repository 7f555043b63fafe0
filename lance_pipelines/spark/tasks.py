"""Executes independent tasks in parallel, one per Spark task, and returns their results in order.

The tasks are serialized together with the function that executes them, and Spark's rows contain only their numbers, so
that neither ``SparkContext`` nor RDDs are needed, and Spark Connect works too. Tasks and results are metadata; no data
passes through the driver or the JVM.

An attempt that fails is repeated by Spark, up to ``spark.task.maxFailures`` times. If a task was attempted repeatedly,
only the result of one attempt is returned.

Source: ``DataFrame.mapInArrow`` of PySpark 4.3.
"""

from __future__ import annotations

import pickle
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException

from lance_core.errors import InternalError
from lance_pipelines.maintenance.plan_table import amount
from lance_pipelines.spark.failures import reported_to_driver, translated
from lance_pipelines.spark.owned_jobs import owned_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Row, SparkSession

__all__ = ["TaskResults", "default_parallelism", "may_lose_attempts", "run_tasks"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_REPORT: Final = pa.schema(
    [
        pa.field("task_index", pa.int32(), nullable=False),
        pa.field("attempt_number", pa.int32(), nullable=False),
        pa.field("result", pa.binary(), nullable=False),
    ]
)
_REPORT_DDL: Final = "task_index INT NOT NULL, attempt_number INT NOT NULL, result BINARY NOT NULL"
_SPLITS: Final = re.compile(r"splits=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResults(Generic[_Result]):
    """The results of all tasks.

    Attributes:
        results: the result of each task, in the order of the tasks.
        lost_attempts: whether other attempts may have left files behind.
    """

    results: tuple[_Result, ...]
    lost_attempts: bool


def run_tasks(
    session: SparkSession, execute: Callable[[_Task], _Result], tasks: Sequence[_Task], what: str
) -> TaskResults[_Result]:
    """Execute tasks, one per Spark task. If this function fails, no task of the job is still running.

    Args:
        session: a running session, which may be a Spark Connect session.
        execute: executes one task in a worker. The function, the tasks, and the results must be picklable.
        tasks: the tasks; with none, no job is started.
        what: description of a failure, as the beginning of a sentence: ``"cannot rewrite fragments of
            …"``.

    Raises:
        LanceError: a task has failed with this error in every attempt.
        StorageError: a worker exited repeatedly, or Spark has no space left.
        InternalError: an unexpected failure occurred.
    """
    if not tasks:
        return TaskResults(results=(), lost_attempts=False)
    payloads: list[bytes] = [cloudpickle.dumps(task) for task in tasks]  # type: ignore[no-untyped-call]
    with translated(what), owned_jobs(session):
        # As many partitions as rows: each task is a separate Spark task, and is repeated alone if it fails.
        indices = session.range(0, len(tasks), 1, len(tasks))
        reports = indices.mapInArrow(partial(_execute, execute, payloads), _REPORT_DDL).collect()
        lost_attempts = may_lose_attempts(session, reports)
    latest = {report.task_index: report for report in sorted(reports, key=lambda report: report.attempt_number)}
    if len(latest) != len(tasks):
        raise InternalError(f"{what}: expected results from {amount(len(tasks), 'task')}, found {len(latest)}")
    results = tuple(pickle.loads(latest[index].result) for index in range(len(tasks)))  # of our workers
    return TaskResults(results=results, lost_attempts=lost_attempts)


def may_lose_attempts(session: SparkSession, reports: Sequence[Row]) -> bool:
    """Return whether attempts other than those that reported may have left files behind.

    Args:
        session: the session.
        reports: the reports of all tasks of a job, with their attempt numbers.
    """
    if any(report.attempt_number for report in reports):
        return True
    return (session.conf.get("spark.speculation", "false") or "").lower() == "true"


def default_parallelism(session: SparkSession) -> int:
    """Return the number of tasks into which Spark divides a job by default, about the number of cores; at least 1."""
    try:
        plan = session.sql("EXPLAIN SELECT * FROM range(1)").collect()[0][0]
    except (PySparkException, Py4JError):
        return 1
    found = _SPLITS.search(plan)
    return 1 if found is None else max(1, int(found[1]))


def _execute(
    execute: Callable[[Any], Any], payloads: Sequence[bytes], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Execute the tasks whose numbers are in the batches, and yield one report for each; runs in a worker."""
    attempt_number = cast("TaskContext", TaskContext.get()).attemptNumber()
    for batch in batches:
        for index in batch.column(0).to_pylist():
            with reported_to_driver():
                result = execute(pickle.loads(payloads[index]))  # of our driver
            report = {"task_index": index, "attempt_number": attempt_number, "result": pickle.dumps(result)}
            yield pa.RecordBatch.from_pylist([report], schema=_REPORT)
