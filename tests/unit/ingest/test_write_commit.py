"""The commit of an ingest: modes, repeated and concurrent commits, failures, and partitions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    DatasetNotFoundError,
    IncompatibleTransactionError,
    InvalidInputError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_pipelines.ingest import write_commit as commit_module
from lance_pipelines.ingest.declaration import WriteMode
from lance_pipelines.ingest.verify import StagedWriteError
from lance_pipelines.ingest.write_commit import transaction_uuid


def ids(rows: list[dict[str, object]]) -> list[object]:
    return sorted(row["id"] for row in rows)


def test_first_append_creates_the_dataset(warehouse, numbers) -> None:
    outcome = warehouse.commit(warehouse.stage(numbers(1, 2, 3)))
    assert (outcome.version, outcome.attempts, outcome.committed, outcome.repeated) == (1, 1, True, False)
    assert ids(warehouse.rows()) == [1, 2, 3]


def test_each_append_adds_a_version(warehouse, numbers) -> None:
    for value in (1, 2, 3):
        assert warehouse.commit(warehouse.stage(numbers(value))).version == value
    assert ids(warehouse.rows()) == [1, 2, 3]
    assert ids(warehouse.rows(version=2)) == [1, 2]


def test_overwrite_replaces_rows_and_schema(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1, 2)))
    outcome = warehouse.commit(warehouse.stage(pa.table({"other": [1.5]}), WriteMode.OVERWRITE))
    assert outcome.version == 2
    assert warehouse.rows() == [{"other": 1.5}]


def test_ingest_transaction_records_run_step_and_dataset(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    outcome = warehouse.commit(staged)
    transaction = lance_core.dataset(warehouse.uri).read_transaction(1)
    assert transaction.uuid == outcome.transaction_uuid == transaction_uuid(staged)
    assert transaction.transaction_properties == {
        "dagster.run_id": "run-1",
        "dagster.step_key": "events.write_fragments",
        "lance_pipelines.write_id": staged.write_id,
        "lance_pipelines.dataset": "events",
    }


@pytest.mark.parametrize("mode", list(WriteMode))
def test_repeated_ingest_commit_creates_one_version(warehouse, numbers, mode) -> None:
    staged = warehouse.stage(numbers(1), mode)
    first = warehouse.commit(staged)
    again = warehouse.commit(staged)
    assert (again.version, again.transaction_uuid, again.repeated) == (first.version, first.transaction_uuid, True)
    assert warehouse.latest_version() == 1
    assert not warehouse.discarded


def test_repeated_ingest_commit_finds_its_version_among_later_versions(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    warehouse.commit(staged)
    warehouse.commit(warehouse.stage(numbers(2)))
    warehouse.commit(warehouse.stage(numbers(3), WriteMode.OVERWRITE))
    again = warehouse.commit(staged)
    assert (again.version, again.repeated) == (1, True)
    assert warehouse.latest_version() == 3


def test_repeated_ingest_commit_does_not_need_its_files(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1))
    warehouse.commit(staged)
    for path in warehouse.files(staged.file_token):
        path.unlink()
    assert warehouse.commit(staged).repeated


@pytest.mark.parametrize("second", [WriteMode.APPEND, WriteMode.OVERWRITE])
def test_second_of_two_concurrent_first_writes_is_committed_after_the_first(warehouse, numbers, second) -> None:
    """Both were planned before the dataset existed."""
    plan = warehouse.plan()
    one, two = warehouse.stage(numbers(1, 2, 3), plan=plan), warehouse.stage(numbers(4, 5), second, plan=plan)
    assert warehouse.commit(one).version == 1
    assert warehouse.commit(two).version == 2
    assert ids(warehouse.rows()) == ([1, 2, 3, 4, 5] if second is WriteMode.APPEND else [4, 5])
    assert not warehouse.discarded


@pytest.mark.sampled(2)
@pytest.mark.parametrize("round_number", range(5))
def test_concurrent_first_writes_are_all_kept(warehouse, numbers, round_number) -> None:
    plan = warehouse.plan()
    staged = [warehouse.stage(numbers(value), plan=plan) for value in range(8)]
    barrier = threading.Barrier(len(staged))

    def commit(one):
        barrier.wait()
        return warehouse.commit(one)

    with ThreadPoolExecutor(len(staged)) as pool:
        outcomes = list(pool.map(commit, staged))
    assert sorted(outcome.version for outcome in outcomes) == list(range(1, 9))
    assert ids(warehouse.rows()) == list(range(8))


def test_concurrent_commits_of_the_same_write_create_one_version(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(0)))
    staged = warehouse.stage(numbers(1))
    barrier = threading.Barrier(6)

    def commit(_):
        barrier.wait()
        return warehouse.commit(staged)

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(commit, range(6)))
    assert {outcome.version for outcome in outcomes} == {2}
    assert warehouse.latest_version() == 2
    assert ids(warehouse.rows()) == [0, 1]


def test_first_append_to_a_dataset_with_a_different_schema_is_refused(warehouse, numbers) -> None:
    plan = warehouse.plan()
    mine = warehouse.stage(numbers(1), plan=plan)
    warehouse.commit(warehouse.stage(pa.table({"id": ["a"], "name": ["b"]}), plan=plan))
    with pytest.raises(SchemaMismatchError, match="'id'"):
        warehouse.commit(mine)
    assert warehouse.discarded == [mine.file_token]
    assert warehouse.rows() == [{"id": "a", "name": "b"}]


def test_create_fails_when_another_writer_created_the_dataset_first(warehouse, numbers) -> None:
    plan = warehouse.plan()
    mine = warehouse.stage(numbers(1), WriteMode.CREATE, plan=plan)
    warehouse.commit(warehouse.stage(numbers(2), plan=plan))
    with pytest.raises(AlreadyExistsError, match="another writer created the dataset"):
        warehouse.commit(mine)
    assert warehouse.discarded == [mine.file_token]
    assert ids(warehouse.rows()) == [2]


def test_overwrites_planned_on_the_same_version_are_both_committed(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    plan = warehouse.plan(WriteMode.OVERWRITE)
    one, two = (warehouse.stage(numbers(value), WriteMode.OVERWRITE, plan=plan) for value in (2, 3))
    assert warehouse.commit(one).version == 2
    assert warehouse.commit(two).version == 3
    assert ids(warehouse.rows()) == [3]


def test_concurrent_overwrites_create_one_version_each(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(0)))
    staged = [warehouse.stage(numbers(value), WriteMode.OVERWRITE) for value in range(1, 5)]
    barrier = threading.Barrier(len(staged))

    def commit(one):
        barrier.wait()
        return warehouse.commit(one)

    with ThreadPoolExecutor(len(staged)) as pool:
        outcomes = list(pool.map(commit, staged))
    assert sorted(outcome.version for outcome in outcomes) == [2, 3, 4, 5]
    for value, outcome in enumerate(outcomes, start=1):
        assert ids(warehouse.rows(version=outcome.version)) == [value]


def test_append_planned_before_an_overwrite_is_refused(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    mine = warehouse.stage(numbers(2))
    warehouse.commit(warehouse.stage(numbers(3), WriteMode.OVERWRITE))
    with pytest.raises(IncompatibleTransactionError, match="version 2"):
        warehouse.commit(mine)
    assert warehouse.discarded == [mine.file_token]
    assert ids(warehouse.rows()) == [3]


def test_append_to_a_deleted_dataset_raises_dataset_not_found(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    mine = warehouse.stage(numbers(2))
    for manifest in Path(warehouse.uri, "_versions").iterdir():
        manifest.unlink()
    with pytest.raises(DatasetNotFoundError, match="was at version 1 when the write was planned"):
        warehouse.commit(mine)
    assert warehouse.discarded == [mine.file_token]


def test_append_to_a_recreated_dataset_raises_incompatible_transaction(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    mine = warehouse.stage(numbers(2))
    for manifest in Path(warehouse.uri, "_versions").iterdir():
        manifest.unlink()
    warehouse.commit(warehouse.stage(numbers(3)))
    with pytest.raises(IncompatibleTransactionError, match="was replaced in the meantime"):
        warehouse.commit(mine)
    assert ids(warehouse.rows()) == [3]


def test_append_without_rows_creates_no_version(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    outcome = warehouse.commit(warehouse.stage(numbers()))
    assert (outcome.version, outcome.committed) == (1, False)
    assert warehouse.latest_version() == 1


@pytest.mark.parametrize("mode", list(WriteMode))
def test_first_write_without_rows_creates_an_empty_dataset(warehouse, numbers, mode) -> None:
    outcome = warehouse.commit(warehouse.stage(numbers(), mode))
    assert (outcome.version, outcome.committed) == (1, True)
    assert lance_core.dataset(warehouse.uri).schema.names == ["id", "name"]
    assert warehouse.rows() == []


def test_failed_verification_prevents_the_commit_and_discards_the_files(warehouse, numbers) -> None:
    staged = warehouse.stage(numbers(1, 2, 3), rows_counted=4)
    with pytest.raises(StagedWriteError):
        warehouse.commit(staged)
    assert warehouse.discarded == [staged.file_token]
    assert not Path(warehouse.uri, "_versions").exists()


def test_repeated_commit_with_a_removed_version_has_an_unknown_outcome(warehouse, numbers) -> None:
    """The version that may be ours was cleaned up: the write is not committed again, and no files are deleted."""
    warehouse.commit(warehouse.stage(numbers(1)))
    staged = warehouse.stage(numbers(2))
    outcome = warehouse.commit(staged)
    warehouse.commit(warehouse.stage(numbers(3)))
    manifests = sorted(Path(warehouse.uri, "_versions").glob("*.manifest"), reverse=True)
    manifests[outcome.version - 1].unlink()
    with pytest.raises(CommitOutcomeUnknownError, match="version 2 was cleaned up"):
        warehouse.commit(staged)
    assert not warehouse.discarded
    assert warehouse.latest_version() == 3


@pytest.mark.parametrize(
    "failure",
    [
        CommitOutcomeUnknownError("who knows"),
        StorageError("timed out", retryable=True),
        TooMuchWriteContentionError("busy"),
    ],
)
def test_retryable_and_unknown_failures_keep_the_staged_files(warehouse, numbers, monkeypatch, failure) -> None:
    staged = warehouse.stage(numbers(1))

    def fail(*args, **kwargs):
        raise failure

    monkeypatch.setattr(commit_module, "commit_on", fail)
    with pytest.raises(type(failure)):
        warehouse.commit(staged)
    assert not warehouse.discarded
    monkeypatch.undo()
    assert warehouse.commit(staged).version == 1


def test_commit_on_a_full_disk_discards_the_staged_files(warehouse, numbers, monkeypatch) -> None:
    staged = warehouse.stage(numbers(1))

    def fail(*args, **kwargs):
        raise StorageError("cannot write the transaction: No space left on device")

    monkeypatch.setattr(commit_module, "commit_on", fail)
    with pytest.raises(StorageError, match="No space left"):
        warehouse.commit(staged)
    assert warehouse.discarded == [staged.file_token]


def test_append_after_a_schema_replacement_raises_incompatible_transaction(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    staged = warehouse.stage(numbers(2))
    lance_core.write_dataset(pa.table({"zz": [1]}), warehouse.uri, mode="overwrite")
    with pytest.raises(IncompatibleTransactionError, match=r"based on version 1.*version 2"):
        warehouse.commit(staged)


def test_failure_after_the_commit_keeps_the_committed_files(warehouse, numbers, monkeypatch) -> None:
    staged = warehouse.stage(numbers(1))
    real = commit_module.commit_on

    def commit_and_fail(*args, **kwargs):
        real(*args, **kwargs)
        raise InvalidInputError("after the commit")

    monkeypatch.setattr(commit_module, "commit_on", commit_and_fail)
    with pytest.raises(InvalidInputError):
        warehouse.commit(staged)
    assert not warehouse.discarded
    assert ids(warehouse.rows()) == [1]


def test_commit_whose_dataset_cannot_be_read_afterward_keeps_its_files(warehouse, numbers, monkeypatch) -> None:
    staged = warehouse.stage(numbers(1))
    real = commit_module.commit_on

    def commit_and_damage(*args, **kwargs):
        real(*args, **kwargs)
        [manifest] = Path(warehouse.uri, "_versions").glob("*.manifest")
        manifest.write_bytes(b"damaged")
        raise InvalidInputError("after the commit")

    monkeypatch.setattr(commit_module, "commit_on", commit_and_damage)
    with pytest.raises(InvalidInputError):
        warehouse.commit(staged)
    assert not warehouse.discarded


def test_files_that_cannot_be_deleted_do_not_hide_the_failure(warehouse, numbers) -> None:
    staged = replace(warehouse.stage(numbers(1)), rows_counted=2)

    def fail(uri, file_token):
        raise StorageError("read-only")

    with pytest.raises(StagedWriteError) as caught:
        commit_module.commit_staged(staged, discard=fail)
    assert "could not be removed: read-only" in caught.value.__notes__[0]


# ── Format versions ───────────────────────────────────────────────────────────────────────────────────────────────


def nested(*values: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(values, pa.int64()),
            "pair": pa.array([{"x": value, "y": [value]} for value in values]),
            "v": pa.array([[1.0, float(value)] for value in values], pa.list_(pa.float32(), 2)),
        }
    )


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
def test_datasets_of_every_format_version_are_created_appended_to_and_replaced(warehouse, version) -> None:
    warehouse.commit(warehouse.stage(nested(1, 2, 3), data_storage_version=version))
    warehouse.commit(warehouse.stage(nested(4, 5)))
    dataset = lance_core.dataset(warehouse.uri)
    assert dataset.data_storage_version == version
    assert dataset.to_table().equals(nested(1, 2, 3, 4, 5))
    dataset.validate()
    warehouse.commit(warehouse.stage(nested(6), WriteMode.OVERWRITE))
    assert lance_core.dataset(warehouse.uri).data_storage_version == version
    warehouse.commit(warehouse.stage(nested(7), WriteMode.OVERWRITE, data_storage_version="2.1"))
    assert lance_core.dataset(warehouse.uri).data_storage_version == "2.1"
    assert ids(warehouse.rows()) == [7]


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE])
def test_first_write_without_rows_still_sets_the_format_version(warehouse, mode) -> None:
    warehouse.commit(warehouse.stage(nested(), mode, data_storage_version="2.0"))
    assert lance_core.dataset(warehouse.uri).data_storage_version == "2.0"
    if mode is WriteMode.OVERWRITE:
        warehouse.commit(warehouse.stage(nested(), mode, data_storage_version="0.1"))
        assert lance_core.dataset(warehouse.uri).data_storage_version == "0.1"


def _replacing(warehouse, rows: pa.Table, predicate: str, **changes: object):
    return warehouse.stage(rows, WriteMode.OVERWRITE_PARTITION, predicate=predicate, **changes)


def test_overwrite_partition_replaces_the_rows_of_the_predicate_in_one_version(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1, 2, 3, 4)))
    staged = _replacing(warehouse, numbers(3, 3), "`id` = 3")
    outcome = warehouse.commit(staged)
    assert (outcome.version, outcome.committed_now) == (2, True)
    assert ids(warehouse.rows()) == [1, 2, 3, 3, 4]
    again = warehouse.commit(staged)
    assert (again.version, again.repeated) == (2, True)
    assert warehouse.latest_version() == 2
    transaction = lance_core.dataset(warehouse.uri).read_transaction(2)
    assert transaction.uuid == transaction_uuid(staged)
    assert transaction.transaction_properties["dagster.run_id"] == "run-1"


def test_overwrite_partition_replaces_rows_that_other_writers_committed_after_planning(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1)))
    first = _replacing(warehouse, numbers(7, 7, 7), "`id` = 7")
    second = _replacing(warehouse, numbers(7), "`id` = 7")
    warehouse.commit(first)
    warehouse.commit(warehouse.stage(numbers(7, 8)))
    warehouse.commit(second)
    assert ids(warehouse.rows()) == [1, 7, 8]


def test_two_first_runs_of_different_partitions_are_both_committed(warehouse, numbers) -> None:
    first = _replacing(warehouse, numbers(1), "`id` = 1")
    second = _replacing(warehouse, numbers(2), "`id` = 2")
    assert [warehouse.commit(each).version for each in (first, second)] == [1, 2]
    assert ids(warehouse.rows()) == [1, 2]


def test_overwrite_partition_without_rows_removes_the_old_rows_and_a_repetition_changes_nothing(
    warehouse, numbers
) -> None:
    warehouse.commit(warehouse.stage(numbers(1, 2)))
    outcome = warehouse.commit(_replacing(warehouse, numbers(), "`id` = 2"))
    assert (outcome.version, outcome.committed) == (2, True)
    outcome = warehouse.commit(_replacing(warehouse, numbers(), "`id` = 2"))
    assert (outcome.version, outcome.committed) == (2, False)
    assert ids(warehouse.rows()) == [1]


def test_overwrite_partition_with_rows_of_other_partitions_is_refused_and_removes_the_files(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(1, 2)))
    staged = _replacing(warehouse, numbers(2, 3), "`id` = 2")
    with pytest.raises(InvalidInputError, match="found 1 matching row among 2 new rows"):
        warehouse.commit(staged)
    assert warehouse.discarded == [staged.file_token]
    assert warehouse.latest_version() == 1


def test_partitions_replaced_concurrently_by_threads_are_all_committed(warehouse, numbers) -> None:
    warehouse.commit(warehouse.stage(numbers(*range(8))))
    staged = [_replacing(warehouse, numbers(value, value), f"`id` = {value}") for value in range(4)]
    barrier = threading.Barrier(4)

    def commit(each) -> int:
        barrier.wait()
        return warehouse.commit(each).version

    with ThreadPoolExecutor(4) as executor:
        assert sorted(executor.map(commit, staged)) == [2, 3, 4, 5]
    assert ids(warehouse.rows()) == sorted([*range(4), *range(8)])
