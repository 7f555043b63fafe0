"""Spark executes each rewrite task in one Spark task, keeps one attempt, and leaves no files behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import lance_core
from lance_core.errors import CorruptDataError, NotFoundError, StorageError
from lance_core.optimize import Compaction, CompactionTask, RewriteResult, commit_rewrites
from lance_pipelines.spark import leftovers, rewriter
from lance_pipelines.spark.leftovers import discard_files
from lance_pipelines.spark.rewriter import execute_tasks
from lance_pipelines.spark.staging import rewrite_tasks
from tests.support.local_rewriting import ids, write_fragments

pytestmark = pytest.mark.spark


def plan(uri: str, **options: Any) -> list[str]:
    chosen = {"target_rows_per_fragment": 20, **options}
    return [task.json() for task in Compaction.plan(lance_core.dataset(uri), chosen).tasks]


def names(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}


def new_names(results: tuple[str, ...]) -> set[str]:
    fragments = [fragment for text in results for fragment in RewriteResult.from_json(text).new_fragments]
    return {file.path for fragment in fragments for file in fragment.files}


def test_rewrite_results_come_in_task_order_and_can_be_committed(spark: SparkSession, uri: str, token: str) -> None:
    write_fragments(uri, 10).delete("id IN (3, 44)")
    before, tasks = names(uri), plan(uri)
    assert len(tasks) > spark.sparkContext.defaultParallelism
    results = execute_tasks(spark, tasks, dataset_uri=uri, file_token=token)
    executed = [RewriteResult.from_json(text) for text in results]
    assert [result.original_fragments for result in executed] == [
        CompactionTask.from_json(task).fragments for task in tasks
    ]
    assert names(uri) - before == new_names(results)
    assert all(name.endswith(f"{token}.lance") for name in new_names(results))
    assert lance_core.dataset(uri).version == 11
    commit_rewrites(lance_core.dataset(uri), executed)
    lance.dataset(uri).validate()
    assert ids(uri) == [number for number in range(100) if number not in (3, 44)]
    assert ids(uri) == sorted(lance.dataset(uri).to_table()["id"].to_pylist())


def test_rewrite_executes_only_its_first_task_when_no_time_is_left(spark, uri, token) -> None:
    write_fragments(uri, 10)
    before, tasks = names(uri), plan(uri)
    (result,) = execute_tasks(spark, tasks, dataset_uri=uri, file_token=token, stop_at=0.0)
    assert RewriteResult.from_json(result).original_fragments == CompactionTask.from_json(tasks[0]).fragments
    assert names(uri) - before == new_names((result,))
    later = time.time() + 3600
    assert len(execute_tasks(spark, tasks, dataset_uri=uri, file_token=token, stop_at=later)) == len(tasks)


def test_rewriting_without_tasks_needs_no_session(uri: str, token: str) -> None:
    assert execute_tasks(None, [], dataset_uri=uri, file_token=token) == ()


def in_workers(monkeypatch: pytest.MonkeyPatch, interfere: Callable[[int, int], None]) -> None:
    """Run ``interfere(partition, attempt)`` in the workers after a rewrite has written its files."""

    real = rewriter._execute

    def execute(settings: Any, numbered: tuple[int, str]) -> str | None:
        result = real(settings, numbered)
        task = TaskContext.get()
        interfere(task.partitionId(), task.attemptNumber())
        return result

    monkeypatch.setattr(rewriter, "_execute", execute)


@pytest.mark.slow
def test_a_retried_task_counts_once_and_leaves_no_files(
    spark: SparkSession, uri: str, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_fragments(uri, 6)
    before = names(uri)

    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def break_off(partition: int, attempt: int) -> None:
        (attempts / f"{partition}-{attempt}").touch()
        if partition == 1 and attempt < 2:
            raise ValueError("it broke off after its files were complete")

    in_workers(monkeypatch, break_off)
    results = execute_tasks(spark, plan(uri), dataset_uri=uri, file_token=token)
    assert len(results) == 3
    assert sorted(path.name for path in attempts.iterdir()) == ["0-0", "1-0", "1-1", "1-2", "2-0"]
    assert names(uri) - before == new_names(results)


@pytest.mark.slow
def test_a_worker_that_is_killed_repeatedly_fails_the_job_and_its_files_are_removed(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_QUIET_SECONDS", 0.5)
    write_fragments(uri, 6)
    before = names(uri)

    def die(partition: int, attempt: int) -> None:
        if partition == 1:
            os._exit(137)

    in_workers(monkeypatch, die)
    with pytest.raises(StorageError, match="a worker process repeatedly exited unexpectedly"):
        rewrite_tasks(spark, uri, plan(uri))
    assert names(uri) == before


@pytest.mark.slow
def test_errors_of_the_workers_are_raised_as_typed_errors(spark: SparkSession, uri: str, token: str) -> None:
    write_fragments(uri, 4)
    tasks = plan(uri)
    file = Path(uri, "data", CompactionTask.from_json(tasks[0]).fragments[0].files[0].path)
    content = file.read_bytes()
    file.write_bytes(content[:-8])
    with pytest.raises(CorruptDataError):
        execute_tasks(spark, tasks, dataset_uri=uri, file_token=token)
    file.unlink()
    with pytest.raises(NotFoundError, match=file.name):
        execute_tasks(spark, tasks, dataset_uri=uri, file_token=token)
    discard_files(uri, token)
    assert not [name for name in names(uri) if token in name]


def peak_resident_bytes(process: psutil.Process) -> int:
    """Return the peak memory of a process, or 0 if the process has just ended."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc to ask for peak memory")
def test_a_large_compaction_uses_bounded_memory_in_every_process(spark: SparkSession, uri: str, token: str) -> None:
    """A hundred fragments of twenty megabytes become two; each task reads a gigabyte."""
    vectors = np.random.default_rng(5).random((20_000, 256), np.float32)
    for number in range(100):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 256)
        ids_of_fragment = pa.array(range(number * 20_000, (number + 1) * 20_000), pa.int64())
        table = pa.table({"id": ids_of_fragment, "vector": column})
        lance_core.write_dataset(table, uri, mode="append" if number else "create")
    tasks = plan(uri, target_rows_per_fragment=1_000_000)
    assert len(tasks) == 2
    results = execute_tasks(spark, tasks, dataset_uri=uri, file_token=token)
    peaks = [(process.name(), peak_resident_bytes(process)) for process in psutil.Process().children(recursive=True)]
    print(peaks)
    assert sum(name.startswith("python") for name, _ in peaks) >= 2
    assert max(peak for _, peak in peaks) < 1024**3
    commit_rewrites(lance_core.dataset(uri), [RewriteResult.from_json(text) for text in results])
    dataset = lance.dataset(uri)
    dataset.validate()
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [1_000_000, 1_000_000]
    sample = dataset.take([0, 19_999, 1_234_567, 1_999_999]).to_pylist()
    assert [row["id"] for row in sample] == [0, 19_999, 1_234_567, 1_999_999]
    assert all(row["vector"] == vectors[row["id"] % 20_000].tolist() for row in sample)
