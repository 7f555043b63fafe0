"""Reading tables of many fragments: opening, taking rows, counting, filtering, streaming; ours against pylance.

Both sides run in one process and in turn, so that a slow minute of the machine hits both; a figure is the median over
the pairs of runs, a ratio the median of the pairs' ratios. The tables are written by pylance. Each side has read the
whole table three times before, so that the files are in the page cache, and our compiled kernels are loaded. The rows
that a filter finds are spread over all fragments. A cold read opens the table in a session of its own; a warm one uses
a handle that has done the same before, for other rows.

    python benchmarks/bench_scan.py [--workdir /dev/shm/bench_scan] [--rows 2000000] [--fragments 20 1000]
    python benchmarks/bench_scan.py --rows 20000 --fragments 4 --runs 1                      # seconds: does it work?
    python benchmarks/bench_scan.py --s3 [--rows 200000] [--fragments 10] [--runs 3] [--latency-ms 20]

With ``--s3``, the tables are on an S3 server (``slow_s3.py``) that adds some time to every request; the requests of
each side and their bytes are counted in the last of its runs.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from slow_s3 import SlowS3, slow_s3

import lance_core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

SIDES: Final = ("ours", "pylance")
LIBRARIES: Final[dict[str, Any]] = {"ours": lance_core, "pylance": lance}
HEADINGS: Final = ("fragments", "operation", "ours ms", "pylance ms", "ratio", "CPU ratio")
WARMING_READS: Final = 3
VECTOR_WIDTH: Final = 32
TAKEN: Final = {"take 1": 1, "take 100": 100, "take 1,000": 1_000}
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
REQUEST_HEADINGS: Final = ("ours: requests, MiB", "pylance: requests, MiB")
OPERATIONS: Final = ("open", *(f"{take} {state}" for take in TAKEN for state in ("cold", "warm")), *SCANS)


@dataclass(frozen=True)
class Place:
    """A table.

    Attributes:
        uri: where it is.
        num_rows: its number of rows.
        options: of its store.
        server: counts the requests; None on disk.
    """

    uri: str
    num_rows: int
    options: dict[str, str] | None = None
    server: SlowS3 | None = None

    def opened(self, library: Any) -> Any:
        """The table, opened in a new session."""
        return library.dataset(self.uri, storage_options=self.options, session=library.Session())

    def counts(self) -> tuple[int, int]:
        """Requests and bytes so far."""
        return self.server.counts() if self.server is not None else (0, 0)


@dataclass
class Measured:
    """What the runs of one side took; the last run counts for requests and bytes.

    Attributes:
        seconds: elapsed time of each run.
        processor: CPU time of each run, of all threads.
        requests: requests to the server.
        num_bytes: bytes of their bodies.
    """

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    requests: int = 0
    num_bytes: int = 0

    @property
    def requested(self) -> str:
        """Requests and MiB."""
        return f"{self.requests:,}, {self.num_bytes / 2**20:.2f}"


def main() -> None:
    """Make the tables unless they are there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="keeps the tables between runs; a temporary one by default")
    parser.add_argument("--rows", type=int, help="2,000,000 by default; 200,000 with --s3")
    parser.add_argument("--fragments", type=int, nargs="*", help="20 and 1,000 by default; 10 with --s3")
    parser.add_argument("--operations", nargs="*", choices=OPERATIONS, default=list(OPERATIONS), metavar="OPERATION")
    parser.add_argument("--runs", type=int, help="7 by default; 3 with --s3")
    parser.add_argument("--profile", action="store_true", help="profile our side of the operations")
    parser.add_argument("--s3", action="store_true", help="on an S3 server instead of the disk")
    parser.add_argument("--latency-ms", type=float, default=20.0, help="time that --s3 adds to each request")
    arguments = parser.parse_args()
    rows, fragments, runs = (200_000, [10], 3) if arguments.s3 else (2_000_000, [20, 1_000], 7)
    arguments.rows = arguments.rows or rows
    arguments.fragments = arguments.fragments or fragments
    arguments.runs = arguments.runs or runs
    with workdir(arguments.workdir) as directory, server_of(arguments) as server:
        if arguments.profile:
            print_profiles(Path(directory), server, arguments)
            return
        table = Table(*HEADINGS, *(REQUEST_HEADINGS if server is not None else ()))
        for row in figures(Path(directory), server, arguments):
            table.add_row(*row)
    Console(width=130).print(table)


