"""Upserts by Spark have the result of a merge by one process, despite failed tasks or other writers."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_core.errors import (
    CommitOutcomeUnknownError,
    InvalidMergeError,
    LanceError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_core.metadata import MergePlanner
from lance_pipelines.spark import leftovers
from lance_pipelines.spark.verbs import merging as verb
from lance_pipelines.spark.verbs.merging import upsert

pytestmark = pytest.mark.spark

ROWS = 60


def rows(start: int, stop: int, text: str = "old") -> pa.Table:
    ids = range(start, stop)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in ids for _ in range(2)], pa.float32()), 2)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "word": pa.array([f"{text} {i}" for i in ids], pa.string()),
            "vector": vectors,
        }
    )


@pytest.fixture
def table(uri: str) -> str:
    """A table of six fragments, of which one has deleted rows."""
    lance_core.write_dataset(rows(0, ROWS), uri, max_rows_per_file=10).delete("id IN (7, 8)")
    return uri


def frame(spark: SparkSession, data: pa.Table) -> DataFrame:
    plain = data.set_column(2, "vector", data["vector"].cast(pa.list_(pa.float32())))
    return spark.createDataFrame(plain).repartition(3)


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}


def used_files(uri: str) -> set[str]:
    dataset = lance_core.dataset(uri)
    return set().union(
        *(dataset.checkout_version(each["version"]).manifest.data_file_paths for each in dataset.versions())
    )


def content(uri: str) -> list[dict[str, Any]]:
    dataset = lance.dataset(uri)
    dataset.validate()
    names = [*dataset.schema.names]
    if dataset.has_stable_row_ids:
        names += ["_row_created_at_version", "_row_last_updated_at_version"]
    return sorted(dataset.to_table(columns=names).to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
def test_upsert_has_the_same_result_as_a_merge_by_one_process(spark: SparkSession, uri: str, stable: bool) -> None:
    lance_core.write_dataset(rows(0, ROWS), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    other = f"{uri}-alone"
    shutil.copytree(uri, other)
    source = rows(45, 70, "new")
    done = upsert(frame(spark, source), uri, "id", properties={"why": "test"})
    merge = lance_core.dataset(other).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    expected = merge.execute(source)
    assert (done.version, done.attempts) == (2, 1)
    assert {name: getattr(done, name) for name in expected} == expected
    assert content(uri) == content(other)
    assert data_files(uri) == used_files(uri)
    transaction = lance_core.dataset(uri).read_transaction(2)
    assert transaction is not None
    assert transaction.transaction_properties == {"why": "test"}
    deletions = [
        {each.fragment_id: each.num_deletions for each in lance.dataset(path).get_fragments()} for path in (uri, other)
    ]
    assert all(deletions[0][number] == deletions[1][number] for number in range(4))


@pytest.mark.slow
def test_columns_missing_from_the_frame_keep_their_values(spark: SparkSession, table: str) -> None:
    source = frame(spark, rows(58, 62, "new")).select("word", "id")
    done = upsert(source, table, "id")
    assert (done.num_updated_rows, done.num_inserted_rows) == (2, 2)
    found = {row["id"]: row for row in content(table)}
    assert [found[number]["vector"] for number in (58, 59, 60, 61)] == [[58.0] * 2, [59.0] * 2, None, None]
    assert {found[number]["word"] for number in range(58, 62)} == {f"new {number}" for number in range(58, 62)}
    assert data_files(table) == used_files(table)


def test_merge_rules_determine_which_rows_change(spark: SparkSession, table: str) -> None:
    done = upsert(
        frame(spark, rows(50, 70, "new")),
        table,
        ["id"],
        condition="target.id < 55 AND source.word != target.word",
        when_not_matched="nothing",
        when_not_matched_by_source="delete",
        delete_condition="id < 20",
    )
    assert (done.num_updated_rows, done.num_inserted_rows, done.num_deleted_rows) == (5, 0, 18)
    assert [row["id"] for row in content(table)] == list(range(20, ROWS))
    deleted = upsert(
        frame(spark, rows(50, 70)).select("id"), table, "id", when_matched="delete", when_not_matched="nothing"
    )
    assert (deleted.num_deleted_rows, len(content(table))) == (10, 30)


def test_repeated_key_raises_an_error_that_names_it_and_leaves_no_files(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_QUIET_SECONDS", 0.2)
    before = data_files(table)
    twice = frame(spark, pa.concat_tables([rows(70, 75), rows(74, 76)]))
    with pytest.raises(InvalidMergeError, match="id = 74"):
        upsert(twice, table, "id")
    with pytest.raises(SchemaMismatchError, match=r"'other' of the source is not in the dataset, which has .* id"):
        upsert(twice.withColumnRenamed("id", "other"), table, "id")
    with pytest.raises(InvalidMergeError, match="when_matched 'fail' does not allow: id = 59"):
        upsert(frame(spark, rows(59, 75)), table, "id", when_matched="fail")
    assert data_files(table) == before
    assert lance_core.dataset(table).version == 2


def interrupted(monkeypatch: pytest.MonkeyPatch, name: str, interfere: Callable[[int, int], None]) -> None:
    """Run ``interfere(partition, attempt)`` in the workers after a task of the verb has finished its work."""
    real = getattr(verb, name)

    def execute(*arguments: Any) -> Any:
        result = real(*arguments)
        task = TaskContext.get()
        interfere(task.partitionId(), task.attemptNumber())
        return result

    monkeypatch.setattr(verb, name, execute)


@pytest.mark.parametrize("step", [pytest.param("_search", marks=pytest.mark.slow), "_write"])
def test_results_of_repeated_upsert_tasks_count_once(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def break_off(partition: int, attempt: int) -> None:
        if attempt < 2 and partition == 0:
            raise ValueError("it broke off after its files were complete")

    interrupted(monkeypatch, step, break_off)
    # Some staged rows are not needed, so that the needed rows are copied.
    done = upsert(frame(spark, rows(50, 70, "new")), table, "id", when_matched="nothing")
    assert (done.num_inserted_rows, done.num_updated_rows) == (10, 0)
    assert [row["id"] for row in content(table)] == [each for each in range(70) if each not in (7, 8)]
    assert data_files(table) == used_files(table)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_search", "_write"])
def test_killed_workers_fail_the_upsert_and_leave_no_files(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = data_files(table)
    interrupted(monkeypatch, step, lambda partition, attempt: os._exit(137))
    with pytest.raises(StorageError, match="exited unexpectedly"):
        upsert(frame(spark, rows(50, 70)), table, "id", when_matched="nothing")
    assert data_files(table) == before
    assert lance_core.dataset(table).version == 2


def on_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Call ``act`` before each commit with the number of earlier commits."""
    real = MergePlanner.commit
    calls: list[None] = []

    def commit(self: MergePlanner, *arguments: Any, **options: Any) -> Any:
        calls.append(None)
        act(len(calls) - 1)
        return real(self, *arguments, **options)

    monkeypatch.setattr(MergePlanner, "commit", commit)


