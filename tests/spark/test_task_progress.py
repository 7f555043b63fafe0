"""The progress of Spark jobs, read while their tasks wait for the test."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_pipelines.progress import Progress
from lance_pipelines.spark.task_progress import watched_tasks

DEADLINE_SECONDS = 120


@pytest.mark.slow
def test_finished_tasks_are_reported_while_the_job_runs_and_not_afterward(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def wait_in_the_second_task(batches: Iterator[object]) -> Iterator[object]:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            # Opening blocks until the test opens the other end.
            gate.open().close()
        yield from batches

    frame = spark.range(0, 2, numPartitions=2)
    reports: list[Progress] = []
    half = threading.Event()

    def note(progress: Progress) -> None:
        reports.append(progress)
        if progress.tasks == 1:
            half.set()

    with ThreadPoolExecutor(1) as executor:
        with watched_tasks(spark, "waiting", note, poll_seconds=0.05):
            job = executor.submit(lambda: frame.mapInArrow(wait_in_the_second_task, frame.schema).collect())
            seen = half.wait(DEADLINE_SECONDS)
            gate.open("w").close()
            assert len(job.result(DEADLINE_SECONDS)) == 2
        assert seen
        num_reports = len(reports)
        frame.collect()
    assert len(reports) == num_reports
    (first, *_) = [progress for progress in reports if progress.tasks == 1]
    assert (first.stage, first.total_tasks, first.fraction) == ("waiting", 2, 0.5)


def test_a_session_without_a_status_tracker_reports_no_progress() -> None:
    asked = threading.Event()

    class NoStatus:
        @property
        def sparkContext(self) -> object:
            asked.set()
            raise AttributeError("not supported by Spark Connect")

    reports: list[Progress] = []
    with watched_tasks(NoStatus(), "writing", reports.append, poll_seconds=0.01):
        assert asked.wait(DEADLINE_SECONDS)
    assert reports == []
