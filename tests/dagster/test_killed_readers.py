"""When a process is killed while it reads an input, its lease protects the version until the lease expires."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.metadata import CleanupPolicy, plan_cleanup

READER = """
import os, signal, sys
import dagster as dg
import pyarrow as pa
from lance_pipelines import LanceIOManager

@dg.asset
def numbers() -> pa.Table:
    return pa.table({"id": [1]})

@dg.asset
def report(numbers: pa.RecordBatchReader) -> None:
    os.kill(os.getpid(), signal.SIGKILL)

dg.materialize([numbers, report], resources={"io_manager": LanceIOManager(base_uri=sys.argv[1], lease_seconds=600)})
"""


@pytest.mark.slow
def test_lease_of_a_killed_reader_protects_its_version_until_the_lease_expires(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", READER, str(tmp_path)], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    uri = str(tmp_path / "numbers.lance")
    dataset = lance_core.write_dataset(pa.table({"id": [2]}), uri, mode="overwrite")
    policy = CleanupPolicy.of(timedelta(0))
    plan_cleanup(dataset, policy).execute()
    assert dataset.checkout_version(1).to_table()["id"].to_pylist() == [1]
    later = time.time_ns() + int(timedelta(seconds=601).total_seconds() * 1e9)
    plan_cleanup(dataset, policy, now_ns=later).execute()
    assert [each["version"] for each in dataset.version_refs()] == [2]
    assert dataset.tags.list() == {}
