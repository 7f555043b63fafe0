"""Runs Spark work so that it stops when the run is interrupted.

If a signal handler raises an exception while the main thread waits for Spark, the thread's connection to the JVM
remains in the middle of a response. The next call on this connection, even a call to cancel the job, then waits until
the job ends. Therefore, the work runs in a thread with a separate connection, and the main thread, which receives the
signals, only waits for it.
"""

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from pyspark.sql import SparkSession

__all__ = ["raise_on_termination", "run_interruptibly"]

_Result = TypeVar("_Result")

_POLL_SECONDS = 0.5


def run_interruptibly(session: SparkSession, work: Callable[[], _Result]) -> _Result:
    """Run ``work`` and return its result.

    When the waiting thread is interrupted (Ctrl-C, a termination from the web interface, SIGTERM), the Spark jobs that
    ``work`` has started or is about to start are canceled. ``work`` may then clean up; after that, the interrupt is
    raised.

    Raises:
        BaseException: ``work`` failed, or the waiting thread was interrupted.
    """
    tag = f"interruptible-{uuid.uuid4()}"
    outcome: Future[_Result] = Future()
    interrupted = threading.Event()

    def run() -> None:
        # The interrupt may come while the thread starts; then there is nothing to cancel yet.
        if interrupted.is_set():
            return
        session.addTag(tag)
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001  # handed over to the thread that waits
            outcome.set_exception(error)
        finally:
            session.removeTag(tag)

    worker = threading.Thread(target=run, name="spark-work")
    try:
        worker.start()
        worker.join()
    except BaseException:
        interrupted.set()
        while worker.is_alive():
            session.interruptTag(tag)
            worker.join(_POLL_SECONDS)
        raise
    return outcome.result()


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` in the block on SIGTERM too, so that the block can stop what it has started."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
