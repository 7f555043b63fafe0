"""Signal handlers are restored after in-process jobs, regardless of how the tests were started."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

REPOSITORY = Path(__file__).parents[2]
_WORKER = "PYTEST_XDIST_WORKER"


@dg.op
def nothing() -> None:
    """Does nothing."""


@dg.job
def idle() -> None:
    """Runs an op that does nothing."""
    nothing()


@pytest.mark.skipif(_WORKER in os.environ, reason="forks; the tests below run it in a process without other threads")
def test_forked_process_pools_terminate_after_an_in_process_run() -> None:
    """``Pool.terminate`` sends its workers SIGTERM and waits for their end."""
    assert idle.execute_in_process().success
    fork = multiprocessing.get_context("fork")
    begun = fork.Barrier(3)
    with fork.Pool(2, initializer=begun.wait) as pool:
        # A worker that receives the signal while it is being forked ignores the signal.
        begun.wait()
        assert pool.map(abs, [-1, -2]) == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_process_pool_terminates_when_the_tests_run_in_the_background(handler: signal.Handlers) -> None:
    """A shell without job control starts background commands with SIGINT ignored."""
    test = f"{Path(__file__).name}::{test_forked_process_pools_terminate_after_an_in_process_run.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", f"tests/dagster/{test}"],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if name != _WORKER},
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout, done.stdout
