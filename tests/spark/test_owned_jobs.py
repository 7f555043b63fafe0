"""When a block that starts Spark jobs fails, none of their tasks runs after the exception leaves the block."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_pipelines.spark.owned_jobs import owned_jobs


def _num_running_tasks(spark: SparkSession) -> int:
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    return sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())


@pytest.mark.slow
def test_a_failed_job_leaves_no_running_task(spark: SparkSession, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def fail_beside_a_long_task(batches: Iterator[object]) -> Iterator[object]:
        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 0:
            begun.touch()
            time.sleep(60)
        while not begun.exists():
            time.sleep(0.01)
        raise ValueError("as planned")
        yield from batches

    frame = spark.range(0, 2, numPartitions=2)
    with pytest.raises(PySparkException, match="as planned"), owned_jobs(spark):
        frame.mapInArrow(fail_beside_a_long_task, frame.schema).collect()
    assert begun.exists()
    assert _num_running_tasks(spark) == 0
