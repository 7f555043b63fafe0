"""An interrupt during Spark work cancels the Spark jobs."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from lance_pipelines.spark.interruption import run_interruptibly


class Session:
    """A session whose jobs with a tag run until the tag is interrupted."""

    def __init__(self) -> None:
        self.tags: list[str] = []
        self.interrupted = threading.Event()

    def addTag(self, tag: str) -> None:
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:
        self.tags.remove(tag)

    def interruptTag(self, tag: str) -> None:
        assert self.tags == [tag]
        self.interrupted.set()


class JobCancelledError(Exception):
    """Raised by a canceled job in the thread that waits for the job."""


def test_interruptible_work_returns_its_result_or_raises_its_exception() -> None:
    session = Session()
    assert run_interruptibly(session, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(session, lambda: 1 / 0)
    assert session.tags == []
    assert not session.interrupted.is_set()


def test_an_interrupt_cancels_spark_jobs_and_waits_for_their_cleanup() -> None:
    session = Session()
    cleaned_up = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)  # the main thread receives the signal while it waits for this thread
        try:
            assert session.interrupted.wait(60)
            raise JobCancelledError
        finally:
            cleaned_up.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(session, work)
    assert cleaned_up == [True]
    assert session.tags == []
