"""An archive of the classes that a session loads, with which Spark's JVM needs about half the processor time to start.

Without an archive, the JVM reads, verifies, and links about fifteen thousand classes at every start. When the first
local session of a Java runtime and a Spark installation has ended, a separate process with low priority runs a small
session (``class_recording``) whose JVM writes its classes to a file in the user's cache directory. Later sessions map
this file into memory. Recording takes about a minute of processor time, but does not delay the first session.

An archive is optional. None is used or recorded if the user's Java options configure archives, if the environment
variable ``LANCE_SPARK_CLASS_ARCHIVE`` is ``0``, or if the cache directory cannot be written. The JVM checks the archive
against its own version and the JARs, and silently ignores one that does not fit, but it does not start with a
truncated file. Therefore, the name of an archive contains its size, and a file gets this name only after a session
has started with it. Only one process records at a time. A recording that did not complete is repeated after a day.

Source: "Application Class-Data Sharing" of the ``java`` command (JEP 350), Java 17 to 25.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import platformdirs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ClassArchive", "archive_options", "recording_options"]

_SWITCH: Final = "LANCE_SPARK_CLASS_ARCHIVE"
_RECORDER: Final = "lance_pipelines.spark.class_recording"
_USER_DECIDES: Final = re.compile(r"-Xshare:|SharedArchiveFile|ArchiveClassesAtExit|AutoCreateSharedArchive")
_SILENT: Final = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"
_RETRY_SECONDS: Final = 24 * 3600
_UNUSED_SECONDS: Final = 30 * 24 * 3600
# The shell ends at once, so the recorder is not a child of this process, which may end before it.
_DETACHED: Final = 'nice -n 19 "$@" >/dev/null 2>&1 </dev/null &'


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassArchive:
    """The archive of one Java runtime and one Spark installation.

    Attributes:
        stem: path of the file, which may not exist, without its size and suffix.
    """

    stem: Path

    @classmethod
    def of(cls, java_home: Path, jars: Path, *, java_options: str = "") -> Self | None:
        """Return the archive of a session; None on Windows, or if the user has disabled archives.

        Args:
            java_home: the runtime's home directory.
            jars: directory of Spark's JARs.
            java_options: the Java options of the session.
        """
        variables = [os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")]
        if os.environ.get(_SWITCH) == "0" or os.name != "posix":
            return None
        if _USER_DECIDES.search(" ".join([java_options, *variables])):
            return None
        directory = platformdirs.user_cache_path("lance-pipelines") / "classes"
        try:
            name = _fingerprint([java_home / "bin" / "java", *sorted(jars.glob("*.jar"))])
        except OSError:
            return None
        return cls(stem=directory / name)

    @property
    def path(self) -> Path | None:
        """The complete file; None if there is none."""
        with suppress(OSError):
            for path in self.stem.parent.glob(f"{self.stem.name}-*.jsa"):
                if path == self.named(path.stat().st_size):
                    return path
        return None

    def named(self, num_bytes: int) -> Path:
        """Return the path of an archive of this size, in bytes."""
        return self.stem.with_name(f"{self.stem.name}-{num_bytes}.jsa")

    @property
    def java_options(self) -> str:
        """The options with which the JVM uses the archive, for ``spark.driver.extraJavaOptions``; empty without one."""
        path = self.path
        if path is None:
            return ""
        with suppress(OSError):
            if _age(path) > _RETRY_SECONDS:
                # Note the use, because unused archives are removed.
                os.utime(path)
        return archive_options(path)

    @property
    def attempt(self) -> Path:
        """The file whose modification time is that of the last recording that has not completed."""
        return self.stem.with_name(f"{self.stem.name}.attempt")

    def start_recording(self) -> bool:
        """Start the process that records the archive; return False if the archive exists or an attempt was made today.

        The process inherits the environment variables, in which ``JAVA_HOME`` must be that of the archive.
        """
        with suppress(OSError):
            if self.path is not None or (self.attempt.exists() and _age(self.attempt) < _RETRY_SECONDS):
                return False
            self.stem.parent.mkdir(parents=True, exist_ok=True)
            _remove_unused(self.stem.parent)
            self.attempt.touch()
            command = ["/bin/sh", "-c", _DETACHED, "sh", sys.executable, "-m", _RECORDER, str(self.stem)]
            subprocess.run(command, check=True, start_new_session=True)
            return True
        return False


def archive_options(path: Path) -> str:
    """Return the options with which a JVM uses an archive."""
    return f"{_SILENT} {_option('SharedArchiveFile', path)}"


def recording_options(target: Path) -> str:
    """Return the options with which a JVM writes its classes to a file when it ends."""
    return f"{_SILENT} {_option('ArchiveClassesAtExit', target)}"


def _option(name: str, path: Path) -> str:
    """Return an option with a path, quoted for Spark, which splits its options as a shell does."""
    quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"-XX:{name}={quoted}"'


def _fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        status = file.stat()
        digest.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:16]


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def _remove_unused(directory: Path) -> None:
    """Remove archives of other installations that have not been used for a month, and their leftover files."""
    for file in directory.iterdir():
        with suppress(OSError):
            if _age(file) > _UNUSED_SECONDS:
                file.unlink()
