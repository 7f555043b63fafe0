"""A Dagster daemon as a process that tests kill, with a code server that outlives it and executes the runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import dagster as dg
import psutil
import yaml
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.scheduler.instigation import InstigatorTick
from dagster._grpc.client import DagsterGrpcClient

from tests.support.processes import ROOT
from tests.support.s3_servers import free_port

_LOCATION: Final = "lake"
_POLL_SECONDS: Final = 0.02
_FINISHED: Final = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class Daemon:
    """A directory with definitions and an instance, a code server, and a daemon.

    Args:
        directory: an existing directory.
        definitions: the text of a module with definitions.
        max_concurrent_runs: number of runs that may be in progress.
        run_monitoring: settings that differ from the section of that name in the project's ``dagster.yaml``.
    """

    def __init__(
        self,
        directory: Path,
        definitions: str,
        *,
        max_concurrent_runs: int = 2,
        run_monitoring: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir()
        (directory / "lake_definitions.py").write_text(definitions)
        self._port = free_port()
        server = {"grpc_server": {"host": "127.0.0.1", "port": self._port, "location_name": _LOCATION}}
        (directory / "workspace.yaml").write_text(json.dumps({"load_from": [server]}))
        settings = yaml.safe_load((ROOT / "dagster.yaml").read_text())
        # The test's own process has another DAGSTER_HOME, or none.
        settings["storage"]["custom"]["config"] = {"base_dir": str(self.home)}
        settings["concurrency"]["runs"]["max_concurrent_runs"] = max_concurrent_runs
        settings["run_monitoring"] |= run_monitoring
        queue = {"module": "dagster.core.run_coordinator", "class": "QueuedRunCoordinator"}
        queue |= {"config": {"dequeue_interval_seconds": 1}}
        (self.home / "dagster.yaml").write_text(yaml.safe_dump({**settings, "run_coordinator": queue}))
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("DAGSTER", "LANCE_"))}
        path = os.pathsep.join([str(directory), str(ROOT)])
        self.environment = {
            **kept,
            "DAGSTER_HOME": str(self.home),
            "PYTHONPATH": path,
            "LANCE_SPARK_CLASS_ARCHIVE": "0",
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._daemon: subprocess.Popen[bytes] | None = None
        self.instance = dg.DagsterInstance.from_config(str(self.home))

    def __enter__(self) -> Self:
        address = ("-h", "127.0.0.1", "-p", str(self._port))
        self._server = self._start("code-server", "dagster", "api", "grpc", *address, "-m", "lake_definitions")
        client = DagsterGrpcClient(host="127.0.0.1", port=self._port)
        self.wait_until(lambda: _answers(client), "the code server does not start")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (self._daemon, self._server):
            if process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.instance.dispose()

    def start(self) -> None:
        """Start the daemon."""
        self._daemon = self._start("daemon", "dagster._daemon", "run", "-w", str(self.directory / "workspace.yaml"))

    def kill(self) -> None:
        """Kill the daemon with SIGKILL; the code server and the runs continue."""
        assert self._daemon is not None
        assert self._daemon.poll() is None, self.log("daemon")
        self._daemon.kill()
        self._daemon.wait()

    def wait_until(self, condition: Callable[[], bool], what: str, *, seconds: float = 300) -> None:
        """Poll until a condition holds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what}\n{self.log('daemon')}\n{self.log('code-server')}"
            time.sleep(_POLL_SECONDS)

    def runs(self) -> list[dg.DagsterRun]:
        """Return all runs, newest first."""
        return list(self.instance.get_runs())

    def run_processes(self) -> list[psutil.Process]:
        """Return the processes of the runs that are in progress."""
        assert self._server is not None
        children = psutil.Process(self._server.pid).children(recursive=True)
        found = []
        for child in children:
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def is_idle(self) -> bool:
        """Return whether all runs have ended."""
        return all(run.status in _FINISHED for run in self.runs())

    def ticks(self, sensor: str) -> list[InstigatorTick]:
        """Return the ticks of a sensor, newest first."""
        states = [state for state in self.instance.all_instigator_state() if state.instigator_name == sensor]
        return [
            tick for state in states for tick in self.instance.get_ticks(state.instigator_origin_id, state.selector_id)
        ]

    def log(self, name: str) -> str:
        """Return the end of the output of a process."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _start(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", program, *arguments],
                cwd=self.directory,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _answers(client: DagsterGrpcClient) -> bool:
    try:
        client.list_repositories()
    except DagsterUserCodeUnreachableError:
        return False
    return True
