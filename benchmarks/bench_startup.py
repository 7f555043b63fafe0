"""The first command of the README and a dry run: elapsed time, and the processor time of each process.

    python benchmarks/bench_startup.py [--runs 3] [--no-archive] [--plain-daemon]

*To the line* is the time from the start of the command to the line that it prints; the command then stops Spark.
Processes are sampled, so the processor time of the last 50 ms of each is missing. Elapsed seconds depend on what else
the machine does; seconds of the processor hardly do. ``--no-archive`` and ``--plain-daemon`` switch off the class
archive and the daemon with imported modules.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

import psutil

REPOSITORY: Final = Path(__file__).parents[1]
SAMPLE_SECONDS: Final = 0.05
INGEST: Final = (
    "-m",
    "dagster",
    "job",
    "execute",
    "-m",
    "lance_pipelines.definitions",
    "-j",
    "installed_files__ingest",
)
DRY_RUN: Final = ["-m", "lance_pipelines", "compact", "--target-rows", "1", "--dry-run"]
PLAIN_DAEMON: Final = (
    "resources: {lance_spark: {config: {spark_config: {spark.python.daemon.module: pyspark.daemon}}}}\n"
)


def main() -> None:
    """Run both commands in a fresh instance and a fresh warehouse, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-archive", action="store_true")
    parser.add_argument("--plain-daemon", action="store_true")
    arguments = parser.parse_args()
    for _ in range(arguments.runs):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            shutil.copy(REPOSITORY / "dagster.yaml", directory)
            environment = {**os.environ, "DAGSTER_HOME": name, "LANCE_PIPELINES_WAREHOUSE": f"{name}/warehouse"}
            if arguments.no_archive:
                environment["LANCE_SPARK_CLASS_ARCHIVE"] = "0"
            (directory / "plain.yaml").write_text(PLAIN_DAEMON)
            config = ["-c", f"{name}/plain.yaml"] if arguments.plain_daemon else []
            measure("ingest", [*INGEST, *config], environment)
            measure("dry run", DRY_RUN, environment)


def measure(title: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Run a command of Python, and print when it printed its first line, when it ended, and what its processes used."""
    begun = time.monotonic()
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        used: dict[int, tuple[str, float]] = {}
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(process.pid, used, ended))
        watcher.start()
        output = cast("IO[bytes]", process.stdout)
        output.readline()
        printed = time.monotonic() - begun
        output.read()
        process.wait()
        ended.set()
        watcher.join()
    seconds: dict[str, float] = defaultdict(float)
    for kind, cpu in used.values():
        seconds[kind] += cpu
    shares = ", ".join(f"{kind} {cpu:.1f}" for kind, cpu in seconds.items() if cpu >= SAMPLE_SECONDS)
    print(
        f"{title}: to the line {printed:.1f} s, whole {time.monotonic() - begun:.1f} s; "
        f"processor {sum(seconds.values()):.1f} s ({shares}); load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def watch(pid: int, used: dict[int, tuple[str, float]], ended: threading.Event) -> None:
    """Note the kind and the processor time of every process below ``pid`` until the command has ended."""
    while not ended.wait(SAMPLE_SECONDS):
        with suppress(psutil.Error):
            root = psutil.Process(pid)
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    kind = "driver" if process.pid == pid else kind_of(process)
                    used[process.pid] = (kind, times.user + times.system)


def kind_of(process: psutil.Process) -> str:
    """Return what a process below the driver is; workers have the command line of the daemon that forked them."""
    if process.name() == "java":
        return "JVM"
    if not any(argument.endswith("daemon") for argument in process.cmdline()):
        return "other"
    parent = process.parent()
    return "workers" if parent is not None and parent.cmdline() == process.cmdline() else "daemon"


if __name__ == "__main__":
    main()
