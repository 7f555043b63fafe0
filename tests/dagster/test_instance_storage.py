"""Several processes can open a new instance at the same time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

OPEN_WHEN_TOLD = """
import sys
from dagster import DagsterInstance
print("ready", flush=True)
sys.stdin.readline()
with DagsterInstance.get() as instance:
    print(type(instance.get_ref().storage).__name__, instance.get_runs_count())
"""


@pytest.mark.slow
def test_several_processes_can_create_the_same_instance_concurrently(tmp_path) -> None:
    for attempt in range(2):
        home = tmp_path / f"home{attempt}"
        home.mkdir()
        (home / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
        environment = {**os.environ, "DAGSTER_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", OPEN_WHEN_TOLD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=tmp_path,
            )
            for _ in range(4)
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            stdout, stderr = process.communicate(timeout=300)
            assert process.returncode == 0, stderr
            assert stdout == "LockedSqliteStorage 0\n"


@pytest.mark.slow
def test_settings_in_the_working_directory_apply_without_dagster_home(tmp_path) -> None:
    """As in a new checkout, a command without DAGSTER_HOME reads ``dagster.yaml`` in the working directory."""
    (tmp_path / "dagster.yaml").write_bytes((REPOSITORY / "dagster.yaml").read_bytes())
    (tmp_path / "one_job.py").write_text(
        "import dagster as dg\n\n@dg.op\ndef step():\n    pass\n\n@dg.job(executor_def=dg.multiprocess_executor)\n"
        "def work():\n    step()\n"
    )
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("DAGSTER", "LANCE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "job", "execute", "-f", "one_job.py", "-j", "work"],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "RUN_SUCCESS" in done.stderr
    assert not list(tmp_path.glob("lance-pipelines-instance-*"))
