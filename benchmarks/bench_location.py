"""A code location with many declared datasets: how long it takes to load, and how long each sensor takes for a tick.

    python benchmarks/bench_location.py [--datasets 200] [--versions 1]

*Build* is ``build_definitions``, *resolve* what Dagster does with the result before it can run a job. *Code server*
is the time until a code server that was started with this location answers; *describe* is the first question of the
web server and of the daemon to it, for which Dagster builds the configuration schema of every job. The command
``dagster definitions validate`` does both. Ticks are of small datasets on local disk: the first one, and one after
which nothing has changed. Seconds of the clock depend on what else the machine does; seconds of the processor (in all
processes of a command) hardly do.

With ``--versions``, every dataset has that many versions, all except the latest of which are a month old: a cleanup is
due. The third tick is after a commit to every dataset.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, cast

LOCATION: Final = """
from pathlib import Path

from lance_pipelines import DatasetDeclaration, FileSource, SourceFormat, build_definitions

SOURCE = FileSource(format=SourceFormat.PARQUET, paths=("/landing",))


def declare(directory, num_datasets):
    return [
        DatasetDeclaration(key=f"lake/dataset{number}", uri=f"{directory}/{number}.lance", source=SOURCE)
        for number in range(num_datasets)
    ]


defs = build_definitions(declare(Path(__file__).parent, NUM_DATASETS))
"""
SENSORS: Final = ("version", "compaction", "deletion", "cleanup", "index")

Result = TypeVar("Result")


def show(what: str, clock: float, processor: float | None = None) -> None:
    in_processor = "" if processor is None else f" {processor:7.2f} s of the processor"
    print(f"{what:32} {clock:7.2f} s of the clock{in_processor}", flush=True)


def timed(what: str, function: Callable[[], Result]) -> Result:
    clock, processor = time.perf_counter(), time.process_time()
    result = function()
    show(what, time.perf_counter() - clock, time.process_time() - processor)
    return result


def serve(location: Path) -> None:
    """Start a code server, and ask it what a web server asks it first."""
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin
    from dagster._grpc.client import DagsterGrpcClient

    socket = str(location.with_name("socket"))
    client = DagsterGrpcClient(socket=socket)
    clock = time.perf_counter()
    command = [sys.executable, "-m", "dagster", "api", "grpc", "-f", str(location), "--socket", socket]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as server:
        try:
            while True:
                try:
                    client.list_repositories()
                    break
                except DagsterUserCodeUnreachableError:
                    if server.poll() is not None:
                        sys.exit(f"the code server ended with {server.returncode}")
                    time.sleep(0.05)
            show("code server", time.perf_counter() - clock)
            origin = RemoteRepositoryOrigin(
                GrpcServerCodeLocationOrigin(host="localhost", socket=socket), "__repository__"
            )
            clock = time.perf_counter()
            client.external_repository(origin, defer_snapshots=True)
            show("describe", time.perf_counter() - clock)
        finally:
            server.terminate()


def run(what: str, *command: str) -> None:
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    show(what, time.perf_counter() - clock, processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--versions", type=int, default=1)
    arguments = parser.parse_args()
    num_datasets = arguments.datasets
    print(
        f"{num_datasets} datasets, {arguments.versions} versions each; "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        location = directory / "location.py"
        location.write_text(LOCATION.replace("NUM_DATASETS", str(num_datasets)))
        run("import, build", sys.executable, str(location))
        serve(location)
        run("validate", sys.executable, "-m", "dagster", "definitions", "validate", "-f", str(location))
        time_in_process(directory, num_datasets, arguments.versions)


def write_datasets(directory: Path, num_datasets: int, num_versions: int) -> list[Path]:
    """Write one dataset, and copies of it whose files are hard links."""
    import pyarrow as pa

    import lance_core

    first, *others = (directory / f"{number}.lance" for number in range(num_datasets))
    dataset = lance_core.write_dataset(pa.table({"id": [1, 2, 3]}), first)
    for number in range(num_versions - 1):
        dataset.update_config({"revision": str(number)})
    month_ago = time.time() - 30 * 86400
    manifests = sorted((first / "_versions").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for manifest in manifests[:-1]:
        os.utime(manifest, (month_ago, month_ago))
    for copy in others:
        shutil.copytree(first, copy, copy_function=os.link)
    return [first, *others]


def time_in_process(directory: Path, num_datasets: int, num_versions: int) -> None:
    import dagster as dg

    import lance_core

    timed("import", lambda: __import__("lance_pipelines.build"))
    namespace: dict[str, object] = {"__file__": str(directory / "location.py")}
    text = (directory / "location.py").read_text()
    timed("build", lambda: exec(compile(text, "location", "exec"), namespace))
    defs = cast("dg.Definitions", namespace["defs"])
    timed("resolve", lambda: defs.get_repository_def().load_all_definitions())
    datasets = write_datasets(directory, num_datasets, num_versions)
    with dg.DagsterInstance.ephemeral() as instance:
        cursors: dict[str, str | None] = {}
        for tick in ("first tick", "unchanged", "after commits"):
            if tick == "after commits":
                for dataset in datasets:
                    lance_core.dataset(dataset).update_config({"revision": "latest"})
            for sensor in SENSORS:
                context = dg.build_sensor_context(instance=instance, cursor=cursors.get(sensor), definitions=defs)
                found = defs.get_repository_def().get_sensor_def(f"lance_{sensor}_sensor")
                with context:
                    result = timed(f"{sensor} sensor, {tick}", partial(found.evaluate_tick, context))
                cursors[sensor] = result.cursor


if __name__ == "__main__":
    main()
