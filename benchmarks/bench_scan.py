"""Reading tables of many fragments: opening, taking rows, counting, filtering, streaming; ours against pylance.

Both sides run in one process and in turn, so that a slow minute of the machine hits both; a figure is the median over
the pairs of runs, a ratio the median of the pairs' ratios. The tables are written by pylance. Each side has read the
whole table three times before, so that the files are in the page cache, and our compiled kernels are loaded. The rows
that a filter finds are spread over all fragments. A cold read opens the table in a session of its own; a warm one uses
a handle that has done the same before, for other rows.

    python benchmarks/bench_scan.py [--workdir /dev/shm/bench_scan] [--rows 2000000] [--fragments 20 1000]
    python benchmarks/bench_scan.py --rows 20000 --fragments 4 --runs 1                      # seconds: does it work?

Ratios are pylance's time divided by ours: above 1, ours is the faster one. Those of the CPU time of all threads do not
depend on what else the machine does. ``--profile`` prints where our time goes instead of comparing.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import shutil
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import lance_core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

SIDES: Final = ("ours", "pylance")
LIBRARIES: Final[dict[str, Any]] = {"ours": lance_core, "pylance": lance}
HEADINGS: Final = ("fragments", "operation", "ours ms", "pylance ms", "ratio", "CPU ratio")
WARMING_READS: Final = 3
VECTOR_WIDTH: Final = 32
TAKEN: Final = {"take 1": 1, "take 1,000": 1_000}
SCANS: Final[dict[str, Callable[[Any, int], object]]] = {
    "count k < 100": lambda table, _: table.count_rows(filter="k < 100"),
    "filter 0.01 %": lambda table, rows: table.to_table(filter=f"k < {max(1, rows // 10_000)}"),
    "filter 1 %": lambda table, rows: table.to_table(filter=f"k < {rows // 100}"),
    "filter 50 %": lambda table, rows: table.to_table(filter=f"k < {rows // 2}"),
    "filter strings": lambda table, _: table.to_table(filter="s like '%99@%' and x > 0"),
    "two columns": lambda table, _: table.to_table(columns=["k", "x"]),
    "all columns": lambda table, _: table.to_table(),
    "stream": lambda table, _: sum(batch.num_rows for batch in table.to_batches()),
}
OPERATIONS: Final = ("open", *(f"{take} {state}" for take in TAKEN for state in ("cold", "warm")), *SCANS)


def main() -> None:
    """Make the tables unless they are there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="keeps the tables between runs; a temporary one by default")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--fragments", type=int, nargs="*", default=[20, 1_000])
    parser.add_argument("--operations", nargs="*", choices=OPERATIONS, default=list(OPERATIONS), metavar="OPERATION")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="profile our side of the operations")
    arguments = parser.parse_args()
    with workdir(arguments.workdir) as directory:
        if arguments.profile:
            print_profiles(Path(directory), arguments)
            return
        table = Table(*HEADINGS)
        for row in figures(Path(directory), arguments):
            table.add_row(*row)
    Console(width=100).print(table)


