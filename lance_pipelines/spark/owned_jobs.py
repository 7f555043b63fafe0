"""Cancels Spark jobs when the block that started them fails."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["owned_jobs"]

_WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


@contextmanager
def owned_jobs(session: SparkSession) -> Iterator[None]:
    """When an exception leaves the block, cancel the jobs that this thread started in it, and wait for their tasks.

    A failed job is reported at once, while its other tasks continue for some seconds until they notice. A cleanup after
    the job must wait for these tasks; otherwise, they would write more files. A Spark Connect session offers no way to
    wait, so its jobs are only canceled.
    """
    tag = f"lance-{uuid.uuid4()}"
    context = _context_of(session)
    add, remove = (session.addTag, session.removeTag) if context is None else (context.addJobTag, context.removeJobTag)
    add(tag)
    try:
        yield
    except Exception:
        _end_jobs(session, context, tag)
        with suppress(Py4JError, PySparkException):
            remove(tag)
        raise
    except BaseException:
        # An interrupt leaves this thread's connection to the JVM in the middle of a response; use another thread's.
        helper = threading.Thread(target=_end_jobs, args=(session, context, tag))
        helper.start()
        helper.join()
        raise
    remove(tag)


def _context_of(session: SparkSession) -> SparkContext | None:
    try:
        return session.sparkContext
    except PySparkException:
        return None


def _end_jobs(session: SparkSession, context: SparkContext | None, tag: str) -> None:
    with suppress(Py4JError, PySparkException):
        if context is None:
            session.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)
            _wait_for_tasks(context, tag)


def _wait_for_tasks(context: SparkContext, tag: str) -> None:
    tracker = context._jsc.sc().statusTracker()
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job.isDefined() for stage in job.get().stageIds()]
        if not any(stage.isDefined() and stage.get().numActiveTasks() for stage in stages):
            return
        time.sleep(_POLL_SECONDS)
