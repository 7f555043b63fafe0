"""The benchmark of nearest neighbor searches runs; its timings are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_nearest.py"


@pytest.mark.slow
def test_nearest_neighbor_benchmark_reports_every_metric(tmp_path):
    command = [sys.executable, str(SCRIPT), "--rows", "2000", "--runs", "1", "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in ("l2, k=10", "cosine, k=1,000", "dot, k=10", "peak MiB"):
        assert words in done.stdout
