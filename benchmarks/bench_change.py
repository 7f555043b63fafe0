"""Changing a table: appends, deletes, updates, upserts, new and dropped columns, compaction; ours against pylance.

Both sides run in one process and in turn, so that a slow minute of the machine hits both; a figure is the median over
the pairs of runs, a ratio the median of the pairs' ratios. Each side has read rows of the table before, so that our
compiled kernels are loaded. Every run changes a copy of its own of a table that pylance
wrote, and opens it anew; copying and opening are not measured. The copies are links to the same data files, which no
operation changes. The changed rows are spread over all fragments. The largest resident size of a side is measured in a
process of its own, which does nothing else.

    python benchmarks/bench_change.py [--workdir /dev/shm/bench_change] [--rows 1000000] [--operations "delete 1 %" ...]
    python benchmarks/bench_change.py --rows 20000 --runs 1 --no-memory                      # seconds: does it work?

Ratios are pylance's time divided by ours: above 1, ours is the faster one. Those of the CPU time of all threads do not
depend on what else the machine does. Ours makes files durable before a version refers to them and pylance does not, so
on a disk the times of small changes are those of the disk; a directory in memory has no such cost. ``--profile`` prints
where our time goes instead of comparing.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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
HEADINGS: Final = ("operation", "ours ms", "pylance ms", "ratio", "CPU ratio", "ours MiB", "pylance MiB")
SMALL_FRAGMENT_ROWS: Final = 5_000
VECTOR_WIDTH: Final = 32
MIB: Final = 1024 * 1024
WARMING_BYTES: Final = 256 * MIB


@dataclass(frozen=True)
class Operation:
    """One change.

    Attributes:
        run: what is timed; receives the library, a handle, the number of rows of the table, and what ``source`` made.
        source: makes the rows that the change brings along; not timed.
        needs: the method of a dataset without which the operation is left out.
        is_of_small_fragments: whether the table has many small fragments instead of a few large ones.
    """

    run: Callable[[Any, Any, int, Any], object]
    source: Callable[[int], Any] = lambda _: None
    needs: str = "version"
    is_of_small_fragments: bool = False


def append(library: Any, table: Any, _: int, rows: pa.Table) -> object:
    """Append rows through the handle."""
    return library.write_dataset(rows, table, mode="append")


def upsert(_library: Any, table: Any, _: int, rows: pa.Table) -> object:
    """Update the rows whose keys exist, and insert the others."""
    merge = table.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(rows)


def compact(_library: Any, table: Any, _rows: int, _source: None) -> object:
    """Compact with the default options."""
    return table.optimize.compact_files()


OPERATIONS: Final[dict[str, Operation]] = {
    "append 1": Operation(append, lambda rows: rows_of(np.arange(rows, rows + 1))),
    "append 100,000": Operation(append, lambda rows: rows_of(np.arange(rows, rows + 100_000))),
    "delete 1 %": Operation(lambda _, table, rows, __: table.delete(f"k < {rows // 100}")),
    "update 1 %": Operation(
        lambda _, table, rows, __: table.update({"x": "x + 1"}, where=f"k < {rows // 100}"), needs="update"
    ),
    "upsert 100,000": Operation(
        upsert, lambda rows: rows_of(np.arange(max(0, rows - 50_000), rows + 50_000)), needs="merge_insert"
    ),
    "upsert 5 %": Operation(upsert, lambda rows: rows_of(np.arange(rows - rows // 20, rows)), needs="merge_insert"),
    "add a column": Operation(lambda _, table, __, ___: table.add_columns({"z": "x * 2 + y"}), needs="add_columns"),
    "drop a column": Operation(lambda _, table, __, ___: table.drop_columns(["v"]), needs="drop_columns"),
    "compact 200 small": Operation(compact, is_of_small_fragments=True),
    "compact 20 large": Operation(compact),
}


def main() -> None:
    """Make the tables unless they are there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="keeps the tables between runs; a temporary one by default")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--operations", nargs="*", choices=OPERATIONS, default=list(OPERATIONS), metavar="OPERATION")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-memory", action="store_true", help="leave out the child processes")
    parser.add_argument("--profile", action="store_true", help="profile our side of the operations")
    parser.add_argument("--memory-of", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        (name,) = arguments.operations
        print(json.dumps(peak_bytes_of(arguments.memory_of, OPERATIONS[name], arguments.workdir, arguments.rows)))
        return
    with workdir(arguments.workdir) as directory:
        if arguments.profile:
            print_profiles(Path(directory), arguments)
            return
        table = Table(*HEADINGS)
        for row in figures(Path(directory), arguments):
            table.add_row(*row)
    Console(width=120).print(table)


def figures(directory: Path, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row for each operation that both sides have, and the geometric mean of their ratios."""
    ratios: list[tuple[float, float]] = []
    for name in arguments.operations:
        operation = OPERATIONS[name]
        if not all(hasattr(library.LanceDataset, operation.needs) for library in LIBRARIES.values()):
            yield (name, *["-"] * (len(HEADINGS) - 1))
            continue
        path = table_of(directory, operation, arguments.rows)
        warm_up(path)
        *medians, clock, processor = compared(operation, path, arguments)
        ratios.append((clock, processor))
        sizes = ["", ""] if arguments.no_memory else [peak_in_child(side, name, path, arguments) for side in SIDES]
        yield (name, *(f"{seconds * 1000:,.1f}" for seconds in medians), f"{clock:.2f}", f"{processor:.2f}", *sizes)
    if ratios:
        means = (f"{statistics.geometric_mean(each):.2f}" for each in zip(*ratios, strict=True))
        yield ("geometric mean", "", "", *means, "", "")


def compared(operation: Operation, path: Path, arguments: argparse.Namespace) -> tuple[float, float, float, float]:
    """Run both in turn; the first pair does not count. Seconds of both, and the ratios of clock and CPU."""
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    source = operation.source(arguments.rows)
    for _ in range(arguments.runs + 1):
        for side in SIDES:
            with copied(path) as copy:
                table = LIBRARIES[side].dataset(str(copy))
                gc.collect()
                started = time.perf_counter(), time.process_time()
                kept = operation.run(LIBRARIES[side], table, arguments.rows, source)
                times[side].append((time.perf_counter() - started[0], time.process_time() - started[1]))
                del kept, table
    pairs = list(zip(times["ours"], times["pylance"], strict=True))[1:]
    clock, processor = (statistics.median(their[each] / our[each] for our, their in pairs) for each in (0, 1))
    ours, theirs = (statistics.median(each[0] for each in times[side][1:]) for side in SIDES)
    return ours, theirs, clock, processor


def warm_up(path: Path) -> None:
    """Read as many rows as our side needs to load its compiled kernels."""
    for library in LIBRARIES.values():
        num_bytes = 0
        while num_bytes < WARMING_BYTES:
            for batch in library.dataset(str(path)).to_batches():
                # Small batches count as larger ones, so that a small table is not read thousands of times.
                num_bytes += max(batch.nbytes, MIB)
                if num_bytes >= WARMING_BYTES:
                    break


def peak_in_child(side: str, name: str, path: Path, arguments: argparse.Namespace) -> str:
    """Run an operation in a process of its own; the largest resident size, in MiB."""
    command = [sys.executable, __file__, "--workdir", str(path), "--rows", str(arguments.rows), "--memory-of", side]
    done = subprocess.run([*command, "--operations", name], check=True, capture_output=True, text=True)
    return f"{json.loads(done.stdout.splitlines()[-1]) / MIB:,.0f}"


def peak_bytes_of(side: str, operation: Operation, path: Path, num_rows: int) -> int:
    """Run an operation in this process; the largest resident size of the process so far."""
    source = operation.source(num_rows)
    with copied(path) as copy:
        operation.run(LIBRARIES[side], LIBRARIES[side].dataset(str(copy)), num_rows, source)
    # getrusage would count what was there before the program was loaded.
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


def print_profiles(directory: Path, arguments: argparse.Namespace) -> None:
    """Print what our side calls in each operation, once it is warm."""
    for name in arguments.operations:
        operation = OPERATIONS[name]
        if not hasattr(lance_core.LanceDataset, operation.needs):
            continue
        path = table_of(directory, operation, arguments.rows)
        source = operation.source(arguments.rows)
        for is_measured in (False, True):
            with copied(path) as copy:
                table = lance_core.dataset(str(copy))
                profile = cProfile.Profile()
                run = profile.runcall if is_measured else lambda called, *given: called(*given)
                run(operation.run, lance_core, table, arguments.rows, source)
        print(f"\n{name}")
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def table_of(directory: Path, operation: Operation, num_rows: int) -> Path:
    """The table that an operation changes: 20 fragments, or 200 small ones; made once, by pylance."""
    if operation.is_of_small_fragments:
        num_fragments, per_fragment = 200, max(1, min(SMALL_FRAGMENT_ROWS, num_rows // 200))
    else:
        num_fragments, per_fragment = 20, num_rows // 20
    path = directory / f"rows-{per_fragment}x{num_fragments}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    keys = np.random.default_rng(13).permutation(per_fragment * num_fragments)
    batches = (batch for part in np.split(keys, num_fragments) for batch in rows_of(part).to_batches())
    reader = pa.RecordBatchReader.from_batches(rows_of(keys[:0]).schema, batches)
    lance.write_dataset(reader, str(unfinished), max_rows_per_file=per_fragment)
    unfinished.rename(path)
    return path


def rows_of(keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    """Rows with these keys."""
    numbers = np.random.default_rng(len(keys))
    texts = (pa.array(keys).cast(pa.string()), pa.array(numbers.integers(0, 1_000, len(keys))).cast(pa.string()))
    vectors = pa.array(numbers.standard_normal(len(keys) * VECTOR_WIDTH, np.float32))
    return pa.table(
        {
            "k": keys,
            "y": numbers.integers(0, 2**31 - 1, len(keys), np.int32),
            "x": numbers.standard_normal(len(keys)),
            "s": pc.binary_join_element_wise(*texts, "@"),
            "v": pa.FixedSizeListArray.from_arrays(vectors, VECTOR_WIDTH),
        }
    )


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """A copy of a table, until the end of the block."""
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        copy = Path(directory) / path.name
        shutil.copytree(path, copy, copy_function=os.link)
        yield copy


def workdir(given: Path | None) -> AbstractContextManager[str | Path]:
    """A directory that stays when it was given, and goes when it was not."""
    if given is None:
        return tempfile.TemporaryDirectory()
    given.mkdir(parents=True, exist_ok=True)
    return nullcontext(given)


if __name__ == "__main__":
    main()
