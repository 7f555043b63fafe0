"""The benchmark of scans runs; its timings are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_scan.py"
OPERATIONS = ["open", "take 1 cold", "take 1,000 warm", "count k < 100", "filter strings", "stream"]


def run(tmp_path, *arguments):
    command = [sys.executable, str(SCRIPT), "--rows", "2000", "--fragments", "3", "--runs", "1"]
    done = subprocess.run(
        [*command, "--workdir", str(tmp_path), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_scan_benchmark_reports_every_operation(tmp_path):
    found = run(tmp_path)
    for words in (*OPERATIONS, "geometric mean"):
        assert words in found
    assert [path.name for path in tmp_path.iterdir()] == ["rows-2000-3"]


@pytest.mark.slow
def test_scan_benchmark_profiles_the_requested_operations(tmp_path):
    found = run(tmp_path, "--profile", "--operations", "stream")
    assert "3 fragments, stream" in found
    assert "function calls" in found
    assert "3 fragments, open" not in found


@pytest.mark.slow
def test_scan_benchmark_counts_requests_to_an_s3_server(tmp_path):
    found = run(tmp_path, "--s3", "--latency-ms", "1", "--operations", "open", "take 100 cold", "count k < 100")
    for words in ("take 100 cold", "count k < 100", "ours: requests, MiB", "2, 0.00"):
        assert words in found
