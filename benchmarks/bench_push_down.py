"""The bytes that Spark reads to count and to filter the rows of a table with wide rows.

The rows have an int64 in ascending order, a double, a string, and a vector of 128 floats, in fragments of half a
million rows. Spark executes each query with the data source ``lance``. Then its tasks are executed again in this
process, which counts the bytes that they read from files.

    python benchmarks/bench_push_down.py --workdir DIRECTORY [--rows 10000000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import datasource as D  # noqa: N812  # the filters of the interface

import lance_core
from lance_pipelines.spark import register, start_session, stop_session
from lance_pipelines.spark.data_source.location import Location
from lance_pipelines.spark.data_source.reader import LanceReader, read_schema

VECTOR_LENGTH: Final = 128
BATCH_ROWS: Final = 100_000
FRAGMENT_ROWS: Final = 500_000
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("score", pa.float64()),
        ("word", pa.string()),
        ("vector", pa.list_(pa.float32(), VECTOR_LENGTH)),
    ]
)


class CountedLocation(Location):
    """A location that remembers the handles that tasks open."""

    opened: Final[list[lance_core.LanceDataset]] = []

    def open(self, version: int | None = None) -> lance_core.LanceDataset:
        """Open a version, and remember the handle."""
        self.opened.append(lance_core.dataset(self.uri, version=version))
        return self.opened[-1]


def main() -> None:
    """Generate the table if needed, run each query, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workdir", type=Path, required=True, help="keeps the generated table between runs")
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    uri = str(arguments.workdir / f"push-down-{arguments.rows}.lance")
    if not Path(uri).exists():
        lance_core.write_dataset(
            pa.RecordBatchReader.from_batches(SCHEMA, rows(arguments.rows)), uri, max_rows_per_file=FRAGMENT_ROWS
        )
    whole = sum(path.stat().st_size for path in Path(uri, "data").iterdir())
    print(f"{arguments.rows} rows, {whole / 1e6:.0f} MB")
    last = arguments.rows - 1000
    queries: list[tuple[str, dict[str, Any], list[D.Filter], int]] = [
        ("all rows", {"columns": ()}, [], arguments.rows),
        (f"id >= {last}", {"columns": ("id",)}, [D.GreaterThanOrEqual(("id",), last)], 1000),
        (f"id >= {last}", {}, [D.GreaterThanOrEqual(("id",), last)], 1000),
        ("word = 'word 77'", {"columns": ("word",)}, [D.EqualTo(("word",), "word 77")], arguments.rows // 1000),
    ]
    session = start_session({"spark.master": "local[2]"})
    try:
        register(session)
        for condition, options, filters, expected in queries:
            seconds = [in_spark(session, uri, condition, options, expected) for _ in range(3)]
            num_bytes = in_this_process(uri, options, filters, expected)
            shown = "all" if "columns" not in options else ", ".join(options["columns"]) or "none"
            print(
                f"{condition:20} columns {shown:6} {expected:10} rows  {num_bytes / 1e6:9.3f} MB  "
                f"{100 * num_bytes / whole:8.4f} %  {sorted(seconds)[1]:6.2f} s"
            )
    finally:
        stop_session(session)


def rows(num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table."""
    random = np.random.default_rng(15)
    for start in range(0, num_rows, BATCH_ROWS):
        ids = np.arange(start, min(start + BATCH_ROWS, num_rows))
        vectors = pa.array(random.random(len(ids) * VECTOR_LENGTH, np.float32))
        words = pa.DictionaryArray.from_arrays(pa.array(ids % 1000), pa.array([f"word {n}" for n in range(1000)]))
        columns = [
            pa.array(ids),
            pa.array(random.random(len(ids))),
            words.cast(pa.string()),
            pa.FixedSizeListArray.from_arrays(vectors, VECTOR_LENGTH),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def in_spark(session: SparkSession, uri: str, condition: str, options: dict[str, Any], expected: int) -> float:
    """Execute a query with Spark, and return the seconds."""
    started = time.perf_counter()
    reader = session.read.format("lance")
    if "columns" in options:
        reader = reader.option("columns", ",".join(options["columns"]))
    frame = reader.load(uri)
    found = (frame if condition == "all rows" else frame.filter(condition)).count()
    assert found == expected, found  # noqa: S101  # a wrong result must not be measured
    return time.perf_counter() - started


def in_this_process(uri: str, options: dict[str, Any], filters: list[D.Filter], expected: int) -> int:
    """Execute the tasks of a query in this process, and return the bytes that they read from files."""
    dataset = lance_core.dataset(uri)
    reader = LanceReader(CountedLocation(uri=uri), dataset, read_schema(dataset, options), options)
    assert not list(reader.pushFilters(filters))  # noqa: S101  # a filter that Spark evaluates reads all rows
    CountedLocation.opened.clear()
    found = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
    assert found == expected, found  # noqa: S101  # a wrong result must not be measured
    return sum(each.io_stats_snapshot().read_bytes for each in CountedLocation.opened)


if __name__ == "__main__":
    main()
