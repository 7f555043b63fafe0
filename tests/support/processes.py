"""Processes that tests start: Python programs of the project, simultaneous processes, and runs that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
"""Of the repository."""

DEADLINE_SECONDS = 600


def start_python(*arguments: str) -> subprocess.Popen[str]:
    """Start Python with these arguments and the repository on its path; all three streams are pipes."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])},
        text=True,
    )


def let_go(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until each process prints ``ready``, then send a line to each."""
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def run_together(processes: Sequence[subprocess.Popen[str]], *, timeout: float) -> list[str]:
    """Start processes simultaneously and return their subsequent output. All must succeed, and none keeps running."""
    try:
        let_go(processes)
        answers = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for (_, errors), process in zip(answers, processes, strict=True):
        assert process.returncode == 0, f"{process.args}: {errors}"
    return [output for output, _ in answers]


def kill(process: subprocess.Popen[str], *, whole_tree: bool = True) -> None:
    """Kill a run with SIGKILL, with or without its JVM and workers, and check that these also end."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        children = []
    process.kill()
    if whole_tree:
        for child in children:
            child.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive, f"left running: {alive}"


def wait_until(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Poll until a run fulfills a condition."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kill_when(process: subprocess.Popen[str], condition: Callable[[], bool], *, whole_tree: bool = True) -> None:
    """Kill a run as soon as the condition holds."""
    wait_until(process, condition)
    kill(process, whole_tree=whole_tree)