def test_upsert_is_retried_after_a_conflict_without_executing_the_frame_again(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_writer(number: int) -> None:
        if not number:
            lance.write_dataset(rows(65, 68), table, mode="append")

    on_commit(monkeypatch, other_writer)
    counted = spark.sparkContext.accumulator(0)
    source = frame(spark, rows(50, 70, "new"))

    def count(batches: Any) -> Any:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    done = upsert(source.mapInArrow(count, source.schema), table, "id")
    assert (done.attempts, done.num_updated_rows, done.num_inserted_rows) == (2, 13, 7)
    assert counted.value == 20
    assert [row["id"] for row in content(table)] == [each for each in range(70) if each not in (7, 8)]
    assert data_files(table) == used_files(table)


@pytest.mark.slow
def test_upsert_that_always_conflicts_leaves_no_files(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_QUIET_SECONDS", 0.2)
    on_commit(
        monkeypatch, lambda number: lance.write_dataset(rows(100 + number, 101 + number), table, mode="append") and None
    )
    with pytest.raises(TooMuchWriteContentionError, match="the upsert failed: every attempt had a conflict"):
        upsert(frame(spark, rows(50, 70)), table, "id", retries=1)
    assert data_files(table) == used_files(table)


def test_upsert_with_an_unknown_commit_outcome_removes_no_file(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = data_files(table)

    def commit(self: MergePlanner, *arguments: Any, progress: Any, **options: Any) -> Any:
        progress.may_be_committed = True
        raise CommitOutcomeUnknownError("the store did not answer")

    monkeypatch.setattr(MergePlanner, "commit", commit)
    with pytest.raises(CommitOutcomeUnknownError):
        upsert(frame(spark, rows(50, 70)), table, "id")
    assert data_files(table) > before


@pytest.mark.slow
def test_two_drivers_that_upsert_the_same_keys_insert_each_key_once(spark: SparkSession, table: str) -> None:
    errors: list[LanceError] = []

    def work(number: int) -> None:
        try:
            upsert(frame(spark, rows(50, 70, f"writer {number}")), table, "id")
        except LanceError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    found = content(table)
    assert [row["id"] for row in found] == [each for each in range(70) if each not in (7, 8)]
    assert len({row["word"].rpartition(" ")[0] for row in found if row["id"] >= 50}) == 1
    assert lance_core.dataset(table).version == 4
    assert data_files(table) == used_files(table)
