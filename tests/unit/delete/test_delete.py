"""Deletes: plans, files, versions, and conflicts. All datasets are in memory."""

import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap

import lance_core
from lance_core.delete.plan import DeletePlan, DeletePlanner, plan_delete, plan_fragment
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_core.file.reader import FileReader
from lance_core.io.read_costs import REMOTE_COSTS
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.table.fragment import Fragment
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call, When

ROWS = pa.table({"a": pa.array(range(12), pa.int64()), "b": pa.array([f"row {i}" for i in range(12)])})


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of twelve rows in three fragments of four rows."""
    return lance_core.write_dataset(ROWS, uri, max_rows_per_file=4)


def _values(dataset: lance_core.LanceDataset) -> list[int]:
    return dataset.to_table(columns=["a"])["a"].to_pylist()


def _deletion_files(store: CountingStore) -> list[str]:
    return sorted(info.path for info in store.inner.list("table/_deletions"))


def test_delete_hides_the_matching_rows(dataset: lance_core.LanceDataset, uri: str) -> None:
    assert dataset.delete("a in (1, 2, 9)") == {"num_deleted_rows": 3}
    assert dataset.version == 2
    assert _values(dataset) == _values(lance_core.dataset(uri)) == [0, 3, 4, 5, 6, 7, 8, 10, 11]
    assert [fragment.num_deletions for fragment in dataset.get_fragments()] == [2, 0, 1]
    assert _values(dataset.checkout_version(1)) == list(range(12))
    assert dataset.delete("a < 4 and b <> 'row 0'") == {"num_deleted_rows": 1}
    assert dataset.delete(pc.field("a") == 10) == {"num_deleted_rows": 1}
    assert _values(dataset) == [0, 4, 5, 6, 7, 8, 11]
    assert dataset.take([0, 6], columns=["a"])["a"].to_pylist() == [0, 11]
    dataset.validate()


def test_delete_transaction_records_predicate_fragments_and_properties(dataset: lance_core.LanceDataset) -> None:
    dataset.delete("a = 1 or a >= 8", transaction_properties={"by": "a test"})
    transaction = dataset.read_transaction(2)
    operation = transaction.operation
    assert isinstance(operation, lance_core.LanceOperation.Delete)
    assert operation.predicate == "a = 1 or a >= 8"
    assert operation.deleted_fragment_ids == [2]
    assert [fragment.id for fragment in operation.updated_fragments] == [0]
    assert transaction.transaction_properties == {"by": "a test"}
    assert transaction.read_version == 1


def test_delete_of_all_rows_of_a_fragment_removes_the_fragment(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    dataset.delete("a = 4")
    files = _deletion_files(store)
    dataset.delete("a between 4 and 7")
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [0, 2]
    assert _deletion_files(store) == files


def test_delete_that_matches_nothing_creates_a_version(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    assert dataset.delete("a > 100") == {"num_deleted_rows": 0}
    assert dataset.delete("false") == {"num_deleted_rows": 0}
    assert (dataset.version, _values(dataset)) == (3, list(range(12)))
    assert _deletion_files(store) == []


def test_truncate_table_removes_every_row_without_reading_data(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    dataset.delete("a = 1")
    store.reset()
    dataset.truncate_table()
    assert (dataset.version, dataset.count_rows(), dataset.get_fragments()) == (3, 0, [])
    assert not [call for call in store.calls if "data/" in call.path]
    lance_core.write_dataset(ROWS, dataset.uri, mode="append")
    dataset.checkout_latest()
    assert [fragment.fragment_id for fragment in dataset.get_fragments()] == [3]


def test_delete_plan_counts_rows_and_fragments_without_writing(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    dataset.delete("a = 5")
    store.reset()
    plan = plan_delete(dataset, "a = 1 or a in (4, 5, 6, 7)")
    assert plan == DeletePlan(
        read_version=2,
        predicate="a = 1 or a in (4, 5, 6, 7)",
        rows_before=11,
        rows_deleted=4,
        fragments_changed=1,
        fragments_dropped=1,
        deletes=plan.deletes,
    )
    assert [delete.fragment.id for delete in plan.deletes] == [0, 1]
    assert {call.method for call in store.calls} <= {"get", "get_ranges", "head"}
    assert plan_delete(dataset, "a > 100").deletes == ()


@pytest.mark.parametrize(
    ("deleted_before", "found", "new", "deleted"),
    [
        ([], [1, 2], [1, 2], [1, 2]),
        ([0, 7], [3], [3], [0, 3, 7]),
        ([0, 7], [1, 2, 3, 4, 5, 6], None, None),
        ([0], [], [], [0]),
    ],
)
def test_fragment_delete_plan_combines_new_and_earlier_deletions(
    deleted_before: list[int], found: list[int], new: list[int] | None, deleted: list[int] | None
) -> None:
    fragment = Fragment.of([], physical_rows=8)
    rows_before = 8 - len(deleted_before)
    plan = plan_fragment(fragment, rows_before, np.array(deleted_before, np.uint32), np.array(found, np.int64))
    assert plan.found == (None if new is None else BitMap(new))
    assert plan.deleted == (None if deleted is None else BitMap(deleted))
    assert plan.is_dropped is (deleted is None)
    assert plan.rows_deleted == (rows_before if new is None else len(new))


def test_delete_reads_only_the_columns_of_its_predicate(store: CountingStore, uri: str) -> None:
    # Different values, so that they cannot be compressed away.
    values = pa.array([number.to_bytes(4, "big") * 50 for number in range(50_000)])
    dataset = lance_core.write_dataset(pa.table({"id": range(50_000), "blob": values}), uri)
    read: list[int] = []
    get_ranges = store.inner.get_ranges

    def counted(path: str, ranges: Any) -> list[pa.Buffer]:
        buffers = get_ranges(path, ranges)
        read.append(sum(buffer.size for buffer in buffers))
        return buffers

    store.inner.get_ranges = counted
    assert dataset.delete("id = 31234") == {"num_deleted_rows": 1}
    assert sum(read) < 50_000 * 8 + 200_000
    read.clear()
    # A scan does not read other columns where no row matches.
    assert dataset.to_table(filter="id < 0").num_rows == 0
    assert sum(read) < 50_000 * 8 + 200_000


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("c = 1", InvalidInputError),
        ("a =", InvalidInputError),
        ("a", InvalidInputError),
        ("10 / (a - 3) > 0", InvalidInputError),
        ("soundex(b) = 'x'", NotSupportedError),
        (None, InvalidTypeError),
    ],
)
def test_delete_with_an_invalid_predicate_changes_nothing(
    dataset: lance_core.LanceDataset, store: CountingStore, predicate: Any, error: type[Exception]
) -> None:
    store.reset()
    with pytest.raises(error):
        dataset.delete(predicate)
    assert not {"put", "put_if_absent", "create", "delete"} & {call.method for call in store.calls}
    assert dataset.latest_version == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"conflict_retries": -1}, InvalidInputError, "retries after a conflict must be at least 0, found -1"),
        ({"conflict_retries": 1.5}, InvalidTypeError, "retries after a conflict must be a whole number, found 1.5"),
        ({"retry_timeout": 5}, InvalidTypeError, "retry_timeout"),
        ({"retry_timeout": timedelta(seconds=-1)}, InvalidInputError, "retry_timeout"),
    ],
)
def test_delete_with_invalid_arguments_is_refused(
    dataset: lance_core.LanceDataset, arguments: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        dataset.delete("a = 1", **arguments)


def test_concurrent_deletes_of_different_rows_are_merged(
    dataset: lance_core.LanceDataset, store: CountingStore, uri: str
) -> None:
    stale = lance_core.dataset(uri)
    dataset.delete("a = 0")
    store.reset()
    assert stale.delete("a = 1", conflict_retries=0) == {"num_deleted_rows": 1}
    assert _values(stale) == list(range(2, 12))
    # The file of the first attempt was removed: one file per version remains.
    assert len(_deletion_files(store)) == 2
    stale.validate()


def test_concurrent_delete_of_the_same_row_is_planned_again(
    dataset: lance_core.LanceDataset, store: CountingStore, uri: str
) -> None:
    stale, another = lance_core.dataset(uri), lance_core.dataset(uri)
    dataset.delete("a in (0, 5)")
    assert stale.delete("a in (0, 1)") == {"num_deleted_rows": 1}
    assert (stale.version, _values(stale)) == (3, [2, 3, 4, 6, 7, 8, 9, 10, 11])
    with pytest.raises(TooMuchWriteContentionError, match="number of attempts: 1\\)"):
        another.delete("a = 5", conflict_retries=0)
    with pytest.raises(TooMuchWriteContentionError, match="number of attempts: 1\\)"):
        another.delete("a = 5", retry_timeout=timedelta(0))
    assert another.latest_version == 3
    assert len(_deletion_files(store)) == 3


def test_delete_keeps_rows_appended_since_its_read_version(dataset: lance_core.LanceDataset, uri: str) -> None:
    lance_core.write_dataset(ROWS, uri, mode="append")
    assert dataset.delete("a < 11") == {"num_deleted_rows": 11}
    assert dataset.version == 3
    assert _values(dataset) == [11, *range(12)]


def test_delete_on_a_table_that_was_overwritten_changes_nothing(
    dataset: lance_core.LanceDataset, store: CountingStore, uri: str
) -> None:
    lance_core.write_dataset(ROWS, uri, mode="overwrite")
    with pytest.raises(IncompatibleTransactionError):
        dataset.delete("a = 1")
    assert _deletion_files(store) == []
    assert lance_core.dataset(uri).count_rows() == 12


def test_failed_delete_removes_its_deletion_files(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    def fault(call: Call) -> When | None:
        is_third = len([each for each in store.calls if each.method == "put" and "_deletions" in each.path]) == 3
        return When.BEFORE if call.method == "put" and "_deletions" in call.path and is_third else None

    store.fault = fault
    with pytest.raises(StorageError):
        dataset.delete("a % 4 = 0")
    assert _deletion_files(store) == []
    assert dataset.latest_version == 1


@pytest.mark.parametrize("fails", [False, True])
def test_delete_on_an_object_store_writes_deletion_files_concurrently(
    uri: str, store: CountingStore, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    remote = replace(store.inner.capabilities, read_costs=REMOTE_COSTS)
    monkeypatch.setattr(CountingStore, "capabilities", remote)
    dataset = lance_core.write_dataset(pa.table({"a": range(60)}), uri, max_rows_per_file=2)
    together = threading.Barrier(4)

    def fault(call: Call) -> When | None:
        if call.method == "put" and "_deletions" in call.path:
            # The first calls continue only when there are several.
            with suppress(threading.BrokenBarrierError):
                together.wait(timeout=30)
            number = len([each for each in store.calls if each.method == "put" and "_deletions" in each.path])
            if number >= 4:
                together.abort()
            return When.BEFORE if fails and number > 20 else None
        return None

    store.fault = fault
    if fails:
        with pytest.raises(StorageError):
            dataset.delete("a % 2 = 0")
        assert (_deletion_files(store), dataset.latest_version) == ([], 1)
        return
    assert dataset.delete("a % 2 = 0") == {"num_deleted_rows": 30}
    assert len(_deletion_files(store)) == 30
    assert _values(dataset) == list(range(1, 60, 2))


def test_delete_reads_small_fragments_together(
    dataset: lance_core.LanceDataset, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.write_dataset(ROWS.slice(0, 5), uri, mode="append", max_rows_per_file=1)
    dataset.checkout_latest()
    read = []
    read_batches = FileReader.read_batches

    def counted(reader: FileReader, *arguments: Any, **options: Any) -> Any:
        read.append(reader.num_rows)
        return read_batches(reader, *arguments, **options)

    monkeypatch.setattr(FileReader, "read_batches", counted)
    monkeypatch.setattr(FragmentReader, "_is_cheap_to_join", lambda *_: True)
    assert dataset.delete("a in (1, 4)") == {"num_deleted_rows": 4}
    assert read == [17]
    assert _values(dataset) == [0, 2, 3, *range(5, 12), 0, 2, 3]
    assert [fragment.num_deletions for fragment in dataset.get_fragments()] == [1, 1, 0, 0, 0, 0]
    assert dataset.delete("a in (2, 5)") == {"num_deleted_rows": 3}
    assert _values(dataset) == [0, 3, *range(6, 12), 0, 3]
    dataset.validate()


@pytest.mark.parametrize(("num_rows", "kind"), [(1, "arrow"), (4999, "arrow"), (5000, "bin")])
def test_deletion_file_type_depends_on_the_number_of_deleted_rows(uri: str, num_rows: int, kind: str) -> None:
    dataset = lance_core.write_dataset(pa.table({"a": range(12_000)}), uri)
    dataset.delete(f"a < {num_rows}")
    [fragment] = dataset.get_fragments()
    assert fragment.deletion_file().endswith(f".{kind}")
    # The new file may contain one more row.
    dataset.delete("a = 11000")
    [fragment] = dataset.get_fragments()
    assert fragment.deletion_file().endswith(f".{kind}")
    dataset.delete("a = 11001")
    [fragment] = dataset.get_fragments()
    assert fragment.deletion_file().endswith(".arrow" if num_rows == 1 else ".bin")
    assert dataset.count_rows() == 12_000 - num_rows - 2


def test_fragment_delete_returns_metadata_for_a_later_commit(dataset: lance_core.LanceDataset, uri: str) -> None:
    first, second, third = dataset.get_fragments()
    changed = first.delete("a < 2")
    assert changed.num_deletions == 2
    assert second.delete("a > 100") == second.metadata
    assert third.delete("true") is None
    assert dataset.latest_version == 1
    operation = lance_core.LanceOperation.Delete([changed], [third.fragment_id], "a < 2 or a >= 8")
    assert _values(lance_core.LanceDataset.commit(uri, operation, read_version=1)) == [2, 3, 4, 5, 6, 7]


def test_delete_planned_on_a_cleaned_up_version_is_planned_again(dataset: lance_core.LanceDataset, uri: str) -> None:
    others = lance_core.dataset(uri)
    others.optimize.compact_files()
    others.cleanup_old_versions(older_than=timedelta(0))
    dataset.delete("a = 5")
    assert _values(dataset) == [value for value in range(12) if value != 5]


def test_delete_on_the_latest_version_fails_if_a_data_file_is_missing(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    missing = next(each.path for each in store.list("table/data"))
    store.delete(missing)
    with pytest.raises(NotFoundError, match=missing.rpartition("/")[2]):
        dataset.delete("a >= 0 and b like '%1%'")


def test_append_from_an_old_version_is_planned_again_if_later_versions_were_cleaned_up(uri: str) -> None:
    behind = lance_core.write_dataset(ROWS, uri)
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append")
    lance_core.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
    made = lance_core.write_dataset(ROWS.slice(0, 1), behind, mode="append")
    assert (made.version, made.count_rows()) == (5, 49)


def test_append_after_a_cleaned_up_schema_change_is_refused(uri: str) -> None:
    behind = lance_core.write_dataset(ROWS, uri)
    lance_core.write_dataset(ROWS.rename_columns(["a", "c"]), uri, mode="overwrite")
    lance_core.write_dataset(ROWS.rename_columns(["a", "c"]), uri, mode="append")
    lance_core.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises((SchemaMismatchError, RetryableCommitConflictError)):
        lance_core.write_dataset(ROWS.slice(0, 1), behind, mode="append")
    assert lance_core.dataset(uri).count_rows() == 24


def test_config_change_from_an_old_version_is_retryable_if_later_versions_were_cleaned_up(uri: str) -> None:
    behind = lance_core.write_dataset(ROWS, uri)
    for _ in range(3):
        lance_core.write_dataset(ROWS, uri, mode="append")
    lance_core.dataset(uri).cleanup_old_versions(older_than=timedelta(0))
    with pytest.raises(RetryableCommitConflictError, match="version 2 was removed"):
        behind.update_config({"key": "value"})
    behind.checkout_latest()
    behind.update_config({"key": "value"})


def test_delete_planner_searches_a_fragment_again_only_after_the_fragment_or_the_columns_changed(
    dataset: lance_core.LanceDataset, uri: str, store: CountingStore
) -> None:
    planner = DeletePlanner("b = 'row 5'")
    assert planner.plan(dataset.view, dataset.view.fragments).rows_deleted == 1
    lance_core.write_dataset(ROWS, uri, mode="append", max_rows_per_file=4)
    latest = lance_core.dataset(uri)
    old = {file.path for each in dataset.get_fragments() for file in each.metadata.files}
    store.calls.clear()
    store.reads.clear()
    assert planner.plan(latest.view, latest.view.fragments).rows_deleted == 2
    assert not [path for path in old if path in str(store.calls) + str(store.reads)]
    DeletePlanner("b = 'row 5'").plan(latest.view, latest.view.fragments)
    assert all(path in str(store.calls) + str(store.reads) for path in old)
    kept = latest.lance_schema.__class__(fields=latest.lance_schema.fields[:1])
    latest = lance_core.LanceDataset.commit(latest, lance_core.LanceOperation.Project(kept), latest.version)
    latest.add_columns(pa.field("b", pa.string()))
    assert planner.plan(latest.view, latest.view.fragments).rows_deleted == 0
