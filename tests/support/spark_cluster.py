"""A standalone Spark cluster of two workers on addresses of this machine, and drivers that run on it.

The workers are on 127.0.0.2 and 127.0.0.3, because Spark starts speculative attempts only on other hosts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pyspark

from lance_pipelines.spark.java import find_java_home
from tests.support.processes import ROOT
from tests.support.s3_servers import free_port

HOSTS = ("127.0.0.2", "127.0.0.3")
START_SECONDS = 120


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster; ``master`` is its URL."""

    master: str

    def start(self, request: dict[str, Any], output: IO[str], errors: IO[str]) -> subprocess.Popen[str]:
        """Start a driver that does what is requested; see :mod:`tests.support.spark_driver`.

        It writes to files: processes that it starts may outlive it, and would keep pipes open.
        """
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_driver"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env=_environment(),
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
        assert driver.stdin is not None
        driver.stdin.write(json.dumps({**request, "master": self.master}))
        driver.stdin.close()
        return driver

    def run(self, request: dict[str, Any], timeout: float = 600) -> dict[str, Any]:
        """Let a driver do what is requested, and return what it reports."""
        with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
            driver = self.start(request, output, errors)
            try:
                driver.wait(timeout)
            finally:
                end(driver)
                output.seek(0)
                errors.seek(0)
            assert driver.returncode == 0, errors.read()[-4000:]
            return json.loads(output.read().splitlines()[-1])


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process and those that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def spark_cluster(directory: Path) -> Iterator[SparkCluster]:
    """Start a master and two workers with one core each; their files are below the directory."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    processes = []
    try:
        processes.append(
            _start(directory, "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port))
        )
        _await_port(port)
        for host in HOSTS:
            options = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(directory / host), master]
            processes.append(_start(directory, host, f"{deploy}.worker.Worker", *options))
        _await_line(directory / "master.log", "Registering worker", len(HOSTS))
        yield SparkCluster(master)
    finally:
        for process in processes:
            end(process)


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {
        **os.environ,
        "LANCE_SPARK_CLASS_ARCHIVE": "0",
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": path,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


def _start(directory: Path, name: str, *arguments: str) -> subprocess.Popen[str]:
    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (directory / f"{name}.log").open("w") as log:
        return subprocess.Popen(
            [str(program), *arguments, "--webui-port", "0"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**_environment(), "SPARK_HOME": str(program.parents[1])},
            text=True,
            start_new_session=True,
        )


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError("the master did not start")


def _await_line(log: Path, text: str, times: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if log.read_text().count(text) >= times:
            return
        time.sleep(0.1)
    raise AssertionError(f"the workers did not register: {log.read_text()[-2000:]}")
