"""Compaction of many fragments: ours against pylance, on copies of one table, each in a process of its own.

The table has an int64, a double, a string and a vector of 128 floats (about 550 bytes a row), a tenth of the rows of
every third fragment is deleted. Both compact it to the same targets, in turn, so that a slow minute of the machine hits
both. Prints the time and the largest resident size of every run, and whether the rows are the same afterwards. Sizes
of pylance's runs include its threads' buffers; it uses every core, ours ``--threads``.

    python benchmarks/bench_compact.py --workdir DIRECTORY [--fragments 20] [--rows 10000] [--runs 3]
    python benchmarks/bench_compact.py --workdir DIRECTORY --fragments 100 --rows 38000 --runs 1     # 2 GB
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

VECTOR_LENGTH: Final = 128
IMPLEMENTATIONS: Final = ("ours", "pylance")
_MIB: Final = 1024 * 1024


def main() -> None:
    """Generate the table unless it is there, compact copies of it, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, required=True, help="keeps the table between runs; copies are removed")
    parser.add_argument("--fragments", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000, help="of each fragment")
    parser.add_argument("--target-rows", type=int, default=1024 * 1024)
    parser.add_argument("--threads", type=int, default=1, help="num_threads of ours")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=IMPLEMENTATIONS)
    parser.add_argument("--compact", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compact:
        print(json.dumps(compact(arguments.compact, arguments.workdir, arguments.target_rows, arguments.threads)))
        return
    source = generate(arguments.workdir, arguments.fragments, arguments.rows)
    num_bytes = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    print(f"{arguments.fragments} fragments, {num_bytes / _MIB:.0f} MiB")
    names = [name for name in IMPLEMENTATIONS if arguments.only in (None, name)]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(arguments.runs):
        for name in names:
            results[name].append(run(name, source, arguments))
    for name, runs in results.items():
        seconds = statistics.median(each["seconds"] for each in runs)
        peak = max(each["peak_bytes"] for each in runs)
        print(
            f"{name:8} {seconds:8.2f} s  {num_bytes / _MIB / seconds:7.0f} MiB/s  peak {peak / _MIB:6.0f} MiB  "
            f"({max(each['base_bytes'] for each in runs) / _MIB:.0f} MiB before)  {runs[0]['fragments']:.0f} fragments"
        )


def generate(workdir: Path, num_fragments: int, rows: int) -> Path:
    """The source table; made once."""
    import lance

    path = workdir / f"source-{num_fragments}x{rows}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    random = np.random.default_rng(7)
    for number in range(num_fragments):
        ids = np.arange(number * rows, (number + 1) * rows)
        vectors = pa.array(random.random(rows * VECTOR_LENGTH, dtype=np.float32))
        table = pa.table(
            {
                "id": ids,
                "score": random.random(rows),
                "label": [f"label {each % 1000}" for each in ids],
                "vector": pa.FixedSizeListArray.from_arrays(vectors, VECTOR_LENGTH),
            }
        )
        lance.write_dataset(table, str(unfinished), mode="append")
    lance.dataset(str(unfinished)).delete(f"id % 10 = 3 and (id / {rows}) % 3 = 0")
    unfinished.rename(path)
    return path


def run(name: str, source: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Compact a copy in a fresh process."""
    copy = arguments.workdir / f"copy-{name}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    options = ["--target-rows", str(arguments.target_rows), "--threads", str(arguments.threads)]
    command = [sys.executable, __file__, "--workdir", str(copy), "--compact", name, *options]
    try:
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        check(source, copy)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return json.loads(output.splitlines()[-1])


def compact(name: str, path: Path, target_rows: int, threads: int) -> dict[str, float]:
    """Runs in the fresh process."""
    if name == "ours":
        import lance_core

        dataset = lance_core.dataset(str(path))
    else:
        import lance

        dataset = lance.dataset(str(path))
    base_bytes = peak_bytes()
    started = time.perf_counter()
    dataset.optimize.compact_files(
        target_rows_per_fragment=target_rows, **({"num_threads": threads} if name == "ours" else {})
    )
    seconds = time.perf_counter() - started
    return {
        "seconds": seconds,
        "base_bytes": base_bytes,
        "peak_bytes": peak_bytes(),
        "fragments": len(dataset.get_fragments()),
    }


def peak_bytes() -> int:
    """The largest resident size of this program so far; getrusage would count what was there before it was loaded."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def check(source: Path, copy: Path) -> None:
    """The rows are the same; pylance finds the table valid."""
    import lance

    before, after = lance.dataset(str(source)), lance.dataset(str(copy))
    after.validate()
    columns = ["id", "score", "label"]
    if not before.to_table(columns=columns).equals(after.to_table(columns=columns)):
        raise SystemExit(f"{copy}: the rows differ")


if __name__ == "__main__":
    main()
