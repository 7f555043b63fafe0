"""Streaming a file with many columns uses memory for the current rows, not for a page of each column.

Each stream runs in a separate process, which finally reports its maximum resident set size. The consumer reads every
value, so that the pages of a mapped file count too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.file.lance_file import LanceFileWriter

ROOT = Path(__file__).resolve().parents[2]
ROWS_PER_BATCH = 5_000
NUM_BATCHES = 26

READ = """
import json, sys
from pathlib import Path

import pyarrow.compute as pc

from lance_core.file.lance_file import LanceFileReader

def resident(key):
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith(key))

reader = LanceFileReader(sys.argv[1])
before = resident("VmRSS")
rows, total = 0, 0.0
for batch in reader.read_all(batch_size=int(sys.argv[2])).to_batches():
    rows += batch.num_rows
    for column in batch.columns:
        values = column.field(0) if column.type.num_fields else column
        total += pc.sum(pc.binary_length(values) if values.type == "string" else values).as_py()
print(json.dumps({"rows": rows, "sum": total, "grown": resident("VmHWM") - before}))
"""


def write(path: Path, version: str, batches: Iterable[pa.RecordBatch]) -> None:
    writer = None
    for batch in batches:
        writer = writer or LanceFileWriter(str(path), batch.schema, version=version)
        writer.write_batch(batch)
    assert writer is not None
    writer.close()


def stream(path: Path, batch_rows: int) -> dict[str, float]:
    command = [sys.executable, "-c", READ, str(path), str(batch_rows)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def numbers(num_columns: int, *, with_nulls: bool = False) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    for _ in range(NUM_BATCHES):
        arrays = [rng.random(ROWS_PER_BATCH) for _ in range(num_columns)]
        columns = [pa.array(array, mask=array < 0.2 if with_nulls else None) for array in arrays]
        yield pa.RecordBatch.from_arrays(columns, [f"c{index}" for index in range(num_columns)])


def texts(num_columns: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    prefix, between = pa.scalar("some text about row "), pa.scalar("")
    for _ in range(NUM_BATCHES):
        numbers = [pa.array(rng.integers(0, 1 << 60, ROWS_PER_BATCH)).cast(pa.string()) for _ in range(num_columns)]
        columns = [pc.binary_join_element_wise(prefix, array, between) for array in numbers]
        yield pa.RecordBatch.from_arrays(columns, [f"c{index}" for index in range(num_columns)])


def members(num_columns: int) -> Iterator[pa.RecordBatch]:
    for batch in numbers(num_columns):
        yield pa.RecordBatch.from_arrays([batch.to_struct_array()], ["s"])


def check(path: Path, batch_rows: int, max_grown: int) -> None:
    found = stream(path, batch_rows)
    assert found["rows"] == NUM_BATCHES * ROWS_PER_BATCH
    assert found["grown"] < max_grown, f"{found['grown']:,} bytes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "batch_rows"), [("0.1", 1024), ("2.0", 1024), ("2.1", 1024), ("2.2", 1024), ("2.2", 5000)]
)
def test_a_file_with_four_hundred_columns_is_streamed_in_bounded_memory(
    version: str, batch_rows: int, tmp_path: Path
) -> None:
    path = tmp_path / "wide.lance"
    write(path, version, numbers(400))
    assert path.stat().st_size > 400e6
    check(path, batch_rows, 256 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nulls", "texts", "members"])
def test_a_file_with_many_nested_or_text_columns_is_streamed_in_bounded_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.lance"
    write(path, "2.2", {"nulls": numbers(400, with_nulls=True), "texts": texts(200), "members": members(300)}[kind])
    # A large part of this is freed memory that the allocators keep.
    check(path, 1024, 448 << 20)