def figures(directory: Path, server: SlowS3 | None, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row for each table and operation, and the geometric mean of the ratios of each table."""
    for num_fragments in arguments.fragments:
        place = place_of(directory, server, arguments.rows, num_fragments)
        for library in LIBRARIES.values():
            for _ in range(WARMING_READS):
                place.opened(library).to_table()
        ratios: list[tuple[float, float]] = []
        for operation in arguments.operations:
            runs = {side: reading(side, operation, place) for side in SIDES}
            sides = compared(runs, place, arguments.runs)
            ours, theirs = sides["ours"], sides["pylance"]
            clock, processor = ratio(ours.seconds, theirs.seconds), ratio(ours.processor, theirs.processor)
            ratios.append((clock, processor))
            milliseconds = (f"{statistics.median(side.seconds) * 1000:.1f}" for side in (ours, theirs))
            requested = () if server is None else (ours.requested, theirs.requested)
            yield (f"{num_fragments:,}", operation, *milliseconds, f"{clock:.2f}", f"{processor:.2f}", *requested)
        means = (f"{statistics.geometric_mean(each):.2f}" for each in zip(*ratios, strict=True))
        yield (f"{num_fragments:,}", "geometric mean", "", "", *means)


def reading(side: str, operation: str, place: Place) -> Callable[[], object]:
    """What is timed."""
    library, num_rows = LIBRARIES[side], place.num_rows
    if operation == "open":
        return lambda: place.opened(library).version
    if operation in SCANS:
        table = place.opened(library)
        return lambda: SCANS[operation](table, num_rows)
    take, _, state = operation.rpartition(" ")
    # The same rows on both sides; other ones in each run.
    numbers = np.random.default_rng(7)

    def rows() -> list[int]:
        wanted: list[int] = numbers.integers(0, num_rows, TAKEN[take]).tolist()
        return wanted

    if state == "cold":
        return lambda: place.opened(library).take(rows())
    table = place.opened(library)
    # Every fragment has been read from before.
    table.take(list(range(0, num_rows, max(1, num_rows // 10_000))))
    return lambda: table.take(rows())


def compared(runs: dict[str, Callable[[], object]], place: Place, num_runs: int) -> dict[str, Measured]:
    """Run both in turn; the first pair does not count."""
    sides = {side: Measured() for side in SIDES}
    for index in range(num_runs + 1):
        for side, measured in sides.items():
            gc.collect()
            requests, num_bytes = place.counts()
            clock, processor = time.perf_counter(), time.process_time()
            kept = runs[side]()
            clock, processor = time.perf_counter() - clock, time.process_time() - processor
            del kept
            if index:
                measured.seconds.append(clock)
                measured.processor.append(processor)
            counts = place.counts()
            measured.requests, measured.num_bytes = counts[0] - requests, counts[1] - num_bytes
    return sides


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the pairs' ratios."""
    return statistics.median(their / our for our, their in zip(ours, theirs, strict=True))


def print_profiles(directory: Path, server: SlowS3 | None, arguments: argparse.Namespace) -> None:
    """Print what our side calls in each operation, once it is warm."""
    for num_fragments in arguments.fragments:
        place = place_of(directory, server, arguments.rows, num_fragments)
        for operation in arguments.operations:
            run = reading("ours", operation, place)
            run()
            profile = cProfile.Profile()
            profile.runcall(run)
            print(f"\n{num_fragments:,} fragments, {operation}")
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


def server_of(arguments: argparse.Namespace) -> AbstractContextManager[SlowS3 | None]:
    """The S3 server, if there shall be one."""
    return slow_s3(arguments.latency_ms / 1000) if arguments.s3 else nullcontext()


def place_of(directory: Path, server: SlowS3 | None, num_rows: int, num_fragments: int) -> Place:
    """A table of that many rows in that many fragments, on disk or on the server."""
    path = table_of(directory, num_rows, num_fragments)
    if server is None:
        return Place(str(path), num_rows)
    return Place(server.upload(path, path.name), num_rows, server.options, server)


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
