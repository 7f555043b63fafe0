"""The demonstration's own ``dagster dev``, which runs a web server, a daemon, and a code server as processes.

The instance is in the demonstration's directory, so that the user's own instance is not affected. The processes form a
process group and are stopped at the end of the ``with`` block.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from lance_core.errors import StorageError
from lance_pipelines.demo.web_api import WebApi
from lance_pipelines.settings import child_environment

__all__ = ["DevServer"]

DEFINITIONS_MODULE: Final = "lance_pipelines.demo.definitions"

_POLL_SECONDS: Final = 0.5
_HEARTBEAT_SECONDS: Final = 10
_START_SECONDS: Final = 300
_STOP_SECONDS: Final = 60
_LOG_TAIL_CHARACTERS: Final = 4000

_INSTANCE: Final = {
    "storage": {
        "custom": {
            "module": "lance_pipelines.instance_storage",
            "class": "LockedSqliteStorage",
            "config": {},
        }
    },
    "run_coordinator": {
        "module": "dagster.core.run_coordinator",
        "class": "QueuedRunCoordinator",
        "config": {"dequeue_interval_seconds": 1},
    },
    "concurrency": {"runs": {"max_concurrent_runs": 2}, "pools": {"granularity": "op", "default_limit": 1}},
    "run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 15},
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
}


class DevServer:
    """A running ``dagster dev``.

    Args:
        directory: directory for the instance and the log; created if it does not exist.
        warehouse: directory that contains the datasets.
        port: port of the web server; 0 selects a free port.
    """

    def __init__(self, directory: Path, *, warehouse: Path, port: int = 0) -> None:
        """Initialize without starting a process."""
        self._home = directory / "dagster_home"
        self._log = directory / "dagster-dev.log"
        self._warehouse = warehouse
        self._port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.api = WebApi(self.url, DEFINITIONS_MODULE)

    @property
    def log(self) -> Path:
        """Path of the file that contains the output of all processes."""
        return self._log

    def __enter__(self) -> Self:
        """Start the server, and wait until the code location is loaded.

        Raises:
            StorageError: the server does not start.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        # JSON is YAML.
        (self._home / "dagster.yaml").write_text(json.dumps(_INSTANCE, indent=2), encoding="utf-8")
        command = [sys.executable, "-m", "dagster", "dev", "-m", DEFINITIONS_MODULE]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "-h", "127.0.0.1", "-p", str(self._port)],
                cwd=self._home,
                env=child_environment(warehouse=self._warehouse, dagster_home=self._home),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            self.wait_until(self.api.is_loaded, "the code location did not load", seconds=_START_SECONDS)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop every process."""
        self._stop()

    def wait_until(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        seconds: float,
        heartbeat: Callable[[], None] | None = None,
    ) -> None:
        """Wait until a condition is true.

        Args:
            condition: function that returns whether the condition is true; it is called repeatedly. While the server
                does not answer, the condition counts as false.
            what: what to report if the timeout expires, for example "the job did not start"; the error message
                continues with the number of seconds.
            seconds: the timeout in seconds.
            heartbeat: called every few seconds during the wait.

        Raises:
            StorageError: the timeout expired, or a process ended.
        """
        deadline = time.monotonic() + seconds
        next_heartbeat = time.monotonic() + _HEARTBEAT_SECONDS
        while True:
            with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if condition():
                    return
                if heartbeat is not None and time.monotonic() > next_heartbeat:
                    heartbeat()
                    next_heartbeat = time.monotonic() + _HEARTBEAT_SECONDS
            if self._process is None or self._process.poll() is not None:
                raise StorageError(f"dagster dev exited; the last lines of {self._log}:\n{self._tail()}")
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{what} within {seconds:.0f} seconds; the last lines of {self._log}:\n{self._tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def _tail(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARACTERS:]

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        # Servers and runs of the group that are still running.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
