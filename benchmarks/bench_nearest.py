"""Searches for near vectors by comparing every vector; ours against pylance, without an index.

Both sides run in one process and in turn, as in :mod:`bench_scan`. The table has vectors of 128 random floats in files
of 250,000 rows; pylance writes it. The peak is the memory that a process of its own needs for one search, mapped files
included, in addition to what it needed before.

    python benchmarks/bench_nearest.py [--workdir /dev/shm/bench_nearest] [--rows 1000000] [--runs 5]
    python benchmarks/bench_nearest.py --rows 5000 --runs 1                                  # seconds: does it work?

Ratios are pylance's time divided by ours: above 1, ours is the faster one.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
from bench_scan import LIBRARIES, SIDES, Place, compared, ratio, workdir
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

HEADINGS: Final = ("search", "ours ms", "pylance ms", "ratio", "CPU ratio", "ours peak MiB", "pylance peak MiB")
WIDTH: Final = 128
PER_FILE: Final = 250_000
SEARCHES: Final[dict[str, dict[str, Any]]] = {
    f"{metric}, k={k:,}": {"metric": metric, "k": k} for metric in ("l2", "cosine", "dot") for k in (10, 1_000)
}
PEAK: Final = """
import sys
from pathlib import Path
import numpy as np
import {library} as library

def highest():
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

table = library.dataset(sys.argv[1])
table.head(1)
Path("/proc/self/clear_refs").write_text("5")  # forgets the highest
before = highest()
table.to_table(columns=["id"], nearest={nearest})
print(highest() - before)
"""


def main() -> None:
    """Make the table unless it is there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="keeps the table between runs; a temporary one by default")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--searches", nargs="*", choices=SEARCHES, default=list(SEARCHES), metavar="SEARCH")
    arguments = parser.parse_args()
    shown = Table(*HEADINGS)
    with workdir(arguments.workdir) as directory:
        path = table_of(Path(directory), arguments.rows)
        for name in arguments.searches:
            sides = {side: search(LIBRARIES[side], path, SEARCHES[name]) for side in SIDES}
            measured = compared(sides, Place(path, arguments.rows), arguments.runs)
            ours, theirs = (measured[side] for side in SIDES)
            medians = [f"{statistics.median(each.seconds) * 1000:.0f}" for each in (ours, theirs)]
            ratios = (ratio(ours.seconds, theirs.seconds), ratio(ours.processor, theirs.processor))
            peaks = [peak(LIBRARIES[side].__name__, path, SEARCHES[name]) for side in SIDES]
            shown.add_row(name, *medians, *(f"{each:.2f}" for each in ratios), *peaks)
    Console(width=110).print(shown)


def search(library: Any, path: str, options: dict[str, Any]) -> Callable[[], object]:
    """What is timed; another query in each run, the same ones on both sides."""
    table = library.dataset(path, session=library.Session())
    numbers = np.random.default_rng(7)

    def run() -> object:
        query = numbers.standard_normal(WIDTH, np.float32)
        return table.to_table(columns=["id"], nearest={"column": "v", "q": query, "use_index": False, **options})

    return run


def peak(library: str, path: str, options: dict[str, Any]) -> str:
    """The memory of a search in MiB."""
    nearest = {"column": "v", "q": [0.5] * WIDTH, "use_index": False, **options}
    script = PEAK.format(library=library, nearest=nearest)
    return subprocess.run(
        [sys.executable, "-c", script, path], check=True, capture_output=True, text=True
    ).stdout.strip()


def table_of(directory: Path, num_rows: int) -> str:
    """A table of that many vectors; made once, by pylance."""
    path = directory / f"vectors-{num_rows}"
    if not path.exists():
        numbers = np.random.default_rng(13)

        def batches() -> Any:
            for start in range(0, num_rows, 50_000):
                count = min(50_000, num_rows - start)
                flat = pa.array(numbers.standard_normal(count * WIDTH, np.float32))
                vectors = pa.FixedSizeListArray.from_arrays(flat, WIDTH)
                yield pa.record_batch({"id": range(start, start + count), "v": vectors})

        first = next(batches()).schema
        lance.write_dataset(batches(), str(path), schema=first, max_rows_per_file=PER_FILE)
    return str(path)


if __name__ == "__main__":
    main()
