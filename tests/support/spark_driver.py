"""A driver on a cluster: applies one verb to a table, while something happens to its tasks.

Run as ``python -m tests.support.spark_driver``; reads a JSON request from its standard input, and prints a JSON report
as the last line. What happens to tasks, after they have written their files:

    fails       the first two attempts of task 0 raise an error
    executor    the first attempt of task 0 kills its executor
    straggles   the first attempt of task 0 waits until another attempt has reported, or it is killed
    driver      task 0 waits, so that the test can kill the driver
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_pipelines.spark.reader import read_version
from lance_pipelines.spark.session import start_session, stop_session
from lance_pipelines.spark.verbs import compact, upsert, write

WAIT_SECONDS = 60
PLACES = {
    "write": ("lance_pipelines.spark.writer", "_write_partition"),
    "upsert": ("lance_pipelines.spark.verbs.merging", "_search"),
    "compact": ("lance_pipelines.spark.rewriter", "_execute"),
}
"""The function that executes one task of each verb."""


def frame(session: SparkSession, start: int, stop: int, text: str) -> DataFrame:
    """Return rows with a number and a text, in four partitions."""
    return session.range(start, stop, 1, 4).selectExpr("id", f"concat('{text} ', id) AS word")


def act(session: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Apply the verb."""
    uri, options = request["uri"], request["options"]
    verb = request["verb"]
    if verb == "read":
        rows = read_version(session, lance_core.dataset(uri, storage_options=options)).selectExpr(
            "count(*) AS n", "sum(id) AS total", "count(DISTINCT id) AS ids"
        )
        return rows.collect()[0].asDict()
    if verb == "compact":
        done = compact(session, uri, storage_options=options, target_rows_per_fragment=4000)
        return {"version": done.version}
    rows = frame(session, request["start"], request["stop"], request["text"])
    if verb == "write":
        made = write(rows, uri, storage_options=options)
        return {"version": made.version, "rows": made.num_rows}
    done = upsert(rows, uri, "id", storage_options=options)
    return {"version": done.version, "updated": done.num_updated_rows, "inserted": done.num_inserted_rows}


def interfere(verb: str, event: str, marks: str) -> None:
    """Let something happen in the workers; this function is sent to them as a whole."""
    module, name = PLACES[verb]
    home = importlib.import_module(module)
    real = getattr(home, name)

    def execute(*arguments: Any) -> Any:
        result = real(*arguments)
        if isinstance(result, Iterator):
            # A generator writes its files while its results are taken.
            result = iter(list(result))
        happen(event, Path(marks))
        return result

    setattr(home, name, execute)


def happen(event: str, marks: Path) -> None:
    """Run in a worker after a task has written its files."""
    task = TaskContext.get()
    assert task is not None
    partition, attempt = task.partitionId(), task.attemptNumber()
    (marks / f"done-{partition}-{attempt}").touch()
    if partition:
        return
    if event == "fails" and attempt < 2:
        raise ValueError("it broke off")
    if event == "executor" and not attempt:
        kill_executor()
    if event in ("straggles", "driver") and not attempt:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and not (marks / "done-0-1").exists():
            time.sleep(0.05)


def kill_executor() -> None:
    """Kill the JVM that has started this Python process."""
    import psutil

    for parent in psutil.Process().parents():
        if parent.name() == "java":
            parent.kill()
            time.sleep(WAIT_SECONDS)


def main() -> None:
    """Serve the request on standard input."""
    request = json.load(sys.stdin)
    settings = {
        "spark.master": request["master"],
        "spark.driver.host": "127.0.0.1",
        "spark.cores.max": "2",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": "false",
    }
    if request.get("event") == "straggles":
        settings |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "500ms",
        }
    session = start_session(settings)
    try:
        if "event" in request:
            # Those of this module that Python knows by name can be imported by the workers.
            module: Callable[..., None] = importlib.import_module("tests.support.spark_driver").interfere
            module(request["verb"], request["event"], request["marks"])
        print(json.dumps(act(session, request)))
    finally:
        stop_session(session)


if __name__ == "__main__":
    main()
