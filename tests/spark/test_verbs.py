"""Verbs by Spark have the same results as those of lance_core, despite failed tasks and concurrent writers."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    InvalidInputError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_core.io.object_store import PutOutcome
from lance_core.metadata import ColumnTasks
from lance_core.table.paths import ManifestName
from lance_core.table.version_log import VersionLog
from lance_pipelines.spark import leftovers
from lance_pipelines.spark.verbs import (
    add_columns,
    compact,
    copy,
    delete,
    materialize_deletions,
    replace_rows,
    update,
    verify,
    write,
)

pytestmark = pytest.mark.spark

ROWS = 60
VERBS = "lance_pipelines.spark.verbs"


def rows(start: int, stop: int, group: str = "old") -> pa.Table:
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "word": pa.array([f"word {number}" for number in ids], pa.string()),
            "day": pa.array([group] * len(ids), pa.string()),
        }
    )


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.slow), True], ids=["addresses", "stable_ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def make(uri: str, *, stable: bool = False) -> str:
    """Create a table of six fragments, of which one has deleted rows."""
    lance_core.write_dataset(rows(0, ROWS), uri, max_rows_per_file=10, enable_stable_row_ids=stable)
    lance_core.dataset(uri).delete("id IN (7, 8)")
    return uri


def twins(uri: str, *, stable: bool = False) -> tuple[str, str]:
    """Create two copies of the same table."""
    shutil.copytree(make(uri, stable=stable), f"{uri}-alone")
    return uri, f"{uri}-alone"


def content(uri: str) -> Any:
    """Return the rows with their ids and versions, and the deletions of each fragment."""
    dataset = lance.dataset(uri)
    dataset.validate()
    names = [*dataset.schema.names]
    if dataset.has_stable_row_ids:
        names += ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = sorted(dataset.to_table(columns=names).to_pylist(), key=lambda row: row["id"])
    return found, sum(fragment.num_deletions for fragment in dataset.get_fragments())


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}


def used_files(uri: str) -> set[str]:
    dataset = lance_core.dataset(uri)
    numbers = [each["version"] for each in dataset.versions()]
    return set().union(*(dataset.checkout_version(number).manifest.data_file_paths for number in numbers))


def test_delete_has_the_same_result_as_a_delete_by_one_process(spark: SparkSession, uri: str, stable: bool) -> None:
    ours, theirs = twins(uri, stable=stable)
    done = delete(spark, ours, "id % 10 = 3 OR id >= 50", properties={"why": "test"})
    expected = lance_core.dataset(theirs).delete("id % 10 = 3 OR id >= 50")
    assert (done.version, done.num_deleted_rows, done.attempts) == (3, expected["num_deleted_rows"], 1)
    assert content(ours) == content(theirs)
    before, after = (lance_core.dataset(path).read_transaction(3) for path in (theirs, ours))
    assert before is not None
    assert after is not None
    assert after.transaction_properties == {"why": "test"}
    assert after.operation.predicate == before.operation.predicate  # type: ignore[attr-defined]
    assert len(list(Path(ours, "_deletions").iterdir())) == len(list(Path(theirs, "_deletions").iterdir()))
    assert delete(spark, ours, "id > 1000", only_if_found=True).version == 3
    with pytest.raises(InvalidInputError, match="nothing_like_it"):
        delete(spark, ours, "nothing_like_it = 1")


def test_update_has_the_same_result_as_an_update_by_one_process(spark: SparkSession, uri: str, stable: bool) -> None:
    ours, theirs = twins(uri, stable=stable)
    done = update(spark, ours, {"word": "upper(day)"}, "id % 7 = 2")
    expected = lance_core.dataset(theirs).update({"word": "upper(day)"}, "id % 7 = 2")
    assert (done.version, done.num_updated_rows) == (3, expected["num_rows_updated"])
    assert content(ours) == content(theirs)
    assert data_files(ours) == used_files(ours)


def test_replace_rows_replaces_only_rows_that_match_the_predicate(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_QUIET_SECONDS", 0.2)
    ours, theirs = twins(uri)
    new = rows(100, 110, "new")
    frame = spark.createDataFrame(new)
    for number in range(2):
        done = replace_rows(frame, ours, "day = 'new'")
        assert (done.num_deleted_rows, done.num_inserted_rows) == (10 * number, 10)
        lance_core.dataset(theirs).replace_rows("day = 'new'", new)
    assert content(ours) == content(theirs)
    with pytest.raises(InvalidInputError, match="found 0 matching rows among 10 new rows"):
        replace_rows(frame, ours, "day = 'other'")
    assert lance_core.dataset(ours).version == 4
    assert data_files(ours) == used_files(ours)


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"twice": pc.multiply(batch["id"], 2)})


def test_add_columns_writes_only_new_files(spark: SparkSession, uri: str, stable: bool) -> None:
    ours, theirs = twins(uri, stable=stable)
    before = data_files(ours)
    assert add_columns(spark, ours, {"length": "char_length(word)"}) == 3
    assert add_columns(spark, ours, lambda batch: pa.record_batch({"twice": pc.multiply(batch["id"], 2)})) == 4
    lance_core.dataset(theirs).add_columns({"length": "char_length(word)"})
    lance_core.dataset(theirs).add_columns(doubled)
    assert content(ours) == content(theirs)
    assert lance.dataset(ours).schema == lance.dataset(theirs).schema
    assert len(data_files(ours) - before) == 12
    with pytest.raises(SchemaMismatchError, match="'twice' already exists"):
        add_columns(spark, ours, {"twice": "id"})


def test_compaction_merges_small_fragments_and_removes_deleted_rows(spark: SparkSession, uri: str) -> None:
    ours, theirs = twins(uri)
    done = materialize_deletions(spark, ours, threshold=0.15)
    assert (done.version, done.attempts, done.metrics.fragments_removed) == (4, 1, 1)
    metrics = compact(spark, ours, target_rows_per_fragment=30).metrics
    expected = lance_core.dataset(theirs).optimize.compact_files(target_rows_per_fragment=30)
    assert (metrics.fragments_removed, metrics.fragments_added) == (6, expected.fragments_added)
    assert content(ours)[0] == content(theirs)[0]
    assert content(ours)[1] == 0
    assert compact(spark, ours, target_rows_per_fragment=30).attempts == 0


def test_verification_finds_missing_and_damaged_files(spark: SparkSession, uri: str) -> None:
    make(uri)
    assert verify(spark, uri, reads_pages=True) == []
    names = sorted(data_files(uri))
    Path(uri, "data", names[0]).unlink()
    damaged = Path(uri, "data", names[1])
    damaged.write_bytes(bytes(damaged.stat().st_size))
    faults = verify(spark, uri)
    assert len(faults) == 2
    assert all(fault.place == "version 2" for fault in faults)
    assert any(names[0] in fault.message for fault in faults)


def test_copied_table_is_independent_of_its_source(spark: SparkSession, uri: str) -> None:
    make(uri)
    done = copy(spark, uri, f"{uri}-copy")
    assert done.num_bytes > 0
    expected = content(uri)
    shutil.rmtree(uri)
    assert content(f"{uri}-copy") == expected
    with pytest.raises(AlreadyExistsError):
        copy(spark, f"{uri}-copy", f"{uri}-copy")


def test_frame_is_written_sorted_and_divided_as_requested(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame(rows(0, ROWS)).selectExpr("59 - id AS id", "word", "day", "id % 3 AS part")
    made = write(
        frame,
        uri,
        "create",
        num_partitions=2,
        partition_by=["part"],
        sort_by=["id"],
        max_rows_per_file=16,
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )
    assert (made.version, made.num_rows) == (1, ROWS)
    dataset = lance.dataset(uri)
    assert (dataset.has_stable_row_ids, dataset.data_storage_version) == (True, "2.2")
    found = [fragment.to_table().to_pydict() for fragment in dataset.get_fragments()]
    assert made.num_fragments == len(found)
    assert all(len(each["id"]) <= 16 and each["id"] == sorted(each["id"]) for each in found)
    parts = [frozenset(each["part"]) for each in found]
    assert all(one == other or not one & other for one in parts for other in parts)
    with pytest.raises(AlreadyExistsError):
        write(frame, uri, "create")
    assert write(frame, uri).version == 2
    assert write(frame.drop("part"), uri, "overwrite").version == 3
    assert {(row["id"], row["word"], row["day"]) for row in content(uri)[0]} == {
        (number, f"word {59 - number}", "old") for number in range(ROWS)
    }


@pytest.mark.slow
def test_files_are_written_to_the_requested_base_paths(spark: SparkSession, uri: str) -> None:
    bases = [lance_core.DatasetBasePath(f"{uri}-{name}", name=name, is_dataset_root=True) for name in ("one", "two")]
    lance_core.write_dataset(rows(0, 10), uri, initial_bases=bases, mode="create")
    frame = spark.createDataFrame(rows(10, 20)).coalesce(1)
    write(frame, uri, max_rows_per_file=5, target_bases=["one", "two"])
    assert [len(list(Path(f"{uri}-{name}", "data").iterdir())) for name in ("one", "two")] == [1, 1]
    assert [row["id"] for row in content(uri)[0]] == list(range(20))


def interrupted(monkeypatch: pytest.MonkeyPatch, module: str, name: str, interfere: Callable[[int, int], None]) -> None:
    """Run ``interfere(partition, attempt)`` in the workers after a task of the verb has finished its work."""
    home = importlib.import_module(f"{VERBS}.{module}")
    real = getattr(home, name)

    def execute(*arguments: Any) -> Any:
        result = real(*arguments)
        task = TaskContext.get()
        interfere(task.partitionId(), task.attemptNumber())
        return result

    monkeypatch.setattr(home, name, execute)


CHANGES: dict[str, tuple[str, str, Callable[[SparkSession, str], Any]]] = {
    "delete": ("deletion", "search_rows", lambda spark, uri: delete(spark, uri, "id % 10 = 3")),
    "update": ("updating", "_execute", lambda spark, uri: update(spark, uri, {"day": "'x'"}, "id % 10 = 3")),
    "add_columns": ("new_columns", "_execute", lambda spark, uri: add_columns(spark, uri, {"twice": "id * 2"})),
}


@pytest.mark.parametrize(
    "verb", [name if name == "update" else pytest.param(name, marks=pytest.mark.slow) for name in CHANGES]
)
def test_results_of_repeated_spark_tasks_count_once(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    ours, theirs = twins(uri)
    module, name, change = CHANGES[verb]
    change(spark, theirs)

    def break_off(partition: int, attempt: int) -> None:
        if partition == 0 and attempt < 2:
            raise ValueError("it broke off after its files were complete")

    interrupted(monkeypatch, module, name, break_off)
    change(spark, ours)
    assert content(ours) == content(theirs)
    assert lance_core.dataset(ours).version == 3
    assert data_files(ours) == used_files(ours)


@pytest.mark.slow
@pytest.mark.parametrize("verb", CHANGES)
def test_killed_workers_fail_the_operation_and_leave_no_files(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    make(uri)
    before = data_files(uri)
    module, name, change = CHANGES[verb]
    interrupted(monkeypatch, module, name, lambda partition, attempt: os._exit(137))
    with pytest.raises(StorageError, match="exited unexpectedly"):
        change(spark, uri)
    assert data_files(uri) == before
    assert lance_core.dataset(uri).version == 2


def before_commits(monkeypatch: pytest.MonkeyPatch, home: Any, name: str, act: Callable[[int], object]) -> None:
    """Call ``act`` before each commit with the number of earlier commits."""
    real = getattr(home, name)
    calls: list[None] = []

    def commit(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        act(len(calls) - 1)
        return real(*arguments, **options)

    monkeypatch.setattr(home, name, commit)


def test_update_after_a_conflict_repeats_only_changed_fragments(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(uri)
    home = importlib.import_module(f"{VERBS}.updating")
    before_commits(
        monkeypatch,
        home,
        "commit_update",
        lambda number: None if number else lance.dataset(uri).update({"day": "'theirs'"}, "id = 12"),
    )
    done = update(spark, uri, {"word": "'ours'"}, "id IN (12, 33, 55)")
    assert (done.attempts, done.num_updated_rows, done.version) == (2, 3, 4)
    found = {row["id"]: row for row in content(uri)[0]}
    assert {number for number, row in found.items() if row["word"] == "ours"} == {12, 33, 55}
    assert found[12]["day"] == "theirs"
    assert data_files(uri) == used_files(uri)


def test_delete_that_another_writer_immediately_builds_on_is_repeated(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(uri)
    create = VersionLog.create

    def create_and_update(log: VersionLog, name: ManifestName, data: bytes, *more: Any) -> PutOutcome:
        monkeypatch.undo()
        outcome = create(log, name, data, *more)
        # It moves a row of the same fragment, so that it is unknown whether it was built on the delete.
        lance.dataset(uri).update({"day": "'theirs'"}, "id = 13")
        return outcome

    monkeypatch.setattr(VersionLog, "create", create_and_update)
    done = delete(spark, uri, "id IN (12, 14)")
    assert (done.attempts, done.num_deleted_rows, done.version) == (2, 2, 4)
    found = {row["id"]: row["day"] for row in content(uri)[0]}
    assert found.keys() == {*range(ROWS)} - {7, 8, 12, 14}
    assert found[13] == "theirs"


@pytest.mark.slow
def test_add_columns_after_a_conflict_writes_only_the_missing_fragments(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(uri)
    before = data_files(uri)
    before_commits(
        monkeypatch,
        ColumnTasks,
        "commit",
        lambda number: None if number else lance.write_dataset(rows(60, 70), uri, mode="append"),
    )
    assert add_columns(spark, uri, {"twice": "id * 2"}) == 4
    assert all(row["twice"] == 2 * row["id"] for row in content(uri)[0])
    # One file by the other writer, and one for each of seven fragments.
    assert len(data_files(uri) - before) == 8


@pytest.mark.slow
def test_replacement_that_always_conflicts_leaves_no_files(
    spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(uri)
    monkeypatch.setattr(leftovers, "_QUIET_SECONDS", 0.2)
    home = importlib.import_module(f"{VERBS}.replacement")
    before_commits(
        monkeypatch, home, "commit_replacement", lambda number: lance.write_dataset(rows(60, 61), uri, mode="append")
    )
    frame: DataFrame = spark.createDataFrame(rows(100, 110, "new"))
    with pytest.raises(TooMuchWriteContentionError, match="the replacement failed"):
        replace_rows(frame, uri, "day = 'new'", retries=1)
    assert data_files(uri) == used_files(uri)
