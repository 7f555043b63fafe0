"""The benchmark of concurrent writers runs; its timings are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_contention.py"


@pytest.mark.parametrize("place", ["--workdir", "--s3"])
@pytest.mark.slow
def test_contention_benchmark_runs_concurrent_writers_of_both_implementations(tmp_path, place):
    command = [
        sys.executable,
        str(SCRIPT),
        "--seconds",
        "1",
        "--workloads",
        "mixed",
        "--fragments",
        "2",
        "--versions",
        "3",
    ]
    done = subprocess.run(
        [*command, "--ours", "1", "--pylance", "1", place, *([str(tmp_path)] if place == "--workdir" else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in ("mixed", "ours", "pylance", "operations"):
        assert words in done.stdout
