"""Runs a Spark Connect server as a child process, for sessions that are shared by several runs.

The server has the settings of a local session. Its files are in one temporary directory, which is removed when the
server ends. The server ends when the process that started it ends.

Source: ``SparkConnectServer`` of Spark 4.3, started by ``spark-submit``.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.find_spark_home import _find_spark_home

from lance_core.errors import InvalidInputError, StorageError
from lance_pipelines.spark.java import restore_environment
from lance_pipelines.spark.session import local_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["DEFAULT_PORT", "ConnectServer", "connect_server"]

DEFAULT_PORT: Final = 15002
"""The port of a URL ``sc://host`` without a port."""

_MAIN_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS: Final = 180
_STOP_SECONDS: Final = 30
_POLL_SECONDS: Final = 0.1
_SET_PARENT_DEATH_SIGNAL: Final = 1


class ConnectServer:
    """A running server.

    Attributes:
        url: the URL for ``SparkResource(remote=…)``.
    """

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self._process = process
        self.url = url

    def wait(self) -> int:
        """Wait until the server ends, and return its exit code."""
        return self._process.wait()


@contextmanager
def connect_server(
    settings: Mapping[str, str] | None = None, *, host: str = "127.0.0.1", port: int = DEFAULT_PORT
) -> Iterator[ConnectServer]:
    """Start a server, yield it once it accepts connections, and stop it afterward.

    Args:
        settings: Spark properties that override those of a local session.
        host: the address to listen on. The server runs the code of every client that can connect to it.
        port: the port to listen on; 0 for any free port.

    Raises:
        InvalidInputError: the address is not available.
        NotFoundError: no Java was found to run Spark.
        StorageError: the server ended before it accepted connections.
    """
    port = _available(host, port)
    scratch = Path(tempfile.mkdtemp(prefix="lance-pipelines-connect-"))
    try:
        process = _start(dict(settings or {}), host, port, scratch)
        try:
            _await_port(process, host, port)
            yield ConnectServer(process, f"sc://{host}:{port}")
        finally:
            _stop(process)
    finally:
        restore_environment()
        shutil.rmtree(scratch, ignore_errors=True)


def _available(host: str, port: int) -> int:
    try:
        with socket.create_server((host, port)) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise InvalidInputError(f"the Spark Connect server cannot listen on {host}:{port}: {error.strerror}") from error


def _start(settings: dict[str, str], host: str, port: int, scratch: Path) -> subprocess.Popen[bytes]:
    bound = {"spark.connect.grpc.binding.address": host, "spark.connect.grpc.binding.port": str(port)}
    merged = local_settings({**settings, **bound}, scratch=scratch)
    # Settings may be secret, and everybody can see the arguments of a process.
    properties = scratch / "spark.conf"
    properties.touch(0o600)
    properties.write_text("".join(f"{name} {_escaped(value)}\n" for name, value in merged.items()), encoding="utf-8")
    submit = Path(_find_spark_home(), "bin", "spark-submit")
    return subprocess.Popen(
        [str(submit), "--class", _MAIN_CLASS, "--properties-file", str(properties)],
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        # Ctrl-C is for this process, which then ends the server.
        start_new_session=True,
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _await_port(process: subprocess.Popen[bytes], host: str, port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StorageError("the Spark Connect server did not start; see the console output for the cause")
        with suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(_POLL_SECONDS)
    raise StorageError(f"the Spark Connect server did not start within {_START_SECONDS} seconds")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # The daemons of its Python workers are in the same session.
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGTERM)
