"""The benchmark of blobs runs; its timings are not checked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_blobs.py"


@pytest.mark.slow
def test_blob_benchmark_measures_every_operation_on_equal_values(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    command = [sys.executable, str(SCRIPT), "--rows", "300", "--runs", "1", "--json", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())
    assert len(figures) == 17
    assert all(figure["ratio"] > 0 for figure in figures)
