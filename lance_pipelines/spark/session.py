"""Starts and stops a Spark session and its JVM.

There are two sets of default settings: :data:`SESSION_DEFAULTS` for every master, and :data:`LOCAL_DEFAULTS` for
``local[…]`` masters, where the driver is the whole cluster. The caller's settings override both. A local session keeps
its files in one temporary directory and does not use the working directory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # no types
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from lance_core.errors import InvalidInputError, StorageError
from lance_pipelines.spark.class_archive import ClassArchive
from lance_pipelines.spark.failures import translate_failure
from lance_pipelines.spark.java import prepare_environment, restore_environment
from lance_pipelines.spark.worker_daemon import DAEMON_MODULE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.connect.client.retries import RetryPolicy

__all__ = [
    "LOCAL_DEFAULTS",
    "SESSION_DEFAULTS",
    "is_connect_session",
    "local_settings",
    "merge_settings",
    "start_session",
    "stop_session",
]

SESSION_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Every core, and four attempts for a task: plain local[*] gives up at the first failure.
        "spark.master": "local[*,4]",
        "spark.app.name": "lance-pipelines",
        "spark.sql.session.timeZone": "UTC",
        # Larger batches are slower: 65536 wide rows take 1.7 times as long to reach the worker as 10000.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        # Long texts reach a worker in small batches too; it needs a multiple of the memory of a batch.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024**2),
        "spark.sql.execution.arrow.useLargeVarTypes": "false",
        # A batch of a wrong type fails in the worker, naming the column, and not in generated Java code.
        "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    }
)
"""Default settings of every session."""

_DAEMON_SETTING: Final = "spark.python.daemon.module"

LOCAL_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Workers are forked from a process that has imported what they need.
        _DAEMON_SETTING: DAEMON_MODULE,
        # The driver lists up to this many paths itself; a job for it takes seconds, and has no more processors.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
    }
)
"""Additional default settings of ``local[…]`` sessions."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_REMOTE_SCHEME: Final = "sc://"
_REMOTE_PORT: Final = 15002
_CONNECT_SECONDS: Final = 10
_LOGGING_FILE: Final = "log4j2.properties"
_STOP_SECONDS: Final = 30
_LOGGING: Final = r"""# One line per warning: the full cause of a failed job is in the exception that the driver raises.
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
# From a worker's traceback, the line that names the error; then, from every message, the first line.
property.error = %replace{%m %ex{short.message}}{(?s)Traceback .most recent call last.:\\n.*?\\n([^ \\n][^\\n]*).*}{$1}
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %replace{${error}}{(?s)\\n.*}{}%ex{0}%n
# The scheduler reports the same failures, once each.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.address.name = org.apache.spark.util.Utils
logger.address.level = error
# Spark looks for the metadata of a stream's output at each path that it reads. If the path is a glob, it may warn:
# "Assume no metadata directory". The assumption is correct, because a stream's output is a directory, and not a glob.
logger.streams.name = org.apache.spark.sql.execution.streaming
logger.streams.level = error
logger.plans.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.plans.level = error
"""

_scratch_directories: Final[list[Path]] = []
_unrecorded: Final[list[ClassArchive]] = []


