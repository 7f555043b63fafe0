"""Runs whose process no longer exists: they are marked as failed, and their pool slots are released.

A process that was killed cannot report its end. Its run stays "started" forever, and if it was killed during a commit,
it keeps the pool slot of its dataset, so that the next commit would wait forever. Dagster's daemon cleans up after runs
that it launched itself, but not after ``dagster job execute``. Therefore, every run records its process, looks for dead
runs before its own commit, and continues to look while it may have to wait for the slot.

A run has an id only after it was launched, and ``dagster job execute`` has no hook between the launch and the first
step. Therefore, a run that is killed before its first step has no recorded process.

Only runs recorded in the same process namespace of the same machine are checked, because the same process id denotes a
different process elsewhere. The process of a run may also be unknown because Dagster replaces all tags of a run when it
adds some, so that one of two concurrent additions can be lost. Sensors and jobs wait for all other unfinished runs only
as long as ``silent_runs.py`` specifies. Dagster's daemon releases the pool slots of such runs, according to the limits
of ``run_monitoring`` in ``dagster.yaml``.
"""

import logging
import multiprocessing
import os
import socket
import threading
from contextlib import suppress
from typing import Final

import dagster as dg
import psutil
from sqlalchemy.exc import SQLAlchemyError

__all__ = [
    "MACHINE_TAG",
    "PROCESS_TAG",
    "fail_dead_runs",
    "machine",
    "note_run_process",
    "stop_watching",
    "watch_for_dead_runs",
]

MACHINE_TAG: Final = ".dagster/lance_pipelines/machine"
"""The prefix ``.dagster/`` hides this tag and ``PROCESS_TAG`` in the web interface."""

PROCESS_TAG: Final = ".dagster/lance_pipelines/process"

_CLOCK_TOLERANCE_SECONDS: Final = 60
"""Tolerance, in seconds, for comparing start times of processes; the times change if the system clock is adjusted."""

_WATCH_SECONDS: Final = 5.0

_watched: Final[dict[str, threading.Event]] = {}

_logger: Final = logging.getLogger(__name__)

_UNFINISHED: Final = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def note_run_process(instance: dg.DagsterInstance, run_id: str) -> None:
    """Record, in tags of a run, the process that the run depends on.

    A step of the multiprocess executor is a child of that process. For a run that a code server launched, the process
    of that server is recorded; the server monitors its runs itself.
    """
    parent = multiprocessing.parent_process()
    process_id = os.getpid() if parent is None else parent.pid
    if process_id is not None:
        instance.add_run_tags(run_id, {MACHINE_TAG: machine(), PROCESS_TAG: _identity(process_id)})


def fail_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Mark as failed all unfinished runs on this machine whose processes no longer exist, and release their slots.

    Returns:
        The ids of those runs.
    """
    noted_here = instance.get_runs(filters=dg.RunsFilter(statuses=_UNFINISHED, tags={MACHINE_TAG: machine()}))
    # The filter uses a table of tags, which may contain a tag that the run itself has lost to a concurrent addition.
    dead = [run for run in noted_here if PROCESS_TAG in run.tags and not _is_alive(run.tags[PROCESS_TAG])]
    for run in dead:
        process_id = run.tags[PROCESS_TAG].partition("@")[0]
        instance.report_run_failed(run, f"The run's process (process id {process_id}) no longer exists.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return [run.run_id for run in dead]


def watch_for_dead_runs(instance: dg.DagsterInstance, run_id: str) -> None:
    """Look for dead runs, which may hold the slot that this run needs, until :func:`stop_watching` is called."""
    stop = _watched[run_id] = threading.Event()
    watcher = threading.Thread(target=_watch, args=(instance, run_id, stop), name="dead-runs", daemon=True)
    watcher.start()


def stop_watching(run_id: str) -> None:
    """Stop looking for dead runs; called when the run has its slot or does not need one."""
    stop = _watched.pop(run_id, None)
    if stop is not None:
        stop.set()


def _watch(instance: dg.DagsterInstance, run_id: str, stop: threading.Event) -> None:
    while not stop.wait(_WATCH_SECONDS):
        try:
            run = instance.get_run_by_id(run_id)
            if run is None or run.is_finished:
                return
            fail_dead_runs(instance)
        except (SQLAlchemyError, OSError) as error:
            # Without the watcher the wait may be longer; an exception here would not shorten it.
            _logger.warning("stopped looking for unfinished runs whose process no longer exists: %s", error)
            return


def machine() -> str:
    """Return the scope in which a process id is unique: the host and, on Linux, the process namespace."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")  # not a path: "pid:[4026531836]"
    return f"{socket.gethostname()} {namespace}".strip()


def _identity(process_id: int) -> str:
    """Return the process id with its start time, because ids are reused."""
    return f"{process_id}@{psutil.Process(process_id).create_time():.0f}"


def _is_alive(identity: str) -> bool:
    process_id, _, started_at = identity.partition("@")
    try:
        process = psutil.Process(int(process_id))
        is_same = abs(process.create_time() - float(started_at)) < _CLOCK_TOLERANCE_SECONDS
        return is_same and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
