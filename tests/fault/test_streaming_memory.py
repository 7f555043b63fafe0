"""Writing a large file and reading it as a stream stay within a few hundred megabytes, however large the file is.

Each step runs in a separate process, which finally reports its maximum resident set size. Pages of a mapped file count
as resident while they are mapped.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS_PER_BATCH = 20_000
BYTES_PER_ROW = 8 + 8 + 512 + 200
"""A number, a random float, a vector of 128 floats, a text."""

SCRIPT = """
import json, sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from lance_core.file.lance_file import LanceFileReader, LanceFileWriter

step, path, version, num_batches, num_rows = sys.argv[1:4] + [int(text) for text in sys.argv[4:]]

def batches():
    rng = np.random.default_rng(0)
    for number in range(num_batches):
        text = rng.integers(97, 123, num_rows * 200, dtype=np.uint8)
        offsets = np.arange(num_rows + 1, dtype=np.int32) * 200
        yield pa.record_batch({
            "i": pa.array(np.arange(num_rows) + number * num_rows),
            "f": pa.array(rng.random(num_rows)),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(num_rows * 128, dtype=np.float32)), 128),
            "t": pa.StringArray.from_buffers(num_rows, pa.py_buffer(offsets), pa.py_buffer(text)),
        })

counted = total = 0
if step == "write":
    with LanceFileWriter(path, version=version) as writer:
        for batch in batches():
            writer.write_batch(batch)
            counted += batch.num_rows
            total += int(batch.column("i").to_numpy().sum())
else:
    reader = LanceFileReader(path)
    with LanceFileWriter(path + ".copy", version=version) as writer:
        for batch in reader.read_all(batch_size=10_000).to_batches():
            writer.write_batch(batch)
            counted += batch.num_rows
            total += int(batch.column("i").to_numpy().sum())
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
print(json.dumps({"rows": counted, "sum": total, "peak": peak, "bytes": Path(path).stat().st_size}))
"""


def run(step: str, path: Path, version: str, num_batches: int) -> dict[str, int]:
    command = [sys.executable, "-c", SCRIPT, step, str(path), version, str(num_batches), str(ROWS_PER_BATCH)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def check(directory: Path, version: str, file_bytes: int, max_resident: int) -> None:
    """Write a file of this size, and copy it as a stream."""
    path = directory / "large.lance"
    num_batches = -(-file_bytes // (ROWS_PER_BATCH * BYTES_PER_ROW))
    written = run("write", path, version, num_batches)
    copied = run("copy", path, version, num_batches)
    path.unlink()
    (directory / "large.lance.copy").unlink()
    assert written["rows"] == copied["rows"] == num_batches * ROWS_PER_BATCH
    assert written["sum"] == copied["sum"]
    assert written["bytes"] > 0.7 * file_bytes
    assert written["peak"] < max_resident, f"writing: {written['peak']:,} bytes resident"
    assert copied["peak"] < max_resident, f"reading and writing: {copied['peak']:,} bytes resident"


@pytest.mark.soak
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_a_file_of_one_gigabyte_is_streamed_in_bounded_memory(version: str, tmp_path: Path) -> None:
    check(tmp_path, version, 1 << 30, 600 << 20)


@pytest.mark.soak
@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_a_file_of_four_gigabytes_is_streamed_in_bounded_memory(version: str, tmp_path: Path) -> None:
    check(tmp_path, version, 4 << 30, 600 << 20)
