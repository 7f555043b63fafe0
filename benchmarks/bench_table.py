"""Tables of many fragments and many versions: opening, looking around, appending, listing; ours against pylance.

Both sides run in one process and in turn, so that a slow minute of the machine hits both; a figure is the median over
the pairs of runs, a ratio the median of the pairs' ratios. Every run opens the table anew: nothing is kept between
handles, the files are in the page cache. What a handle holds in memory is measured in a process of its own.

    python benchmarks/bench_table.py [--workdir /dev/shm/bench_table] [--kinds plain stable ...]
    python benchmarks/bench_table.py --fragments 50 --versions 50 --runs 1 --no-memory         # seconds: does it work?

Ratios are pylance's time divided by ours: above 1, ours is the faster one. Those of the CPU time of all threads do not
depend on what else the machine does. The fragments are ten rows each, their data
files links to one file. The versions are one manifest each, of one fragment.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import lance_core
from lance_core.table.paths import data_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KINDS: Final = ("plain", "deletions", "stable row ids", "indexed", "V1 names")
OPERATIONS: Final = ("open", "fragments", "count", "first rows", "append")
LISTINGS: Final = ("open", "latest", "numbers", "everything")
SIDES: Final = ("ours", "pylance")
LIBRARIES: Final[dict[str, Any]] = {"ours": lance_core, "pylance": lance}
HEADINGS: Final = ("table", "operation", "ours ms", "pylance ms", "ratio", "CPU ratio")
ROWS: Final = pa.table({"id": range(10), "text": [f"row {each}" for each in range(10)], "value": [0.5] * 10})
MIB: Final = 1024 * 1024


def main() -> None:
    """Make the tables unless they are there, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="keeps the tables between runs; a temporary one by default")
    parser.add_argument("--fragments", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--no-memory", action="store_true", help="leave out the child processes")
    parser.add_argument("--memory-of", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(json.dumps(memory_of_opening(arguments.memory_of, arguments.workdir)))
        return
    with workdir(arguments.workdir) as directory:
        rows = [*fragment_figures(directory, arguments), *version_figures(directory, arguments)]
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row)
    Console(width=100).print(table)


def fragment_figures(directory: Path, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row for each kind of table and operation."""
    for kind in arguments.kinds:
        path = table_of_fragments(directory, kind, arguments.fragments)
        for operation in OPERATIONS[:-1]:
            readers = {side: reading(side, operation, str(path)) for side in SIDES}
            yield figures(kind, operation, readers, arguments.runs)
        # Each side appends to a table of its own; what is timed is the commit, the data file is there already.
        copies = {side: copied(path, directory / f"append-{side}") for side in SIDES}
        yield figures(kind, "append", {side: appending(side, str(copies[side])) for side in SIDES}, arguments.runs)
        for copy in copies.values():
            shutil.rmtree(copy)
        if not arguments.no_memory:
            yield (kind, "MiB to open", *(f"{run_memory(side, path) / MIB:.1f}" for side in SIDES), "", "")


def version_figures(directory: Path, arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """A row for each way to ask for versions."""
    path = table_of_versions(directory, arguments.versions)
    for listing in LISTINGS:
        runs = 3 if listing == "everything" else arguments.runs
        yield figures("versions", listing, {side: listed(side, listing, str(path)) for side in SIDES}, runs)


def reading(side: str, operation: str, path: str) -> Callable[[], object]:
    """What is timed: a new handle and one thing done with it."""
    library = LIBRARIES[side]
    steps: dict[str, Callable[[Any], object]] = {
        "open": lambda dataset: dataset.version,
        "fragments": lambda dataset: dataset.get_fragments(),
        "count": lambda dataset: dataset.count_rows(),
        "first rows": lambda dataset: dataset.head(5),
    }
    return lambda: steps[operation](library.dataset(path))


def appending(side: str, path: str) -> Callable[[], object]:
    """What is timed: the commit of one fragment on top of the latest version."""
    library = LIBRARIES[side]
    written = lance.fragment.write_fragments(ROWS, path)[0].to_json()

    def commit() -> object:
        dataset = library.dataset(path)
        fragment = library.FragmentMetadata.from_json(json.dumps(linked(path, written)))
        operation = library.LanceOperation.Append([fragment])
        return library.LanceDataset.commit(dataset, operation, read_version=dataset.version)

    return commit


def listed(side: str, listing: str, path: str) -> Callable[[], object]:
    """What is timed: one question about the versions."""
    dataset = LIBRARIES[side].dataset(path)
    asks: dict[str, Callable[[], object]] = {
        "open": lambda: LIBRARIES[side].dataset(path),
        "latest": lambda: dataset.latest_version,
        "numbers": dataset.version_refs,
        "everything": dataset.versions,
    }
    return asks[listing]


def figures(kind: str, operation: str, sides: dict[str, Callable[[], object]], runs: int) -> Sequence[str]:
    """Run both in turn; the first pair does not count."""
    times: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for _ in range(runs + 1):
        for side in SIDES:
            gc.collect()
            started = time.perf_counter(), time.process_time()
            kept = sides[side]()
            times[side].append((time.perf_counter() - started[0], time.process_time() - started[1]))
            del kept
    pairs = list(zip(times["ours"], times["pylance"], strict=True))[1:]
    ratios = (f"{statistics.median(their[clock] / our[clock] for our, their in pairs):.2f}" for clock in (0, 1))
    medians = (f"{statistics.median(each[0] for each in times[side][1:]) * 1000:.1f}" for side in SIDES)
    return (kind, operation, *medians, *ratios)


def table_of_fragments(directory: Path, kind: str, num_fragments: int) -> Path:
    """A table of that many fragments; made once, by pylance."""
    path = directory / f"{kind.replace(' ', '_')}-{num_fragments}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    options: dict[str, Any] = {"enable_stable_row_ids": kind == "stable row ids"}
    lance.write_dataset(ROWS, str(unfinished), enable_v2_manifest_paths=kind != "V1 names", **options)
    written = lance.fragment.write_fragments(ROWS, str(unfinished))[0].to_json()
    fragments = [json.dumps(linked(str(unfinished), written)) for _ in range(num_fragments - 1)]
    operation = lance.LanceOperation.Append([lance.FragmentMetadata.from_json(each) for each in fragments])
    dataset = lance.LanceDataset.commit(str(unfinished), operation, read_version=1)
    if kind == "deletions":
        dataset.delete("id = 3")
    if kind == "indexed":
        dataset.create_scalar_index("id", "BTREE")
    unfinished.rename(path)
    return path


def linked(path: str, fragment: dict[str, Any]) -> dict[str, Any]:
    """A new fragment whose data file is a link to that of another."""
    file, name = fragment["files"][0], data_file_name()
    os.link(Path(path, "data", file["path"]), Path(path, "data", name))
    return {**fragment, "files": [{**file, "path": name}]}


def table_of_versions(directory: Path, num_versions: int) -> Path:
    """A table of that many versions; made once, the first by pylance, the others with its message."""
    from lance_core.table.manifest_file import serialize_manifest_file
    from lance_core.table.paths import manifest_name

    path = directory / f"versions-{num_versions}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    lance.write_dataset(ROWS, str(unfinished))
    first = lance_core.dataset(str(unfinished)).manifest
    for version in range(2, num_versions + 1):
        first.message.version = version
        data = serialize_manifest_file(first.message, index_section=None, transaction=first.transaction)
        (unfinished / "_versions" / manifest_name(version)).write_bytes(data)
    unfinished.rename(path)
    return path


def copied(source: Path, target: Path) -> Path:
    """A copy of a table whose data files are links."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target, copy_function=os.link))


def run_memory(side: str, path: Path) -> int:
    """What opening adds to the resident size of a fresh process, in bytes."""
    command = [sys.executable, __file__, "--workdir", str(path), "--memory-of", side]
    return int(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def memory_of_opening(side: str, path: Path) -> int:
    """Runs in the fresh process, which has both libraries loaded and opened a small table before."""
    library = LIBRARIES[side]
    with tempfile.TemporaryDirectory() as directory:
        library.write_dataset(ROWS, directory + "/small")
        library.dataset(directory + "/small").count_rows()
    before = resident_bytes()
    kept = library.dataset(str(path))
    return resident_bytes() - before if kept.version else 0


def resident_bytes() -> int:
    """What this program holds now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


class workdir:  # noqa: N801  # used like a function
    """A directory that stays when it was given, and goes when it was not."""

    def __init__(self, given: Path | None) -> None:
        self._given = given
        self._made: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Path:
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        self._made = tempfile.TemporaryDirectory()
        return Path(self._made.name)

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            self._made.cleanup()


if __name__ == "__main__":
    main()
