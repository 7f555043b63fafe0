"""Peak memory of reading tables that are much larger than the memory that reading them may take.

Every read runs in a fresh process, which reports its peak resident memory (``VmHWM``) and how much of the memory at
that moment consisted of mapped files. The tables are written by this library and removed at the end.

    python benchmarks/bench_memory.py [--workdir .] [--gigabytes 4] [--fragments 20 1000] [--pylance]
    python benchmarks/bench_memory.py --gigabytes 0.05 --fragments 4                     # seconds: does it work?
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lance_core

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH_ROWS: Final = 16_384
_LARGE_BYTES: Final = 1 << 20
_COLUMN_BYTES: Final = 226
"""Bytes of one row of the table of many columns."""

READS: Final = {
    "columns": {
        "stream": {},
        "filter 0.1 %": {"filter": "k < 1000"},
        "filter 50 %": {"filter": "k < 500000"},
        "filter all": {"filter": "k >= 0"},
        "filter strings": {"filter": "s like '%99%'"},
        "filter all, two columns": {"filter": "x > -100", "columns": ["k", "s"]},
    },
    "large values": {
        "stream": {},
        "filter all": {"filter": "k >= 0"},
        "filter half": {"filter": "k % 2 = 0"},
    },
}

_CHILD: Final = """
import sys, time
library, uri, arguments = sys.argv[1], sys.argv[2], eval(sys.argv[3])
if library == "ours":
    import lance_core as lance
else:
    import lance
dataset = lance.dataset(uri)
started, num_rows = time.perf_counter(), 0
for batch in dataset.scanner(**arguments).to_batches():
    num_rows += batch.num_rows
seconds = time.perf_counter() - started
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(num_rows, seconds, *(int(status[name].split()[0]) // 1024 for name in ("VmHWM", "RssFile")))
"""


def _columns(num_rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for start in range(0, num_rows, _BATCH_ROWS):
        size = min(_BATCH_ROWS, num_rows - start)
        keys = random.integers(0, 1_000_000, size)
        offsets = np.arange(0, 3 * size + 1, 3, np.int32)
        yield pa.record_batch(
            {
                "k": keys,
                "x": random.standard_normal(size),
                "s": pa.array([f"word {key:x} {key * 7919 % 10_007}" for key in keys.tolist()]),
                "d": pa.array(keys % 50).cast(pa.string()),
                "v": pa.FixedSizeListArray.from_arrays(pa.array(random.standard_normal(32 * size, np.float32)), 32),
                "l": pa.ListArray.from_arrays(pa.array(offsets), pa.array(random.integers(0, 1 << 60, 3 * size))),
                "m": pa.array(random.standard_normal(size), mask=random.random(size) < 0.3),
            }
        )


def _large_values(num_rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    for start in range(0, num_rows, 16):
        keys = np.arange(start, min(start + 16, num_rows))
        yield pa.record_batch({"k": keys, "b": pa.array([random.bytes(_LARGE_BYTES) for _ in keys], pa.binary())})


TABLES: Final = {"columns": (_columns, _COLUMN_BYTES), "large values": (_large_values, _LARGE_BYTES)}


def _write(uri: str, kind: str, num_bytes: float, num_fragments: int) -> None:
    batches_of, row_bytes = TABLES[kind]
    num_rows = int(num_bytes / row_bytes)
    batches = batches_of(num_rows)
    first = next(batches)

    def rest() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    reader = pa.RecordBatchReader.from_batches(first.schema, rest())
    lance_core.write_dataset(reader, uri, max_rows_per_file=-(-num_rows // num_fragments))


def _measured(library: str, uri: str, arguments: dict[str, Any]) -> list[str]:
    child = [sys.executable, "-c", _CHILD, library, uri, repr(arguments)]
    return subprocess.run(child, check=True, capture_output=True, text=True).stdout.split()


def main() -> None:
    """Write the tables, measure every read, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workdir", type=Path, default=Path())
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--fragments", type=int, nargs="+", default=[20, 1000])
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--pylance", action="store_true", help="measure pylance too")
    options = parser.parse_args()
    console = Console()
    for kind in options.tables:
        for num_fragments in options.fragments:
            workdir = Path(tempfile.mkdtemp(prefix="bench_memory", dir=options.workdir))
            try:
                uri = str(workdir / "t.lance")
                _write(uri, kind, options.gigabytes * 1e9, num_fragments)
                size = sum(path.stat().st_size for path in Path(uri).rglob("*.lance")) / 1e9
                shown = Table("read", "library", "rows", "seconds", "peak MiB", "mapped MiB at the end")
                shown.title = f"{kind}: {size:.1f} GB in {num_fragments} fragments"
                for name, arguments in READS[kind].items():
                    for library in ("ours", "pylance") if options.pylance else ("ours",):
                        num_rows, seconds, peak, mapped = _measured(library, uri, arguments)
                        shown.add_row(name, library, f"{int(num_rows):,}", f"{float(seconds):.1f}", peak, mapped)
                console.print(shown)
            finally:
                shutil.rmtree(workdir, ignore_errors=True)


if __name__ == "__main__":
    main()