def merge_settings(settings: Mapping[str, str], *, scratch: Path) -> dict[str, str]:
    """Merge the caller's settings with the defaults. Changes nothing.

    Args:
        settings: Spark properties; each replaces the default, except ``spark.driver.extraJavaOptions``, which is
            appended to the default.
        scratch: directory for Spark's warehouse and for ``log4j2.properties``; used only by local sessions.

    Returns:
        Every property to start the session with.
    """
    merged = dict(SESSION_DEFAULTS)
    if "spark.remote" in settings:
        del merged["spark.master"]
    elif settings.get("spark.master", merged["spark.master"]).startswith("local"):
        merged |= LOCAL_DEFAULTS
        if not _is_own_python(settings):
            # Another Python may not have this project.
            del merged[_DAEMON_SETTING]
        merged["spark.sql.warehouse.dir"] = (scratch / "warehouse").as_uri()
        merged[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={(scratch / _LOGGING_FILE).as_uri()}"
    java_options = [options[_JAVA_OPTIONS] for options in (merged, settings) if options.get(_JAVA_OPTIONS)]
    merged |= settings
    if java_options:
        merged[_JAVA_OPTIONS] = " ".join(java_options)
    return merged


def local_settings(settings: Mapping[str, str], *, scratch: Path) -> dict[str, str]:
    """Prepare the start of a JVM by this process: merge the settings, set the environment, and write the log settings.

    Args:
        settings: as for :func:`merge_settings`.
        scratch: an existing directory.

    Raises:
        NotFoundError: no Java was found to run Spark.
    """
    (scratch / _LOGGING_FILE).write_text(_LOGGING, encoding="utf-8")
    merged = merge_settings(settings, scratch=scratch)
    prepare_environment(merged.get("spark.master", ""))
    _use_class_archive(merged)
    return merged


def _is_own_python(settings: Mapping[str, str]) -> bool:
    """Return whether the settings, or else the environment variables, make the workers run this process's Python."""
    chosen = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    path, own = Path(shutil.which(chosen) or chosen), Path(sys.executable)
    # The program of a virtual environment is a link to one that has other packages.
    return path.parent == own.parent and path.resolve() == own.resolve()


def start_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session. If one is already running in this process, return that one; its static settings do not change.

    Args:
        settings: Spark properties that override the defaults.

    Raises:
        NotFoundError: no Java was found to run Spark.
        StorageError: the JVM exited before Spark had started, or no Spark Connect server answers.
        LanceError: Spark rejects a setting.
    """
    scratch = Path(tempfile.mkdtemp(prefix="lance-pipelines-spark-"))
    _scratch_directories.append(scratch)
    given = settings or {}
    is_remote = given.get("spark.remote", "").startswith(_REMOTE_SCHEME)
    if is_remote:
        _check_reachable(given["spark.remote"])
    merged = merge_settings(given, scratch=scratch) if is_remote else local_settings(given, scratch=scratch)
    builder = SparkSession.builder
    for name, value in merged.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
        if is_remote:
            # A server that has ended would otherwise be called again for ten minutes.
            session.client.set_retry_policies([_short_retries()])
        return session
    except (PySparkException, Py4JError) as error:
        _remove_scratch()
        restore_environment()
        if isinstance(error, PySparkRuntimeError):
            raise StorageError("Spark did not start: its JVM exited; see the console output for the cause") from error
        raise translate_failure(error, "Spark did not start") from error


def is_connect_session(session: SparkSession) -> bool:
    """Return whether the session is on a Spark Connect server, even if its client classes are not installed."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def _check_reachable(url: str) -> None:
    """Connect to a Spark Connect server once, because its client retries for ten minutes."""
    parts = urlsplit(url)
    try:
        address = (parts.hostname or "", parts.port or _REMOTE_PORT)
        with socket.create_connection(address, timeout=_CONNECT_SECONDS):
            return
    except ValueError as error:
        raise InvalidInputError(f"invalid Spark Connect URL: {error}; expected sc://host:port") from error
    except OSError as error:
        raise StorageError(f"no Spark Connect server answers at {address[0]}:{address[1]}: {error}") from error


def _short_retries() -> RetryPolicy:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(max_retries=7)


def stop_session(session: SparkSession, *, max_seconds: float = _STOP_SECONDS) -> bool:
    """Stop a session and end its JVM and Python workers, so that the next session starts new ones.

    ``SparkSession.stop`` alone leaves the JVM running with the Java runtime, the memory, and the options that it
    started with. A JVM that started this Python process (spark-submit) is not stopped, and neither is a Spark Connect
    server.

    Args:
        session: the session.
        max_seconds: how long to wait for the JVM before it is killed.

    Returns:
        False if the JVM was killed.
    """
    has_ended = True
    session.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is not None and isinstance(process, subprocess.Popen):
        gateway.shutdown()
        SparkContext._gateway = None
        SparkContext._jvm = None
        has_ended = _end(process, max_seconds)
        while _unrecorded:
            _unrecorded.pop().start_recording()
    _remove_scratch()
    restore_environment()
    return has_ended


def _use_class_archive(merged: dict[str, str]) -> None:
    """Add the Java options of the class archive to the settings of a local session whose JVM will be started."""
    if not merged.get("spark.master", "").startswith("local") or SparkContext._gateway is not None:
        return
    options = merged.get(_JAVA_OPTIONS, "")
    archive = ClassArchive.of(Path(os.environ["JAVA_HOME"]), Path(_find_spark_home(), "jars"), java_options=options)
    if archive is None:
        return
    if archive.java_options:
        merged[_JAVA_OPTIONS] = f"{archive.java_options} {options}".rstrip()
    else:
        _unrecorded.append(archive)


def _end(process: subprocess.Popen[bytes], max_seconds: float) -> bool:
    """Close the standard input of the gateway's JVM, which then exits; kill it if it does not, and return False."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(max_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


@atexit.register
def _remove_scratch() -> None:
    while _scratch_directories:
        shutil.rmtree(_scratch_directories.pop(), ignore_errors=True)
