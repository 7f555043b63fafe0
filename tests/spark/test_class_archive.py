"""The class archive of Spark's JVM: which archive is used, who records it, and how failures are handled."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from lance_pipelines.spark import class_archive
from lance_pipelines.spark.class_archive import ClassArchive, recording_options

REPOSITORY = Path(__file__).parents[2]
DAY = 24 * 3600


class Recorders:
    """Replaces the processes that record archives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[list[str]] = []
        monkeypatch.setattr(class_archive.subprocess, "run", lambda command, **_: self.commands.append(command))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / 'a "cache" of \\ mine'
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: directory / name)
    monkeypatch.delenv("LANCE_SPARK_CLASS_ARCHIVE")
    return directory


@pytest.fixture
def installation(tmp_path: Path) -> tuple[Path, Path]:
    """A Java runtime and JARs."""
    java, jars = tmp_path / "java", tmp_path / "jars"
    (java / "bin").mkdir(parents=True)
    jars.mkdir()
    (java / "bin" / "java").write_text("java")
    (jars / "spark.jar").write_text("classes")
    return java, jars


def test_each_installation_has_its_own_class_archive(cache: Path, installation: tuple[Path, Path]) -> None:
    first = ClassArchive.of(*installation)
    assert first is not None
    assert ClassArchive.of(*installation) == first
    (installation[1] / "spark.jar").write_text("other classes")
    assert ClassArchive.of(*installation) != first


@pytest.mark.parametrize("options", ["-Xshare:off", "-Xmx1g -XX:SharedArchiveFile=mine.jsa", recording_options(Path())])
def test_java_options_about_archives_take_precedence(
    cache: Path, installation: tuple[Path, Path], options: str
) -> None:
    assert ClassArchive.of(*installation, java_options=options) is None


def test_class_archives_can_be_disabled_in_the_environment(
    cache: Path, installation: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANCE_SPARK_CLASS_ARCHIVE", "0")
    assert ClassArchive.of(*installation) is None


def test_a_class_archive_is_recorded_once_and_then_used(
    cache: Path, installation: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorders = Recorders(monkeypatch)
    archive = ClassArchive.of(*installation)
    assert archive is not None
    assert archive.java_options == ""
    assert archive.start_recording()
    assert not archive.start_recording(), "another session has ended meanwhile"
    os.utime(archive.attempt, (0, 0))
    assert archive.start_recording(), "the recording of yesterday has not completed"
    assert [command[-1] for command in recorders.commands] == [str(archive.stem)] * 2
    archive.named(7).write_text("cut off")
    assert archive.path == archive.named(7)
    archive.named(7).write_text("cut")
    assert archive.path is None
    assert archive.java_options == ""
    archive.named(7).write_text("classes")
    os.utime(archive.named(7), (0, 0))
    assert shlex.split(archive.java_options)[-1] == f"-XX:SharedArchiveFile={archive.named(7)}"
    assert archive.named(7).stat().st_mtime > 0
    os.utime(archive.attempt, (0, 0))
    assert not archive.start_recording()


def test_unused_class_archives_are_removed(
    cache: Path, installation: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    Recorders(monkeypatch)
    archive = ClassArchive.of(*installation)
    assert archive is not None
    directory = archive.stem.parent
    directory.mkdir(parents=True)
    for name in ("used.jsa", "unused.jsa", "killed.recorded"):
        (directory / name).touch()
    for name in ("unused.jsa", "killed.recorded"):
        os.utime(directory / name, (0, 0))
    assert archive.start_recording()
    assert {file.name for file in directory.iterdir()} == {"used.jsa", archive.attempt.name}


def test_an_unwritable_cache_directory_is_not_used_for_class_archives(
    cache: Path, installation: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorders = Recorders(monkeypatch)
    cache.write_text("a file in the place of the directory")
    archive = ClassArchive.of(*installation)
    assert archive is not None
    assert archive.java_options == ""
    assert not archive.start_recording()
    assert recorders.commands == []


USE = """
import sys
from lance_pipelines.spark.session import start_session, stop_session

session = start_session({"spark.master": "local[1]"})
options = [argument for argument in session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
           .getInputArguments() if "SharedArchiveFile" in argument]
print(len(options), session.range(10).count())
stop_session(session)
"""


@pytest.mark.parametrize(
    "num_recorders", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.soak)]
)
@pytest.mark.skipif(sys.platform != "linux", reason="the cache directory is set by XDG_CACHE_HOME")
def test_concurrent_class_recordings_leave_one_archive_that_sessions_use(tmp_path: Path, num_recorders: int) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LANCE_SPARK_CLASS_ARCHIVE": "1"}
    record = [sys.executable, "-m", "lance_pipelines.spark.class_recording"]
    recorders = [subprocess.Popen(record, cwd=REPOSITORY, env=environment) for _ in range(num_recorders)]
    assert 0 in [recorder.wait() for recorder in recorders]
    directory = tmp_path / "lance-pipelines" / "classes"
    (archive,) = directory.glob("*.jsa")
    assert list(directory.glob("*.recorded")) == []

    def use() -> str:
        command = [sys.executable, "-c", USE]
        return subprocess.run(
            command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert use() == "1 10"
    # The JVM would not start with a truncated file.
    archive.chmod(0o600)
    os.truncate(archive, 2**20)
    # No further recording starts on the same day.
    (archive.parent / f"{archive.name.partition('-')[0]}.attempt").touch()
    assert use() == "0 10"
