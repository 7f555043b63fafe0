"""Data files and tables of one column: write, scan and take, ours against pylance.

Both sides run in one process and in turn, so that a slow minute of the machine hits both; a figure is the median over
the pairs of runs. Reads open the same file, written by pylance. Every read is compared with the input once, outside the
timing. Peak memory comes from a child process of its own for each side.

    python benchmarks/bench_file.py [--workdir /dev/shm/bench_file] [--versions 2.1 2.2] [--columns int64_sequence ...]
    python benchmarks/bench_file.py --rows 5000 --runs 1 --no-memory                    # seconds: does it still work?

Operations on files go through ``LanceFileWriter`` and ``LanceFileReader``, ``write_dataset`` and ``to_table`` through
tables. Most columns come in batches of their own memory; others as one large chunk, sliced, or in many small batches,
with values under their nulls that are not zero.

Ratios are pylance's time divided by ours: above 1, ours is the faster one. Wide columns have fewer rows than the
others, so that a column stays below about 400 MB: see ``COLUMNS``. Compiled kernels are used from the first byte on,
as a process does that has read some 128 MB; ``LANCE_CORE_COMPILED=0`` in the environment measures numpy alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import lance_core
from lance_core import LanceFileReader, LanceFileWriter
from lance_core.errors import LanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

ROWS: Final = 2_000_000
BATCH_ROWS: Final = 131_072
SMALL_BATCH_ROWS: Final = 1_000
TAKEN_ROWS: Final = 1_000
OPERATIONS: Final = ("write", "scan", "stream", "take", "write_dataset", "to_table")
TABLE_OPERATIONS: Final = ("write_dataset", "to_table")
VERSIONS: Final = ("2.0", "2.1", "2.2")
HEADINGS: Final = (
    *("column", "rows", "operation", "ours MiB/s", "pylance MiB/s", "ratio", "CPU"),
    *("peak MiB", "pylance", "file"),
)
SIDES: Final = ("ours", "pylance")
MIB: Final = 1024 * 1024
LIBRARIES: Final[dict[str, Any]] = {"ours": lance_core, "pylance": lance}
READERS: Final[dict[str, Any]] = {"ours": LanceFileReader, "pylance": lance.file.LanceFileReader}
WRITERS: Final[dict[str, Any]] = {"ours": LanceFileWriter, "pylance": lance.file.LanceFileWriter}
TEXT: Final = """
the of and a to in is you that it he was for on are as with his they I at be this have from or one had by word but
not what all were we when your can said there use an each which she do how their if will up other about out many
then them these so some her would make like him into time has look two more write go see number no way could people
"""


@dataclass(frozen=True)
class Column:
    """A column under test: ``make(random, rows)``, the share of ``--rows`` that it has, and how it is cut."""

    make: Callable[[np.random.Generator, int], pa.Array]
    share: float = 1.0
    cut: Callable[[pa.Array], pa.Table] | None = None


def _nulls(random: np.random.Generator, values: pa.Array, share: float) -> pa.Array:
    return pc.if_else(pa.array(random.random(len(values)) >= share), values, pa.scalar(None, values.type))


def _texts(random: np.random.Generator, rows: int, length: int) -> pa.Array:
    """Sentences of ``length`` bytes, cut out of one long random text."""
    text = np.frombuffer(" ".join(random.choice(TEXT.split(), 1 << 18)).encode(), np.uint8)
    starts = random.integers(0, len(text) - length, rows)
    data = np.lib.stride_tricks.sliding_window_view(text, length)[starts].reshape(-1)
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _unique_strings(random: np.random.Generator, rows: int) -> pa.Array:
    users = pa.array(random.integers(0, 1 << 40, rows)).cast(pa.string())
    numbers = pa.array(np.arange(rows)).cast(pa.string())
    return pc.binary_join_element_wise("https://example.com/user/", users, "/item?id=", numbers, "")


def _vectors(random: np.random.Generator, rows: int, dimension: int) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(random.random(rows * dimension, np.float32), dimension)


def _lists(random: np.random.Generator, rows: int) -> pa.Array:
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(random.integers(0, 9, rows), out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 100_000, offsets[-1], np.int32)))


def _structs(random: np.random.Generator, rows: int) -> pa.Array:
    members = [pa.array(np.arange(rows)), pa.array(random.random(rows)), _names(random, rows)]
    return pa.StructArray.from_arrays(members, ["id", "score", "name"])


def _names(random: np.random.Generator, rows: int) -> pa.Array:
    return pa.array([f"category {index:03}" for index in range(50)]).take(pa.array(random.integers(0, 50, rows)))


def _binaries(random: np.random.Generator, rows: int) -> pa.Array:
    size = 10_240
    data = random.integers(0, 256, rows * size, np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * size
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _wide_numbers(random: np.random.Generator, rows: int) -> pa.Array:
    """Numbers that hardly repeat; a fifth is null, and the values under these nulls are like the others."""
    return pa.array(random.integers(0, 1 << 40, rows), mask=random.random(rows) < 0.2)


def _null_bools(random: np.random.Generator, rows: int) -> pa.Array:
    return pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.2)


def _skewed(random: np.random.Generator, rows: int) -> pa.Array:
    """Numbers of which a fifth is one and the same."""
    return pa.array(np.where(random.random(rows) < 0.2, 0, random.integers(0, 1 << 40, rows)))


def _null_lists(random: np.random.Generator, rows: int) -> pa.Array:
    """Lists of four of :func:`_wide_numbers`; a fifth is null, and has items all the same."""
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * 4)
    return pa.ListArray.from_arrays(offsets, _wide_numbers(random, rows * 4), mask=pa.array(random.random(rows) < 0.2))


def whole(array: pa.Array) -> pa.Table:
    """A table of one chunk."""
    return pa.table({"x": array})


def sliced(array: pa.Array) -> pa.Table:
    """A table of one chunk that starts and ends within the array."""
    return pa.table({"x": array.slice(3, len(array) - 5)})


def in_small_batches(array: pa.Array) -> pa.Table:
    """A table of many short chunks."""
    return batched(array, SMALL_BATCH_ROWS)


COLUMNS: Final[dict[str, Column]] = {
    "int64_sequence": Column(lambda _, rows: pa.array(np.arange(rows))),
    "int64_small": Column(lambda random, rows: pa.array(random.integers(0, 1000, rows))),
    "int64_nulls": Column(lambda random, rows: _nulls(random, pa.array(random.integers(0, 1000, rows)), 0.1)),
    "int32_random": Column(lambda random, rows: pa.array(random.integers(-(1 << 31), 1 << 31, rows, np.int32))),
    "float64": Column(lambda random, rows: pa.array(random.standard_normal(rows))),
    "bool": Column(lambda random, rows: pa.array(random.random(rows) < 0.5)),
    "string_unique": Column(_unique_strings),
    "string_50": Column(_names),
    "string_nulls": Column(lambda random, rows: _nulls(random, _unique_strings(random, rows), 0.1)),
    "text_200": Column(lambda random, rows: _texts(random, rows, 200)),
    "timestamp": Column(
        lambda random, rows: pa.array(
            1_700_000_000_000_000 + np.cumsum(random.integers(0, 2_000_000, rows)), pa.timestamp("us", "UTC")
        )
    ),
    "vector_128": Column(lambda random, rows: _vectors(random, rows, 128), 0.25),
    "vector_768": Column(lambda random, rows: _vectors(random, rows, 768), 0.05),
    "list_int32": Column(_lists),
    "struct": Column(_structs),
    "binary_10k": Column(_binaries, 0.0125),
    "int64_nulls_whole": Column(_wide_numbers, cut=whole),
    "int64_nulls_sliced": Column(_wide_numbers, cut=sliced),
    "int64_nulls_small_batches": Column(_wide_numbers, cut=in_small_batches),
    "int64_skewed_whole": Column(_skewed, cut=whole),
    "float64_nulls_whole": Column(lambda *given: _wide_numbers(*given).cast(pa.float64()), cut=whole),
    "decimal_nulls_whole": Column(lambda *given: _wide_numbers(*given).cast(pa.decimal128(38, 2)), cut=whole),
    "string_nulls_whole": Column(lambda *given: _wide_numbers(*given).cast(pa.string()), cut=whole),
    "list_nulls_whole": Column(_null_lists, 0.25, cut=whole),
    "bool_whole": Column(lambda random, rows: pa.array(random.random(rows) < 0.5), cut=whole),
    "bool_sliced": Column(lambda random, rows: pa.array(random.random(rows) < 0.5), cut=sliced),
    "bool_nulls_whole": Column(_null_bools, cut=whole),
    "bool_nulls_small_batches": Column(_null_bools, cut=in_small_batches),
}


@dataclass(frozen=True)
class Figure:
    """One measured case.

    Attributes:
        ratio: median of pylance's time divided by ours.
        cpu_ratio: the same of the processor time of all threads; what others do on the machine hardly moves it.
        ours_seconds: median.
        pylance_seconds: median.
        num_bytes: Arrow bytes that were written or read.
        ours_peak: bytes of resident memory above the state before; None = not measured.
        pylance_peak: the same.
        ours_file: size of our file; of writes only.
        pylance_file: the same.
    """

    version: str
    operation: str
    column: str
    rows: int
    ratio: float
    cpu_ratio: float
    ours_seconds: float
    pylance_seconds: float
    num_bytes: int
    ours_peak: int | None = None
    pylance_peak: int | None = None
    ours_file: int | None = None
    pylance_file: int | None = None


def main() -> None:
    """Run the cases and print them."""
    # What a process that has been reading for a while does; see lance_core/encodings/kernels/loading.py.
    os.environ.setdefault("LANCE_CORE_COMPILED", "1")
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="default: a new directory in /dev/shm, removed afterwards")
    parser.add_argument("--columns", nargs="+", choices=list(COLUMNS), default=list(COLUMNS))
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--versions", nargs="+", choices=VERSIONS, default=list(VERSIONS))
    parser.add_argument("--rows", type=int, default=ROWS, help="of a narrow column")
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs of each case")
    parser.add_argument("--json", type=Path, help="write all figures there too")
    parser.add_argument("--no-memory", action="store_true", help="do not measure peak memory")
    parser.add_argument("--child", nargs=4, metavar=("SIDE", "OPERATION", "VERSION", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(peak_of(*arguments.child)))
        return
    workdir = arguments.workdir or Path(tempfile.mkdtemp(prefix="bench_file_", dir=_memory_directory()))
    workdir.mkdir(parents=True, exist_ok=True)
    console = Console(width=160)
    bandwidth = memcpy_bandwidth()
    try:
        figures = [
            figure
            for version in arguments.versions
            for column in arguments.columns
            for figure in run_column(workdir, version, column, arguments, console)
        ]
    finally:
        if arguments.workdir is None:
            shutil.rmtree(workdir, ignore_errors=True)
    report(console, figures, bandwidth)
    if arguments.json:
        content = {"memcpy_bytes_per_second": bandwidth, "figures": [asdict(figure) for figure in figures]}
        arguments.json.write_text(json.dumps(content, indent=1))


def run_column(workdir: Path, version: str, name: str, arguments: argparse.Namespace, console: Console) -> list[Figure]:
    """All operations on one column in one format version."""
    column = COLUMNS[name]
    rows = max(1, int(arguments.rows * column.share))
    table = (column.cut or batched)(column.make(np.random.default_rng(7), rows))
    theirs, ours = workdir / "theirs.lance", workdir / "ours.lance"
    write("pylance", theirs, table, version)
    figures = []
    for operation in arguments.operations:
        try:
            figures.append(run_case(operation, table, theirs, ours, version, name, arguments))
            print(
                f"{version} {name} {operation}: {figures[-1].ratio:.2f}, CPU {figures[-1].cpu_ratio:.2f}",
                file=sys.stderr,
                flush=True,
            )
        except LanceError as error:
            console.print(f"{version} {name} {operation}: {type(error).__name__}: {error}", style="red", markup=False)
    for path in (theirs, ours):
        path.unlink(missing_ok=True)
        shutil.rmtree(_table_of(path), ignore_errors=True)
    return figures


def run_case(
    operation: str,
    table: pa.Table,
    theirs: Path,
    ours: Path,
    version: str,
    name: str,
    arguments: argparse.Namespace,
) -> Figure:
    """Check that both sides agree, then time them in turn."""
    paths = {"ours": ours, "pylance": theirs}
    sizes: dict[str, int | None] = dict.fromkeys(SIDES)
    if operation == "write":
        for side in SIDES:
            write(side, paths[side], table, version)
            sizes[side] = paths[side].stat().st_size
            for reader in SIDES:
                require_equal(scan(reader, paths[side], len(table)), table, f"{version} {name}: {reader} of {side}")
        pairs = timed(lambda side, _: write(side, paths[side], table, version), arguments.runs)
        num_bytes = table.nbytes
    elif operation == "take":
        readers = {side: READERS[side](str(theirs)) for side in SIDES}
        chosen = [sorted_rows(seed, len(table)) for seed in range(arguments.runs + 1)]
        for side in SIDES:
            require_equal(take(readers[side], chosen[0]), table.take(chosen[0]), f"{version} {name}: take of {side}")
        pairs = timed(lambda side, run: take(readers[side], chosen[run]), arguments.runs)
        num_bytes = table.take(chosen[0]).nbytes
    elif operation in TABLE_OPERATIONS:
        for side in SIDES:
            write_table(side, paths[side], table, version)
            for reader in SIDES:
                require_equal(scan_table(reader, paths[side]), table, f"{version} {name}: table {reader} of {side}")
        if operation == "write_dataset":
            pairs = timed(lambda side, _: write_table(side, paths[side], table, version), arguments.runs)
        else:
            pairs = timed(lambda side, _: scan_table(side, theirs), arguments.runs)
        num_bytes = table.nbytes
    else:
        read = scan if operation == "scan" else stream
        for side in SIDES:
            require_equal(scan(side, theirs, len(table)), table, f"{version} {name}: scan of {side}")
        pairs = timed(lambda side, _: read(side, theirs, len(table)), arguments.runs)
        num_bytes = table.nbytes
    peaks: dict[str, int | None] = dict.fromkeys(SIDES)
    if not arguments.no_memory and operation not in TABLE_OPERATIONS:
        peaks = {side: run_child(side, operation, version, theirs) for side in SIDES}
    return Figure(
        version=version,
        operation=operation,
        column=name,
        rows=len(table),
        ratio=statistics.median(pair["pylance"] / pair["ours"] for pair in pairs),
        cpu_ratio=statistics.median(pair["pylance_cpu"] / max(pair["ours_cpu"], 1e-6) for pair in pairs),
        ours_seconds=statistics.median(pair["ours"] for pair in pairs),
        pylance_seconds=statistics.median(pair["pylance"] for pair in pairs),
        num_bytes=num_bytes,
        ours_peak=peaks["ours"],
        pylance_peak=peaks["pylance"],
        ours_file=sizes["ours"],
        pylance_file=sizes["pylance"],
    )


def timed(action: Callable[[str, int], Any], runs: int) -> list[dict[str, float]]:
    """Seconds of each side, in turn; a first pair that is not counted warms both up."""
    pairs = []
    gc.disable()
    for run in range(runs + 1):
        pair: dict[str, float] = {}
        for side in SIDES if run % 2 else reversed(SIDES):
            start, cpu_start = time.perf_counter(), time.process_time()
            result = action(side, run)
            pair[side] = time.perf_counter() - start
            pair[f"{side}_cpu"] = time.process_time() - cpu_start
            del result
        pairs.append(pair)
    gc.enable()
    return pairs[1:]


def write(side: str, path: Path, table: pa.Table, version: str) -> None:
    """One file, batch by batch."""
    path.unlink(missing_ok=True)
    with WRITERS[side](str(path), table.schema, version=version) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def write_table(side: str, path: Path, table: pa.Table, version: str) -> None:
    """A new table."""
    shutil.rmtree(_table_of(path), ignore_errors=True)
    LIBRARIES[side].write_dataset(table, str(_table_of(path)), data_storage_version=version)


def scan_table(side: str, path: Path) -> pa.Table:
    """Open a table and read everything."""
    return LIBRARIES[side].dataset(str(_table_of(path))).to_table()


def _table_of(path: Path) -> Path:
    return path.with_suffix(".table")


def scan(side: str, path: Path, rows: int) -> pa.Table:
    """Everything as one table."""
    return READERS[side](str(path)).read_all(batch_size=rows).to_table()


def stream(side: str, path: Path, _rows: int) -> int:
    """Batch by batch, in batches of the default size, each forgotten before the next."""
    return sum(batch.num_rows for batch in READERS[side](str(path)).read_all().to_batches())


def take(reader: Any, rows: NDArray[np.int64]) -> pa.Table:
    """Single rows from an open reader."""
    return reader.take_rows(rows.tolist()).to_table()


def sorted_rows(seed: int, num_rows: int) -> NDArray[np.int64]:
    """Random rows, ascending and distinct."""
    return np.sort(np.random.default_rng(seed).choice(num_rows, min(TAKEN_ROWS, num_rows), replace=False))


def batched(array: pa.Array, batch_rows: int = BATCH_ROWS) -> pa.Table:
    """A table of the array in batches with memory of their own."""
    parts = []
    for start in range(0, len(array), batch_rows):
        part = array.slice(start, batch_rows)
        parts.append(pa.concat_arrays([part, part.slice(0, 0)]))
    return pa.table({"x": pa.chunked_array(parts, array.type)})


def require_equal(found: pa.Table, expected: pa.Table, what: str) -> None:
    """Refuse a figure of a wrong result."""
    if not found.column(0).equals(expected.column(0)):
        raise SystemExit(f"{what}: the values differ")


def peak_of(side: str, operation: str, version: str, path: str) -> int:
    """Largest resident size while one operation runs, above the size before; for a child process."""
    if operation == "write":
        table = READERS["pylance"](path).read_all(batch_size=BATCH_ROWS).to_table()
        action: Callable[[], Any] = lambda: write(side, Path(f"{path}.{side}"), table, version)  # noqa: E731 - one per operation
    elif operation == "take":
        reader = READERS[side](path)
        action = lambda: take(reader, sorted_rows(1, reader.num_rows()))  # noqa: E731 - one per operation
    else:
        read = scan if operation == "scan" else stream
        action = lambda: read(side, Path(path), READERS[side](path).num_rows())  # noqa: E731 - one per operation
    # Before the operation its libraries are loaded, and the high-water mark is set back.
    READERS[side](path)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    kept = action()
    after = resident("VmHWM")
    del kept
    Path(f"{path}.{side}").unlink(missing_ok=True)
    return after - before


def resident(key: str) -> int:
    """A size from ``/proc/self/status``, bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"no {key} on this system: use --no-memory")


