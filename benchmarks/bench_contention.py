"""Writers of one table at once, two of ours and two of pylance's: how many operations each side completes.

Every writer is a process of its own and does one operation after the other, each on the latest version, for a fixed
time. Both libraries do the same: an append of one row, a delete of one row of the writer's own, or both by turns. A
delete meets deletes of other rows of the same fragment, so that the later one has to merge.

    python benchmarks/bench_contention.py [--seconds 10] [--runs 3] [--workloads append delete mixed]
    python benchmarks/bench_contention.py --fragments 20 --versions 500
    python benchmarks/bench_contention.py --s3                                         # against a moto server

*Attempts* are tries to create a manifest, of which one in each operation succeeds. *Refused* are operations that ended
with a conflict or too much contention; the writer goes on with the next one. The *share* is our operations divided by
those of pylance: 1 means that neither side holds up the other.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import statistics
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

WORKLOADS: Final = ("append", "delete", "mixed")
OURS: Final = "lance_core"
PYLANCE: Final = "lance"
SIDES: Final = {OURS: "ours", PYLANCE: "pylance"}
HEADINGS: Final = (
    "workload",
    "side",
    "operations",
    "attempts per operation",
    "refused",
    "median ms",
    "slowest ms",
    "share",
)
Place: TypeAlias = tuple[str, "dict[str, str] | None"]
"""The URI of a table, and the options of its store."""
ROWS_OF_A_WRITER: Final = 2_500
CONTENTION: Final = ("conflict", "concurrent", "preempted", "contention", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What the writers do, and where.

    Attributes:
        workload: one of :data:`WORKLOADS`.
        uri: the table.
        options: of its store.
        seconds: how long they do it.
    """

    workload: str
    uri: str
    options: dict[str, str] | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one writer did.

    Attributes:
        library: with which library.
        attempts: manifests that it tried to create.
        refused: operations that failed because of the other writers.
        seconds: how long each completed operation took.
    """

    library: str
    attempts: int
    refused: int
    seconds: list[float]


def main() -> None:
    """Make the tables, let the writers go, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, help="where the tables are made; a temporary directory by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--runs", type=int, default=1, help="of each workload, each on a new table")
    parser.add_argument("--workloads", nargs="*", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--ours", type=int, default=2, help="processes with this library")
    parser.add_argument("--pylance", type=int, default=2, help="processes with pylance")
    parser.add_argument("--fragments", type=int, default=1, help="of the table at the start")
    parser.add_argument("--versions", type=int, default=1, help="of the table at the start")
    parser.add_argument("--s3", action="store_true", help="on a moto server instead of the disk")
    arguments = parser.parse_args()
    table = Table(*HEADINGS)
    with bucket() if arguments.s3 else directory(arguments.workdir) as new_place:
        for workload in arguments.workloads:
            for _ in range(arguments.runs):
                uri, options = new_place()
                make_table(uri, options, arguments)
                race = Race(workload=workload, uri=uri, options=options, seconds=arguments.seconds)
                libraries = [OURS] * arguments.ours + [PYLANCE] * arguments.pylance
                for row in figures(race, compete(race, libraries)):
                    table.add_row(*row)
    Console(width=130).print(table)


def compete(race: Race, libraries: list[str]) -> list[Counts]:
    """Start a process for each library name, let them go at once, and collect what each did."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(len(libraries)), context.Queue()
    writers = [
        context.Process(target=write, args=(race, library, number, barrier, results))
        for number, library in enumerate(libraries)
    ]
    for writer in writers:
        writer.start()
    try:
        return [results.get(timeout=race.seconds + 120) for _ in writers]
    finally:
        for writer in writers:
            writer.join(timeout=10)
            writer.kill()


def write(race: Race, library: str, number: int, barrier: Barrier, results: Queue[Counts]) -> None:
    """Runs in a process of its own."""
    module = __import__(library)
    attempts = counted_attempts(library)
    operations = operations_of(module, race, number)
    # What a library loads at its first operation is loaded when the race starts.
    for _ in range(2):
        attempt(next(operations))
    attempts.clear()
    barrier.wait(timeout=120)
    seconds: list[float] = []
    refused, ends = 0, time.monotonic() + race.seconds
    while (started := time.monotonic()) < ends:
        if attempt(next(operations)):
            seconds.append(time.monotonic() - started)
        else:
            refused += 1
    results.put(Counts(library=library, attempts=len(attempts), refused=refused, seconds=seconds))


def attempt(operation: Callable[[], object]) -> bool:
    """Run the operation; False when it lost against the other writers."""
    try:
        operation()
    except (OSError, RuntimeError) as error:
        if not any(word in str(error).lower() for word in CONTENTION):
            raise
        return False
    return True


def counted_attempts(library: str) -> list[object]:
    """A list that grows by one whenever this process tries to create a manifest."""
    attempts: list[object] = []
    if library == PYLANCE:
        import lance.tracing

        lance.tracing.capture_trace_events(
            lambda event: attempts.append(event) if is_manifest(event.target, event.args) else None
        )
        return attempts
    from lance_core.table.version_log import VersionLog

    create = VersionLog.create

    def counted(log: VersionLog, *arguments: Any) -> Any:
        attempts.append(arguments)
        return create(log, *arguments)

    VersionLog.create = counted  # type: ignore[method-assign]  # this process does nothing else
    return attempts


def is_manifest(target: str, arguments: dict[str, str]) -> bool:
    """Whether an event of pylance says that it is about to create a manifest; it says so for each attempt."""
    return target == "lance::file_audit" and arguments.get("type") == "manifest" and arguments.get("mode") == "create"


def operations_of(module: Any, race: Race, number: int) -> Iterator[Callable[[], object]]:
    """The operations of one writer, one after the other."""
    row = pa.table({"writer": pa.array([-1], pa.int64()), "number": pa.array([number], pa.int64())})

    def append() -> object:
        return module.write_dataset(row, race.uri, mode="append", storage_options=race.options)

    def delete(target: int) -> object:
        predicate = f"writer = {number} AND number = {target}"
        return module.dataset(race.uri, storage_options=race.options).delete(predicate)

    for target in range(ROWS_OF_A_WRITER):
        if race.workload != "delete":
            yield append
        if race.workload != "append":
            yield lambda target=target: delete(target)


def make_table(uri: str, options: dict[str, str] | None, arguments: argparse.Namespace) -> None:
    """A table in which each writer has rows, spread over all fragments."""
    import lance

    num_writers = arguments.ours + arguments.pylance
    rows = pa.table(
        {
            "writer": pa.array([writer for _ in range(ROWS_OF_A_WRITER) for writer in range(num_writers)], pa.int64()),
            "number": pa.array([row for row in range(ROWS_OF_A_WRITER) for _ in range(num_writers)], pa.int64()),
        }
    )
    rows_per_file = -(-len(rows) // arguments.fragments)
    dataset = lance.write_dataset(rows, uri, max_rows_per_file=rows_per_file, storage_options=options)
    for _ in range(arguments.versions - 1):
        dataset.delete("false")


def figures(race: Race, counts: list[Counts]) -> Iterator[tuple[str, ...]]:
    """A row for each side."""
    completed = {library: sum(len(each.seconds) for each in counts if each.library == library) for library in SIDES}
    for library, side in SIDES.items():
        of_side = [each for each in counts if each.library == library]
        durations = [seconds * 1000 for each in of_side for seconds in each.seconds] or [0.0]
        yield (
            race.workload,
            side,
            str(completed[library]),
            f"{sum(each.attempts for each in of_side) / max(completed[library], 1):.2f}",
            str(sum(each.refused for each in of_side)),
            f"{statistics.median(durations):.0f}",
            f"{max(durations):.0f}",
            f"{completed[OURS] / max(completed[PYLANCE], 1):.2f}" if library == OURS else "",
        )


@contextmanager
def directory(workdir: Path | None) -> Iterator[Callable[[], Place]]:
    """Gives new places below a directory, which goes at the end."""
    if workdir is not None:
        workdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=workdir) as made:
        yield lambda: (f"{made}/{uuid.uuid4().hex}", None)


@contextmanager
def bucket() -> Iterator[Callable[[], Place]]:
    """Gives new places in a bucket of a moto server, which runs in this process."""
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        options = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "testtest",
            "aws_endpoint": endpoint,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        S3FileSystem(key="test", secret="testtest", endpoint_url=endpoint).mkdir("contention")
        yield lambda: (f"s3://contention/{uuid.uuid4().hex}", options)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
