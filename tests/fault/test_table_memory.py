"""Reading a table, or merging into it, takes a few hundred megabytes, regardless of the size of the table and its rows.

Each operation runs in a separate process, which finally reports its maximum resident set size. Pages of mapped files
count as resident while they are mapped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_core

READ = """
import sys
import lance_core

arguments = {} if sys.argv[2] == "stream" else {"filter": "k >= 0"}
num_rows = sum(batch.num_rows for batch in lance_core.dataset(sys.argv[1]).scanner(**arguments).to_batches())
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(num_rows, int(status["VmHWM"].split()[0]) << 10)
"""

MERGE = """
import sys
import lance_core

rows = lance_core.dataset(sys.argv[2]).scanner().to_reader()
counts = lance_core.dataset(sys.argv[1]).merge_insert("k").when_matched_update_all().execute(rows)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(counts["num_updated_rows"], int(status["VmHWM"].split()[0]) << 10)
"""

MiB = 1 << 20


def _large_values(num_bytes: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for key in range(num_bytes // MiB):
        yield pa.record_batch({"k": [key], "b": pa.array([random.bytes(MiB)], pa.binary())})


def _columns(num_bytes: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for _ in range(num_bytes // (272 * 20_000)):
        words = pa.array(random.integers(0, 1 << 60, 20_000)).cast(pa.string())
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(20_000 * 60, np.float32)), 60)
        yield pa.record_batch({"k": random.integers(0, 1 << 40, 20_000), "s": words, "v": vectors})


def _wide_rows(num_bytes: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for start in range(0, num_bytes // 1024, 20_000):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(random.random(20_000 * 256, np.float32)), 256)
        yield pa.record_batch({"k": np.arange(start, start + 20_000), "v": vectors})


KINDS = {"values of 1 MiB": (_large_values, 12), "columns": (_columns, 30_000)}
KINDS_OF_MERGES = {"wide rows": (_wide_rows, 40_000)}


def _write(path: Path, kind: str, num_bytes: int) -> None:
    batches_of, rows_per_file = (KINDS | KINDS_OF_MERGES)[kind]
    schema = next(batches_of(num_bytes)).schema
    reader = pa.RecordBatchReader.from_batches(schema, batches_of(num_bytes))
    lance_core.write_dataset(reader, path, max_rows_per_file=rows_per_file)


def _peak(path: Path, read: str) -> int:
    done = subprocess.run([sys.executable, "-c", READ, str(path), read], check=True, capture_output=True, text=True)
    num_rows, peak = map(int, done.stdout.split())
    assert num_rows == lance_core.dataset(path).count_rows()
    return peak


def test_batches_of_the_default_size_have_fewer_rows_if_the_rows_are_large(tmp_path: Path) -> None:
    _write(tmp_path / "t", "values of 1 MiB", 150 * MiB)
    dataset = lance_core.dataset(tmp_path / "t")
    for arguments in ({}, {"filter": "k >= 0"}, {"columns": ["b"]}):
        sizes = [batch.nbytes for batch in dataset.to_batches(**arguments)]
        assert sum(sizes) >= 150 * MiB
        assert max(sizes) < 80 * MiB
    assert [batch.num_rows for batch in dataset.to_batches(columns=["k"])] == [12, 24, 48, 66]
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=100)) == 66


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_scans_does_not_grow_with_the_table(kind: str, tmp_path: Path) -> None:
    sizes = (250 * MiB, 750 * MiB)
    for size in sizes:
        _write(tmp_path / str(size), kind, size)
    for read in ("stream", "filter"):
        smaller, larger = (_peak(tmp_path / str(size), read) for size in sizes)
        # The smaller table is below the read-ahead limit of a scan, so that some growth is normal.
        assert larger - smaller < (sizes[1] - sizes[0]) * 0.4
        assert larger < 600 * MiB


@pytest.mark.slow
def test_memory_of_merges_grows_much_less_than_the_table_and_the_source(tmp_path: Path) -> None:
    sizes, peaks = (200 * MiB, 600 * MiB), []
    for size in sizes:
        path = tmp_path / str(size)
        _write(path, "wide rows", size)
        done = subprocess.run(
            [sys.executable, "-c", MERGE, str(path), str(path)], check=True, capture_output=True, text=True
        )
        num_rows, peak = map(int, done.stdout.split())
        assert num_rows == lance_core.dataset(path).count_rows()
        peaks.append(peak)
    # Only the memory for keys and for positions of matching rows grows.
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) * 0.2
    assert peaks[1] < 700 * MiB
