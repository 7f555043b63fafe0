"""Reports the progress of the Spark jobs that a block runs: finished tasks, and the rows and bytes read so far.

A thread polls Spark's status, which executors update every few seconds, even in the middle of a task. It has its own
connection to the JVM, so an interrupt of the main thread does not disturb it. In a Spark Connect session, this status
is not available, and nothing is reported.

Source: ``AppStatusStore`` of Spark 4, which the pages of Spark's web interface show.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.errors import PySparkException

from lance_pipelines.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lance_pipelines.progress import Report

__all__ = ["watched_tasks"]

_POLL_SECONDS: Final = 1.0


@contextmanager
def watched_tasks(
    session: SparkSession, stage: str, report: Report, *, poll_seconds: float = _POLL_SECONDS
) -> Iterator[None]:
    """Report the progress of the session's running jobs until the block ends.

    Args:
        session: a Spark session.
        stage: what the jobs do.
        report: receives the progress, in another thread.
        poll_seconds: seconds between two reports.
    """
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(poll_seconds):
            # The session may end at any time, and a Spark Connect session has no status.
            with suppress(Py4JError, PySparkException, AttributeError):
                progress = _running(session, stage)
                if progress is not None and not ended.is_set():
                    report(progress)

    watcher = threading.Thread(target=watch, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _running(session: SparkSession, stage: str) -> Progress | None:
    """Return the progress of all running jobs together; None if there are none."""
    context = session.sparkContext
    store: Any = context._jsc.sc().statusStore()
    tasks = total_tasks = rows = num_bytes = 0
    for job_id in context.statusTracker().getActiveJobsIds():
        job = store.job(job_id)
        total_tasks += job.numTasks()
        tasks += job.numCompletedTasks()
        stage_ids = job.stageIds()
        for place in range(stage_ids.size()):
            # A stage that has not begun has no attempt.
            with suppress(Py4JError):
                attempt = store.lastStageAttempt(stage_ids.apply(place))
                rows += attempt.inputRecords()
                num_bytes += attempt.inputBytes()
    if not total_tasks:
        return None
    return Progress(stage=stage, tasks=tasks, total_tasks=total_tasks, rows=rows or None, num_bytes=num_bytes or None)
