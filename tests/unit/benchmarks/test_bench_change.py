"""The benchmark of changes runs; its timings are not checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_change.py"
OPERATIONS = ["append 1", "delete 1 %", "upsert 5 %", "drop a column", "compact 200 small", "compact 20 large"]


def run(tmp_path, *arguments):
    command = [sys.executable, str(SCRIPT), "--rows", "2000", "--runs", "1", "--workdir", str(tmp_path)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_change_benchmark_reports_every_operation(tmp_path):
    found = run(tmp_path, "--no-memory")
    for words in (*OPERATIONS, "geometric mean"):
        assert words in found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows-100x20", "rows-10x200"]


@pytest.mark.slow
def test_change_benchmark_measures_memory_in_separate_processes(tmp_path):
    found = run(tmp_path, "--operations", "drop a column")
    (row,) = (line for line in found.splitlines() if "drop a column" in line)
    assert all(int(cell) > 50 for cell in row.replace("│", " ").split()[-2:])


@pytest.mark.slow
def test_change_benchmark_profiles_the_requested_operations(tmp_path):
    found = run(tmp_path, "--profile", "--operations", "append 1")
    assert "function calls" in found
    assert "delete 1 %" not in found
