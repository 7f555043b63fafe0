"""Streaming a 4 GB file uses less than 600 MB of resident memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.lance_file import LanceFileWriter

ROWS_PER_BATCH = 131_072
NUM_BATCHES = 60
MAX_RESIDENT_BYTES = 600 * 1000 * 1000

READ = """
import sys
from pathlib import Path
from lance_core import LanceFileReader
num_rows = 0
for batch in LanceFileReader(sys.argv[1]).read_all(batch_size=int(sys.argv[2])).to_batches():
    num_rows += batch.num_rows
    # Look at every page of memory of the vectors.
    assert batch.column(0).values.to_numpy()[::1024].sum() > 0
[peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(num_rows, int(peak.split()[1]) * 1024)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    random = np.random.default_rng(0)
    batch = pa.RecordBatch.from_pydict(
        {
            "vector": pa.FixedSizeListArray.from_arrays(random.random(ROWS_PER_BATCH * 128, np.float32), 128),
            "number": random.integers(0, 1 << 60, ROWS_PER_BATCH),
            "text": pa.array([f"some text {i} of row" * 3 for i in range(ROWS_PER_BATCH)]),
        }
    )
    path = tmp_path_factory.mktemp("big") / "f.lance"
    with LanceFileWriter(str(path), batch.schema) as writer:
        for _ in range(NUM_BATCHES):
            writer.write_batch(batch)
    assert path.stat().st_size > 4e9
    return str(path)


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("batch_rows", [1024, 8192])
def test_streaming_a_large_table_uses_bounded_memory(path: str, batch_rows: int) -> None:
    command = [sys.executable, "-c", READ, path, str(batch_rows)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(output[0]) == NUM_BATCHES * ROWS_PER_BATCH
    assert int(output[1]) < MAX_RESIDENT_BYTES