def run_child(side: str, operation: str, version: str, path: Path) -> int:
    """:func:`peak_of` in a process of its own."""
    command = [sys.executable, __file__, "--child", side, operation, version, str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memcpy_bandwidth() -> float:
    """Bytes per second of a large copy, the best of several."""
    source = np.ones(256 * MIB, np.uint8)
    target = np.zeros_like(source)
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return len(source) / best


def report(console: Console, figures: Sequence[Figure], bandwidth: float) -> None:
    """One table per version, and the geometric means."""
    console.print(f"memcpy {bandwidth / MIB:.0f} MiB/s, pylance {lance.__version__}; ratio > 1: ours is faster")
    for version in dict.fromkeys(figure.version for figure in figures):
        of_version = [figure for figure in figures if figure.version == version]
        table = Table(title=f"format {version}")
        for name in HEADINGS:
            table.add_column(name, justify="left" if name in ("column", "operation") else "right")
        for figure in of_version:
            table.add_row(*_cells(figure))
        console.print(table)
        for operation in dict.fromkeys(figure.operation for figure in of_version):
            ratios = [figure.ratio for figure in of_version if figure.operation == operation]
            mean = statistics.geometric_mean(ratios)
            of_cpu = statistics.geometric_mean(
                max(figure.cpu_ratio, 1e-3) for figure in of_version if figure.operation == operation
            )
            console.print(
                f"{version} {operation:6} geometric mean {mean:.2f}, least {min(ratios):.2f}, of CPU time {of_cpu:.2f}"
            )
        written = [(figure.ours_file, figure.pylance_file) for figure in of_version if figure.ours_file is not None]
        if written:
            ours, theirs = sum(pair[0] or 0 for pair in written), sum(pair[1] or 0 for pair in written)
            console.print(f"{version} files together {ours / MIB:.1f} MiB, pylance {theirs / MIB:.1f} MiB")


def _cells(figure: Figure) -> list[str]:
    def peak(num_bytes: int | None) -> str:
        return "" if num_bytes is None else f"{num_bytes / MIB:.0f}"

    size = ""
    if figure.ours_file is not None and figure.pylance_file is not None:
        size = f"{figure.ours_file / figure.pylance_file:.3f}"
    return [
        figure.column,
        str(figure.rows),
        figure.operation,
        f"{figure.num_bytes / figure.ours_seconds / MIB:.0f}",
        f"{figure.num_bytes / figure.pylance_seconds / MIB:.0f}",
        f"[{'red' if figure.ratio < 0.6 else 'green' if figure.ratio >= 1 else 'yellow'}]{figure.ratio:.2f}",
        f"{figure.cpu_ratio:.2f}",
        peak(figure.ours_peak),
        peak(figure.pylance_peak),
        size,
    ]


def _memory_directory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    main()
