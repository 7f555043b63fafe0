"""Blob columns: file objects, whole values and descriptors of many rows, ours against pylance.

Both sides run in one process and in turn; a figure is the median over the pairs of runs. Both open the same table,
written by pylance: values in the data file (inline), in shared sidecars (packed), and those of the first generation.
What a side gives is compared with the input once, outside the timing.

    python benchmarks/bench_blobs.py [--rows 100000] [--cases inline packed] [--operations take_blobs]
    python benchmarks/bench_blobs.py --rows 500 --runs 1                                # seconds: does it still work?

Ratios are pylance's time divided by ours: above 1, ours is the faster one.

===============  ====================================================================================
Operation        What is timed
===============  ====================================================================================
take_blobs       a file object for every row, in random order; nothing of the values is read
read_blobs       the values of a hundredth of the rows, in random order
describe         a scan of the descriptors
values           a scan of the values
placed           descriptors of as many values of one sidecar, written by hand and put into a data file
===============  ====================================================================================
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import lance.file
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lance_core
import lance_core.file

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS: Final = 100_000
VALUE_BYTES: Final = 64
SIDES: Final[dict[str, tuple[Any, Any]]] = {"ours": (lance_core, lance_core.file), "pylance": (lance, lance.file)}
OPERATIONS: Final = ("take_blobs", "read_blobs", "describe", "values", "placed")
V1: Final = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
CASES: Final[dict[str, tuple[pa.Field, str]]] = {
    "inline": (lance.blob_field("b"), "2.2"),
    "packed": (lance.blob_field("b", inline_size_threshold=0), "2.2"),
    "first-2.1": (V1, "2.1"),
    "first-2.0": (V1, "2.0"),
}


@dataclass(frozen=True)
class Figure:
    """One measured case; seconds are medians, the ratio is the median of pylance's time divided by ours."""

    case: str
    operation: str
    rows: int
    ratio: float
    ours_seconds: float
    pylance_seconds: float


def main() -> None:
    """Run the cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--json", type=Path, help="write all figures there too")
    arguments = parser.parse_args()
    shared_memory = Path("/dev/shm")
    figures = []
    with tempfile.TemporaryDirectory(dir=shared_memory if shared_memory.is_dir() else None) as directory:
        for case in arguments.cases:
            values = made_values(arguments.rows)
            uri = str(Path(directory) / case)
            write(uri, case, values)
            for operation in arguments.operations:
                if operation == "placed" and case != "packed":
                    continue
                figures.append(measure(case, operation, uri, values, arguments.runs))
    report(Console(width=120), figures)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))


def made_values(rows: int) -> pa.Array:
    """Values of 1 to 64 bytes; every tenth is null."""
    random = np.random.default_rng(7)
    sizes = random.integers(1, VALUE_BYTES + 1, rows)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    data = random.integers(0, 256, offsets[-1], np.uint8)
    nulls = pa.array(np.arange(rows) % 10 != 0).buffers()[1]
    return pa.Array.from_buffers(pa.large_binary(), rows, [nulls, pa.py_buffer(offsets), pa.py_buffer(data)])


def write(uri: str, case: str, values: pa.Array) -> None:
    field, version = CASES[case]
    column: pa.Array = values
    if version == "2.2":
        nothing = [pa.nulls(len(values), dtype) for dtype in (pa.string(), pa.uint64(), pa.uint64())]
        names = ["data", "uri", "position", "size"]
        storage = pa.StructArray.from_arrays([values, *nothing], names=names, mask=values.is_null())
        column = pa.ExtensionArray.from_storage(field.type, storage)
    lance.write_dataset(pa.table([column], schema=pa.schema([field])), uri, data_storage_version=version)


def operation_of(name: str, uri: str, values: pa.Array) -> Callable[[str], Any]:
    """What is timed: a function of the side."""
    order = np.random.default_rng(11).permutation(len(values))
    indices, few = order.tolist(), order[: max(1, len(order) // 100)].tolist()
    datasets = {side: top.dataset(uri) for side, (top, _) in SIDES.items()}
    placed = Path(uri).parent / "placed"

    def place(side: str) -> pa.Table:
        _, files = SIDES[side]
        session = files.LanceFileSession(str(placed / side))
        writer = session.open_packed_blob_writer("f.lance", 1)
        writer.write_blobs(values)
        column = writer.finish_array("b")
        schema = pa.schema([writer.field])
        with session.open_writer("f.lance", schema=schema, version="2.2") as file:
            file.write_batch(pa.record_batch([column], schema=schema))
        return lance_core.LanceFileReader(str(placed / side / "f.lance")).read_all().to_table()["b"].combine_chunks()

    operations: dict[str, Callable[[str], Any]] = {
        "take_blobs": lambda side: datasets[side].take_blobs("b", indices=indices),
        "read_blobs": lambda side: datasets[side].read_blobs("b", indices=few),
        "describe": lambda side: datasets[side].to_table()["b"].combine_chunks(),
        "values": lambda side: datasets[side].to_table(blob_handling="all_binary")["b"].combine_chunks(),
        "placed": place,
    }
    return operations[name]


def check(operation: str, results: dict[str, Any], values: pa.Array) -> None:
    """Raise unless both sides gave the same, and where it is values, what was written."""
    ours, theirs = results["ours"], results["pylance"]
    expected: Any = theirs
    if operation == "take_blobs":
        order = np.random.default_rng(11).permutation(len(values))[:100]
        sizes = [[None if file is None else file.size() for file in files] for files in (ours, theirs)]
        ours = (sizes[0], [file and file.readall() for file in ours[:100]])
        expected = (sizes[1], values.take(pa.array(order)).to_pylist())
    elif operation == "values":
        expected = values
    if ours != expected:
        raise SystemExit(f"{operation}: other values than expected")


def measure(case: str, operation: str, uri: str, values: pa.Array, runs: int) -> Figure:
    """Run a case in turns."""
    run = operation_of(operation, uri, values)
    check(operation, {side: run(side) for side in SIDES}, values)
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(runs):
        for side in sorted(SIDES, reverse=number % 2 == 1):
            start = time.perf_counter()
            result = run(side)
            seconds[side].append(time.perf_counter() - start)
            del result
    ratios = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["pylance"], strict=True)]
    ours, theirs = (statistics.median(seconds[side]) for side in ("ours", "pylance"))
    return Figure(case, operation, len(values), statistics.median(ratios), ours, theirs)


def report(console: Console, figures: list[Figure]) -> None:
    table = Table(title=f"blobs, pylance {lance.__version__}")
    for heading in ("case", "operation", "rows", "ours ms", "pylance ms", "ratio"):
        table.add_column(heading, justify="left" if heading in ("case", "operation") else "right")
    for figure in figures:
        milliseconds = (f"{1000 * seconds:.1f}" for seconds in (figure.ours_seconds, figure.pylance_seconds))
        table.add_row(figure.case, figure.operation, f"{figure.rows:,}", *milliseconds, f"{figure.ratio:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
