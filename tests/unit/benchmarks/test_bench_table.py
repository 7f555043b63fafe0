"""The benchmark of tables runs; its timings are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_table.py"


@pytest.mark.slow
def test_table_benchmark_reports_every_measurement(tmp_path):
    command = [sys.executable, str(SCRIPT), "--fragments", "5", "--versions", "5", "--runs", "1", "--no-memory"]
    done = subprocess.run(
        [*command, "--workdir", str(tmp_path), "--kinds", "deletions", "V1 names"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in ("deletions", "V1 names", "versions", "append", "first rows", "numbers"):
        assert words in done.stdout
