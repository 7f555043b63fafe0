"""The benchmark of data files runs; its timings are not checked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "bench_file.py"


COLUMNS = ["int64_nulls", "string_unique", "vector_128", "list_int32", "int64_nulls_sliced", "bool_nulls_small_batches"]


@pytest.mark.slow
def test_file_benchmark_measures_every_operation_on_equal_values(tmp_path):
    output = tmp_path / "figures.json"
    command = [sys.executable, str(SCRIPT), "--rows", "400", "--runs", "1", "--no-memory", "--versions", "2.2"]
    done = subprocess.run(
        [*command, "--workdir", str(tmp_path), "--json", str(output), "--columns", *COLUMNS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LANCE_CORE_COMPILED": "0"},
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(output.read_text())["figures"]
    assert len(figures) == len(COLUMNS) * 6
    assert all(figure["ratio"] > 0 for figure in figures)
    assert "geometric mean" in done.stdout
