"""Maintenance waits for a running ingest of its dataset in another process that shares the Dagster instance."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lance_core
from tests.support.local_rewriting import ids, write_fragments

LAKE = """
import os
import time
from pathlib import Path

import pytest

import pyarrow as pa

from lance_pipelines.ops import rewrite_fragments, write_fragments
from tests.dagster.conftest import Project
from tests.support.local_rewriting import rewrite_locally

project = Project(os.environ["EVENTS_URI"], [pa.table({"id": [1000]})])


def stage(*arguments, **keywords):
    Path("at-work").touch()
    while not Path("go-on").exists():
        time.sleep(0.05)
    return project.stage(*arguments, **keywords)


write_fragments.stage_write = stage
rewrite_fragments.rewrite_tasks = lambda session, uri, tasks, **options: rewrite_locally(uri, tasks, **options)
defs = project.definitions()
"""


@pytest.mark.slow
def test_compaction_waits_for_the_ingest_of_another_process_and_includes_its_rows(command_line, tmp_path) -> None:
    uri = str(tmp_path / "lake" / "events.lance")
    write_fragments(uri, 4)
    dagster = command_line(tmp_path / "home", EVENTS_URI=uri)
    (dagster.directory / "lake.py").write_text(LAKE)
    ingest = dagster.start("job", "execute", "-m", "lake", "-j", "events__ingest")
    wait_for(dagster.directory / "at-work", ingest)
    compact = subprocess.Popen(
        [sys.executable, "-m", "lance_pipelines", "compact", "-m", "lake", "-v"],
        cwd=dagster.directory,
        env=dagster.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said = []
    for line in compact.stderr:
        said.append(line)
        if "waiting for run" in line:
            break
    assert "events: waiting for run " in said[-1], "".join(said)
    assert "(ingest, last event at " in said[-1]
    assert (compact.poll(), lance_core.dataset(uri).version) == (None, 4)
    (dagster.directory / "go-on").touch()
    _, errors = ingest.communicate(timeout=300)
    assert ingest.returncode == 0, errors
    output, errors = compact.communicate(timeout=300)
    assert compact.returncode == 0, errors
    assert "5 fragments" in output
    assert ids(uri) == [*range(40), 1000]
    operations = [lance_core.dataset(uri).read_transaction(version).operation for version in (5, 7)]
    assert [type(operation).__name__ for operation in operations] == ["Append", "Rewrite"]


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the process has created the file, and fail if the process ends without creating it."""
    pause = threading.Event()
    while not path.exists():
        assert process.poll() is None, process.communicate()
        pause.wait(0.1)
