"""Ingest of many rows: Parquet -> Spark -> Lance, against Spark's own Parquet writer on the same frame.

Two frames: *wide* (int64, double, string and a vector of 128 floats, about 541 bytes a row) and *narrow* (the first
three columns). Both writers run in one session, in turn, so that a slow minute of the machine hits both. A run reads
the source, writes every row, and for Lance commits. Prints medians, their ratio, and the largest resident size that a
Python worker reached.

    python benchmarks/bench_ingest.py --workdir DIRECTORY [--rows 5000000] [--runs 3]
"""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lance_core
from lance_pipelines.ingest.declaration import (
    DECLARED_MAX_BYTES_PER_FILE,
    DECLARED_MAX_ROWS_PER_FILE,
)
from lance_pipelines.ingest.sources import FileSource, SourceContext, SourceFormat
from lance_pipelines.spark.schema import plan_target_schema
from lance_pipelines.spark.session import start_session, stop_session
from lance_pipelines.spark.sources import read_source
from lance_pipelines.spark.writer import write_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

VECTOR_LENGTH: Final = 128
ROWS_PER_FILE: Final = 500_000
ROWS_PER_GROUP: Final = 50_000
SAMPLE_SECONDS: Final = 0.05
NARROW: Final = ("id", "score", "label")
CAPTURED_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Peak:
    """Largest resident size of a single Python worker while sampled, in bytes."""

    num_bytes: int = 0


def main() -> None:
    """Generate the source unless it is there, run both frames, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--workdir", type=Path, required=True, help="keeps the source between runs; outputs are removed"
    )
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3, help="timed runs per writer, after one that is not")
    parser.add_argument("--frames", nargs="+", choices=("wide", "narrow"), default=["wide", "narrow"])
    parser.add_argument(
        "--conf", nargs="*", default=[], metavar="NAME=VALUE", help="Spark settings that override the defaults"
    )
    arguments = parser.parse_args()
    source = generate(arguments.workdir, arguments.rows)
    session = start_session(dict(setting.split("=", 1) for setting in arguments.conf))
    try:
        for name in arguments.frames:
            compare(session, name, source, arguments.workdir, arguments.runs, arguments.rows)
    finally:
        stop_session(session)


def generate(workdir: Path, num_rows: int) -> Path:
    """The source: Parquet files of random rows; made once per number of rows."""
    source = workdir / f"source-{num_rows}"
    if (source / "_SUCCESS").exists():
        return source
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    random = np.random.default_rng(7)
    for start in range(0, num_rows, ROWS_PER_FILE):
        size = min(ROWS_PER_FILE, num_rows - start)
        ids = pa.array(np.arange(start, start + size, dtype=np.int64))
        offsets = pa.array(np.arange(size + 1, dtype=np.int32) * VECTOR_LENGTH)
        floats = pa.array(random.standard_normal(size * VECTOR_LENGTH, dtype=np.float32))
        columns = {
            "id": ids,
            "score": pa.array(random.standard_normal(size)),
            "label": pc.binary_join_element_wise("row-", ids.cast(pa.string()), ""),
            "vector": pa.ListArray.from_arrays(offsets, floats),
        }
        path = source / f"part-{start:012d}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=ROWS_PER_GROUP)
    (source / "_SUCCESS").touch()
    return source


def compare(session: SparkSession, name: str, source: Path, workdir: Path, num_runs: int, num_rows: int) -> None:
    """Time both writers in turn and print one frame's lines."""
    columns = "*" if name == "wide" else ", ".join(NARROW)
    spec = FileSource(format=SourceFormat.PARQUET, paths=(str(source),), sql=f"SELECT {columns} FROM source")
    vectors = {"vector": VECTOR_LENGTH} if name == "wide" else {}

    def read() -> DataFrame:
        return read_source(session, spec, SourceContext(captured_at=CAPTURED_AT))

    writers: dict[str, Callable[[Path], None]] = {
        "lance": lambda output: write_lance(read(), output, vectors, num_rows),
        "parquet": lambda output: read().write.parquet(str(output)),
    }
    seconds: dict[str, list[float]] = {writer: [] for writer in writers}
    num_bytes: dict[str, int] = {}
    peak = Peak()
    for run in range(num_runs + 1):
        for writer, write in writers.items():
            output = workdir / f"output-{name}-{writer}"
            shutil.rmtree(output, ignore_errors=True)
            with sampled_workers(peak):
                start = time.perf_counter()
                write(output)
                elapsed = time.perf_counter() - start
            num_bytes[writer] = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
            shutil.rmtree(output)
            if run:
                seconds[writer].append(elapsed)
            say(f"  {name} {writer} run {run}{' (not counted)' if not run else ''}: {elapsed:.2f} s")
    medians = {writer: statistics.median(times) for writer, times in seconds.items()}
    say(
        f"{name}: {num_rows} rows, {num_runs} runs; "
        f"lance {medians['lance']:.2f} s ({num_bytes['lance'] / 1e6:.0f} MB), "
        f"parquet {medians['parquet']:.2f} s ({num_bytes['parquet'] / 1e6:.0f} MB), "
        f"ratio {medians['lance'] / medians['parquet']:.2f}, largest Python worker {peak.num_bytes / 1e6:.0f} MB"
    )


def write_lance(frame: DataFrame, output: Path, vectors: dict[str, int], num_rows: int) -> None:
    """Write the frame as the pipeline does, commit, and make sure that the rows are there."""
    target = plan_target_schema(frame.schema, vectors, None)
    written = write_frame(
        frame,
        dataset_uri=str(output),
        mode="overwrite",
        target=target,
        max_rows_per_file=DECLARED_MAX_ROWS_PER_FILE,
        max_bytes_per_file=DECLARED_MAX_BYTES_PER_FILE,
        file_token=secrets.token_hex(8),
    )
    fragments = [lance_core.FragmentMetadata.from_json(json.dumps(document)) for document in written.fragments]
    operation = lance_core.LanceOperation.Overwrite(target, fragments)
    dataset = lance_core.LanceDataset.commit(str(output), operation)
    if not dataset.count_rows() == written.rows_counted == num_rows:
        sys.exit(
            f"{output}: {dataset.count_rows()} rows committed, {written.rows_counted} counted, {num_rows} expected"
        )


@contextmanager
def sampled_workers(peak: Peak) -> Iterator[None]:
    """Sample the Python processes below the JVM while the block runs."""
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            for process in psutil.Process().children(recursive=True):
                try:
                    if process.name().startswith("python"):
                        peak.num_bytes = max(peak.num_bytes, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def say(line: str) -> None:
    """One line of output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
