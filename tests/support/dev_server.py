"""A ``dagster dev`` server for a test, and its GraphQL interface."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lance_pipelines.demo.web_api import WebApi

DEADLINE_SECONDS = 300


class DevServer(WebApi):
    """A running ``dagster dev``."""

    def __init__(self, url: str, location: str, process: subprocess.Popen[str], log: Path) -> None:
        super().__init__(url, location)
        self.url = url
        self._process = process
        self._log = log

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Poll until the condition holds; a server that does not respond counts as not fulfilling the condition."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if condition():
                    return
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"{what}\n{self._log.read_text()[-5000:]}"
            time.sleep(0.5)

    def wait_for_run(self, run_id: str) -> str:
        """Wait for a run, and return its final status."""
        self.wait_until(lambda: self.status(run_id) in ("SUCCESS", "FAILURE", "CANCELED"), "the run does not end")
        return self.status(run_id)


@contextmanager
def dev_server(
    start: Callable[..., subprocess.Popen[str]], log: Path, *arguments: str, location: str
) -> Iterator[DevServer]:
    """Start a server, wait until its code location is loaded, and finally stop all of its processes.

    Args:
        start: starts ``dagster`` with some arguments, in a process group of its own.
        log: where the output of all processes goes.
        arguments: further ones of ``dagster dev``.
        location: the name that the code location must have.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("w") as stream:
        process = start("dev", *arguments, "-h", "127.0.0.1", "-p", str(port), output=stream)
    server = DevServer(f"http://127.0.0.1:{port}", location, process, log)
    try:
        server.wait_until(server.is_loaded, f"the code location {location} does not load")
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