def figures(directory: Path, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row for each table and operation, and the geometric mean of the ratios of each table."""
    for num_fragments in arguments.fragments:
        path = table_of(directory, arguments.rows, num_fragments)
        for library in LIBRARIES.values():
            for _ in range(WARMING_READS):
                library.dataset(str(path)).to_table()
        ratios: list[tuple[float, float]] = []
        for operation in arguments.operations:
            sides = {side: reading(side, operation, str(path), arguments.rows) for side in SIDES}
            *medians, clock, processor = compared(sides, arguments.runs)
            ratios.append((clock, processor))
            milliseconds = (f"{seconds * 1000:.1f}" for seconds in medians)
            yield (f"{num_fragments:,}", operation, *milliseconds, f"{clock:.2f}", f"{processor:.2f}")
        means = (f"{statistics.geometric_mean(each):.2f}" for each in zip(*ratios, strict=True))
        yield (f"{num_fragments:,}", "geometric mean", "", "", *means)


def reading(side: str, operation: str, path: str, num_rows: int) -> Callable[[], object]:
    """What is timed."""
    library = LIBRARIES[side]
    if operation == "open":
        return lambda: library.dataset(path, session=library.Session()).version
    if operation in SCANS:
        table = library.dataset(path, session=library.Session())
        return lambda: SCANS[operation](table, num_rows)
    take, _, state = operation.rpartition(" ")
    # The same rows on both sides; other ones in each run.
    numbers = np.random.default_rng(7)

    def rows() -> list[int]:
        wanted: list[int] = numbers.integers(0, num_rows, TAKEN[take]).tolist()
        return wanted

    if state == "cold":
        return lambda: library.dataset(path, session=library.Session()).take(rows())
    table = library.dataset(path, session=library.Session())
    # Every fragment has been read from before.
    table.take(list(range(0, num_rows, max(1, num_rows // 10_000))))
    return lambda: table.take(rows())


def compared(sides: dict[str, Callable[[], object]], runs: int) -> tuple[float, float, float, float]:
    """Run both in turn; the first pair does not count. Seconds of both, and the ratios of clock and CPU."""
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for _ in range(runs + 1):
        for side in SIDES:
            gc.collect()
            started = time.perf_counter(), time.process_time()
            kept = sides[side]()
            times[side].append((time.perf_counter() - started[0], time.process_time() - started[1]))
            del kept
    pairs = list(zip(times["ours"], times["pylance"], strict=True))[1:]
    clock, processor = (statistics.median(their[each] / our[each] for our, their in pairs) for each in (0, 1))
    ours, theirs = (statistics.median(each[0] for each in times[side][1:]) for side in SIDES)
    return ours, theirs, clock, processor


def print_profiles(directory: Path, arguments: argparse.Namespace) -> None:
    """Print what our side calls in each operation, once it is warm."""
    for num_fragments in arguments.fragments:
        path = table_of(directory, arguments.rows, num_fragments)
        for operation in arguments.operations:
            run = reading("ours", operation, str(path), arguments.rows)
            run()
            profile = cProfile.Profile()
            profile.runcall(run)
            print(f"\n{num_fragments:,} fragments, {operation}")
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def table_of(directory: Path, num_rows: int, num_fragments: int) -> Path:
    """A table of that many rows in that many fragments; made once, by pylance."""
    path = directory / f"rows-{num_rows}-{num_fragments}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    per_file = -(-num_rows // num_fragments)
    lance.write_dataset(rows_of(num_rows), str(unfinished), max_rows_per_file=per_file)
    unfinished.rename(path)
    return path


def rows_of(num_rows: int) -> pa.Table:
    """Rows whose ``k`` is a permutation of their numbers."""
    numbers = np.random.default_rng(13)
    keys = numbers.permutation(num_rows)
    texts = (pa.array(keys).cast(pa.string()), pa.array(numbers.integers(0, 1_000, num_rows)).cast(pa.string()))
    vectors = pa.array(numbers.standard_normal(num_rows * VECTOR_WIDTH, np.float32))
    return pa.table(
        {
            "k": keys,
            "y": numbers.integers(0, 2**31 - 1, num_rows, np.int32),
            "x": numbers.standard_normal(num_rows),
            "s": pc.binary_join_element_wise(*texts, "@"),
            "v": pa.FixedSizeListArray.from_arrays(vectors, VECTOR_WIDTH),
        }
    )


def workdir(given: Path | None) -> AbstractContextManager[str | Path]:
    """A directory that stays when it was given, and goes when it was not."""
    if given is None:
        return tempfile.TemporaryDirectory()
    given.mkdir(parents=True, exist_ok=True)
    return nullcontext(given)


if __name__ == "__main__":
    main()
