"""The benchmark of memory use runs; its results are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_memory.py"


@pytest.mark.slow
def test_memory_benchmark_reports_every_read_and_removes_its_tables(tmp_path):
    command = [sys.executable, str(SCRIPT), "--gigabytes", "0.01", "--fragments", "2", "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in ("columns", "large values", "stream", "filter strings", "filter half"):
        assert words in done.stdout
    assert not list(tmp_path.iterdir())
