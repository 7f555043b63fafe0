"""Maintenance that has nothing to do starts no Java process, neither from the command line nor in a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core

REPOSITORY = Path(__file__).parents[2]

RECORDER = """#!/bin/sh
echo started >> {log}
exit 1
"""

COMMANDS = """
import sys
from lance_pipelines.cli import main

for arguments in (["compact", "--dry-run"], ["compact"], ["materialize-deletions"], ["cleanup", "--dry-run"]):
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="stands in for java with a shell script")
def test_maintenance_with_nothing_to_do_does_not_start_java(tmp_path: Path) -> None:
    home, log = tmp_path / "java", tmp_path / "started"
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(RECORDER.format(log=log))
    java.chmod(0o755)
    warehouse = tmp_path / "warehouse"
    lance_core.write_dataset(pa.table({"package": ["pip"]}), f"{warehouse}/installed_files.lance")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DAGSTER", "LANCE_"))}
    environment |= {
        "LANCE_PIPELINES_WAREHOUSE": str(warehouse),
        "JAVA_HOME": str(home),
        "PATH": os.pathsep.join([str(java.parent), environment["PATH"]]),
    }
    finished = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=REPOSITORY, env=environment, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("installed_files: ") == 4
    assert not log.exists()
