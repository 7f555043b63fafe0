"""Spark with Lance against Spark's own Parquet, in one session: write, read, compaction, upsert.

The rows have an int64, a double, a string of about 20 characters, and a vector of 128 floats. They are generated once,
as Parquet files, from which the frames are read.

    write      frame -> table, against frame -> Parquet files; also without the vectors
    read       table -> ``toArrow()`` of some columns, against the same columns of Parquet files
    compact    100 fragments -> few, against pylance in a process of its own
    upsert     1 % of the rows by key, against an overwrite with all rows

    python benchmarks/bench_spark.py --workdir DIRECTORY [--rows 5000000] [--runs 3] [write] [read] [compact] [upsert]

Prints the seconds of every run, and the ratio of the medians: above 1, Lance is faster. Before each run, the operating
system writes its cached writes to the disk, because otherwise each side would wait for those of the other: Lance waits
until its files are on the disk, and Spark does not. The number of rows is checked on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the name in every Spark text

import lance_core
from lance_pipelines.spark.session import start_session, stop_session
from lance_pipelines.spark.verbs import compact, upsert, write

VECTOR_LENGTH: Final = 128
STEPS: Final = ("write", "read", "compact", "upsert")
PLAIN: Final = ("id", "score", "word")
FRAGMENTS: Final = 100


def main() -> None:
    """Measure the requested steps, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("steps", nargs="*", choices=[*STEPS, []], help="default: all")
    parser.add_argument("--workdir", type=Path, required=True, help="keeps the generated rows between runs")
    parser.add_argument("--output", type=Path, help="where rows are written; by default, in the other directory")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--generate", action="store_true", help="only generate what is missing")
    parser.add_argument("--pylance", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pylance:
        print(json.dumps(compact_with_pylance(arguments.pylance, arguments.rows)))
        return
    session = start_session({"spark.driver.memory": "3g", "spark.master": "local[2]"})
    try:
        bench = Bench(session, arguments.workdir, arguments.output, arguments.rows, arguments.runs)
        bench.generate()
        for step in arguments.steps or () if arguments.generate else arguments.steps or STEPS:
            getattr(bench, step)()
    finally:
        stop_session(session)


class Bench:
    """The measurements.

    Args:
        session: the session of all of them.
        workdir: where the rows are, and the tables that are only read.
        output: where the others are; None for the same directory.
        num_rows: number of rows.
        num_runs: number of runs of each measurement.
    """

    def __init__(self, session: SparkSession, workdir: Path, output: Path | None, num_rows: int, num_runs: int) -> None:
        self._session = session
        self._home = workdir / f"rows-{num_rows}"
        self._output = self._home if output is None else output
        self._output.mkdir(parents=True, exist_ok=True)
        self._num_rows = num_rows
        self._num_runs = num_runs

    def generate(self) -> None:
        """Write the rows, and the tables that are only read, unless they exist."""
        self._home.mkdir(parents=True, exist_ok=True)
        source = self._home / "source.parquet"
        if not source.exists():
            vector = F.array(*[(F.rand(number) - 0.5).cast("float") for number in range(VECTOR_LENGTH)])
            frame = self._session.range(0, self._num_rows, 1, 8).select(
                F.col("id"),
                F.randn(1).alias("score"),
                F.concat(F.lit("row "), F.sha1(F.col("id").cast("string")).substr(1, 16)).alias("word"),
                vector.alias("vector"),
            )
            frame.write.parquet(str(source) + ".new")
            Path(str(source) + ".new").rename(source)
        if not self._table("base").exists():
            self._write(self._frame(), self._table("base"))
        if not self._table("many").exists():
            frame = self._frame().repartition(FRAGMENTS)
            self._write(frame, self._table("many"))

    def write(self) -> None:
        """Compare writes."""
        for name, frame in (("write", self._frame()), ("write without vectors", self._frame().select(*PLAIN))):
            self._compare(
                name,
                ours=lambda frame=frame: self._write(frame, self._table("written")),  # type: ignore[misc]  # the default binds the loop variable
                theirs=lambda frame=frame: frame.write.mode("overwrite").parquet(  # type: ignore[misc]  # the default binds the loop variable
                    str(self._output / "written.parquet")
                ),
            )
            found = self._session.read.parquet(str(self._output / "written.parquet")).count()
            self._require(lance_core.dataset(self._table("written")).count_rows(), found)
        shutil.rmtree(self._table("written"), ignore_errors=True)
        shutil.rmtree(self._output / "written.parquet", ignore_errors=True)

    def read(self) -> None:
        """Compare reads into Arrow."""
        self._session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        for columns in (["id"], ["id", "score", "word"]):
            self._compare(
                f"read {', '.join(columns)}",
                ours=lambda columns=columns: self._require(self._read(columns).toArrow().num_rows),  # type: ignore[misc]  # the default binds the loop variable
                theirs=lambda columns=columns: self._require(self._frame().select(*columns).toArrow().num_rows),  # type: ignore[misc]  # the default binds the loop variable
            )

    def compact(self) -> None:
        """Compare compactions of copies of one table."""
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(self._num_runs):
            for side in seconds:
                copy = self._table("compacted")
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(self._table("many"), copy)
                os.sync()
                if side == "ours":
                    started = time.perf_counter()
                    compact(self._session, str(copy))
                    seconds[side].append(time.perf_counter() - started)
                else:
                    seconds[side].append(self._in_process(copy))
                self._require(lance_core.dataset(copy).count_rows())
                shutil.rmtree(copy)
        self._report("compact", seconds)

    def upsert(self) -> None:
        """Compare an upsert of a hundredth of the rows with an overwrite."""
        table = self._table("upserted")
        changed = self._frame().where("id % 100 = 7").withColumn("score", F.col("score") + 1)
        source = self._home / "changed.parquet"
        changed.write.mode("overwrite").parquet(str(source))

        def ours() -> float:
            shutil.rmtree(table, ignore_errors=True)
            shutil.copytree(self._table("base"), table)
            os.sync()
            started = time.perf_counter()
            done = upsert(self._session.read.parquet(str(source)), str(table), "id")
            seconds = time.perf_counter() - started
            assert done.num_updated_rows == changed_rows, done  # noqa: S101  # a wrong result must not be measured
            return seconds

        changed_rows = self._num_rows // 100
        seconds = {"ours": [], "theirs": []}  # type: dict[str, list[float]]
        for _ in range(self._num_runs):
            seconds["ours"].append(ours())
            os.sync()
            started = time.perf_counter()
            self._write(self._frame(), table)
            seconds["theirs"].append(time.perf_counter() - started)
        shutil.rmtree(table)
        self._report("upsert of 1 % against an overwrite", seconds)

    def _require(self, *found: int) -> None:
        """A wrong result must not be measured."""
        assert all(each == self._num_rows for each in found), found  # noqa: S101  # not a test

    def _frame(self) -> DataFrame:
        return self._session.read.parquet(str(self._home / "source.parquet"))

    def _read(self, columns: list[str]) -> DataFrame:
        from lance_pipelines.spark.reader import read_version

        return read_version(self._session, lance_core.dataset(self._table("base")), columns=columns)

    def _table(self, name: str) -> Path:
        return (self._home if name in ("base", "many") else self._output) / f"{name}.lance"

    def _write(self, frame: DataFrame, path: Path) -> Any:
        vectors = {"vector": VECTOR_LENGTH} if "vector" in frame.columns else {}
        shutil.rmtree(path, ignore_errors=True)
        return write(frame, path, "create", vector_columns=vectors)

    def _in_process(self, copy: Path) -> float:
        command = [sys.executable, __file__, "--workdir", str(self._home), "--pylance", str(copy)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return float(json.loads(output))

    def _compare(self, name: str, *, ours: Callable[[], Any], theirs: Callable[[], Any]) -> None:
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(self._num_runs):
            for side, work in (("ours", ours), ("theirs", theirs)):
                os.sync()
                started = time.perf_counter()
                work()
                seconds[side].append(time.perf_counter() - started)
        self._report(name, seconds)

    @staticmethod
    def _report(name: str, seconds: dict[str, list[float]]) -> None:
        medians = {side: statistics.median(each) for side, each in seconds.items()}
        shown = {side: " ".join(f"{each:.2f}" for each in values) for side, values in seconds.items()}
        print(
            f"{name:36} {medians['ours']:7.2f} s ({shown['ours']})  {medians['theirs']:7.2f} s ({shown['theirs']})  "
            f"{medians['theirs'] / medians['ours']:6.2f}",
            flush=True,
        )


def compact_with_pylance(uri: str, num_rows: int) -> float:
    """Compact a table with pylance, and return the seconds."""
    del num_rows
    import lance

    dataset = lance.dataset(uri)
    started = time.perf_counter()
    dataset.optimize.compact_files()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
