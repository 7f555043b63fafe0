"""The daemon of Python workers: the modules that it imports before the first fork, and its behavior if that fails."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_pipelines.spark.session import merge_settings
from lance_pipelines.spark.worker_daemon import DAEMON_MODULE

REPOSITORY = Path(__file__).parents[2]
SETTING = "spark.python.daemon.module"

FORKS = """
import json, os, sys
from lance_pipelines.spark.worker_daemon import preload

preload()
import numpy

num_threads = len(os.listdir("/proc/self/task"))
draws = []
for _ in range(2):
    receiving, sending = os.pipe()
    if os.fork() == 0:
        os.write(sending, numpy.random.bytes(8).hex().encode())
        os._exit(0)
    os.wait()
    draws.append(os.read(receiving, 100).decode())
kernels = [name for name in sys.modules if name.startswith("lance_core.encodings.kernels.compiled.")]
print(json.dumps([num_threads, draws, bool(kernels), "OPENBLAS_NUM_THREADS" in os.environ]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of the process in /proc")
def test_preloading_leaves_no_thread_and_no_shared_random_state() -> None:
    finished = subprocess.run([sys.executable, "-c", FORKS], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    num_threads, draws, has_kernels, has_limits = json.loads(finished.stdout)
    assert num_threads == 1
    assert draws[0] != draws[1]
    assert has_kernels
    assert not has_limits


BROKEN = """
import sys
from lance_pipelines.spark import worker_daemon

def fail():
    import a_module_that_does_not_exist

worker_daemon._import_modules = fail
worker_daemon._main()
"""


def test_a_daemon_that_cannot_preload_falls_back_to_the_daemon_of_pyspark() -> None:
    # Spark ends the daemon by closing its standard input.
    finished = subprocess.run([sys.executable, "-c", BROKEN], cwd=REPOSITORY, input=b"", capture_output=True)
    (port,) = struct.unpack("!i", finished.stdout)
    assert 0 < port < 2**16
    assert b"a_module_that_does_not_exist" in finished.stderr


@pytest.mark.spark
def test_modules_of_the_tasks_are_loaded_in_workers_before_the_first_task(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get(SETTING) == DAEMON_MODULE

    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys
        from pathlib import Path

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().replace("\0", " ")
        for _ in batches:
            columns = {"module": list(sys.modules), "parent": [parent] * len(sys.modules)}
            yield pa.RecordBatch.from_pydict(columns)

    import os

    rows = spark.range(1).mapInArrow(report, "module STRING, parent STRING").collect()
    wanted = {"pandas", "numba", "pyarrow.dataset", "lance_core.optimize", "lance_pipelines.spark.rewriter"}
    assert wanted <= {row.module for row in rows}
    assert f"-m {DAEMON_MODULE}" in rows[0].parent


def test_a_session_with_another_python_interpreter_keeps_the_daemon_of_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3"
    other.symlink_to(Path(sys.executable).resolve())
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert merge_settings({}, scratch=tmp_path)[SETTING] == DAEMON_MODULE
    assert SETTING not in merge_settings({"spark.pyspark.python": str(other)}, scratch=tmp_path)
    assert merge_settings({SETTING: "mine"}, scratch=tmp_path)[SETTING] == "mine"
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert SETTING not in merge_settings({}, scratch=tmp_path)
    assert SETTING not in merge_settings({"spark.master": "spark://host:7077"}, scratch=tmp_path)
