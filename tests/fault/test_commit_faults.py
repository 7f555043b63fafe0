"""Every store call of every operation fails once, before and after it takes effect.

A dry run lists the calls. Then, for each of them, the operation runs on a fresh table whose store fails at that call.
Whatever happens, the table opens at the old or the new version, with the rows of that version.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core import LanceOperation
from lance_core.commit.commit import commit
from lance_core.errors import CommitOutcomeUnknownError, DatasetNotFoundError, LanceError
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import ObjectStore
from lance_core.io.uri import register_store
from lance_core.public.fragment_conversion import fragment_to_record
from lance_core.table.paths import HOLD_PREFIX
from lance_core.transactions.operations.update import Update
from lance_core.transactions.options import CommitOptions
from tests.support.deletes import planned_delete
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at, no_fault

URI = "memory://faulty/table"
OLD = pa.table({"a": pa.array([1, 2, 3], pa.int64())})
NEW = pa.table({"a": pa.array([4, 5], pa.int64())})

OPERATIONS: dict[str, tuple[Callable[[], object], bool, list[int]]] = {
    # name: (operation, whether the table exists before it, rows after it)
    "create": (lambda: lance_core.write_dataset(NEW, URI, mode="create"), False, [4, 5]),
    "append": (lambda: lance_core.write_dataset(NEW, URI, mode="append"), True, [1, 2, 3, 4, 5]),
    "append, first": (lambda: lance_core.write_dataset(NEW, URI, mode="append"), False, [4, 5]),
    "overwrite": (lambda: lance_core.write_dataset(NEW, URI, mode="overwrite"), True, [4, 5]),
    "commit": (lambda: _commit_fragments(), True, [1, 2, 3, 4, 5]),
    "delete": (lambda: _delete(), True, [1, 3]),
    "rewrite": (lambda: _rewrite(), True, [1, 2, 3]),
    "reserve": (lambda: _commit(LanceOperation.ReserveFragments(2)), True, [1, 2, 3]),
    "settings": (lambda: lance_core.dataset(URI).update_config({"k": "v"}), True, [1, 2, 3]),
    "restore": (lambda: lance_core.dataset(URI).restore(), True, [1, 2, 3]),
    "update": (lambda: _update(), True, [1, 3, 4, 5]),
    "merge": (lambda: _merge(), True, [1, 2, 3]),
}


WITHOUT_DATA_FILES = ("delete", "reserve", "settings", "restore", "merge")


def _commit(operation: LanceOperation.BaseOperation) -> object:
    return lance_core.LanceDataset.commit(URI, operation, read_version=1)


def _commit_fragments() -> object:
    return _commit(LanceOperation.Append(lance_core.write_fragments(NEW, URI)))


def _delete() -> object:
    rows = {0: BitMap([1])}
    log = lance_core.dataset(URI).log
    return commit(log, planned_delete(log, 1, rows), CommitOptions(affected_rows=rows))


def _update() -> object:
    """Replace row 2 with rows 4 and 5."""
    rows = {0: BitMap([1])}
    log = lance_core.dataset(URI).log
    planned = planned_delete(log, 1, rows)
    new = tuple(map(fragment_to_record, lance_core.write_fragments(NEW, URI)))
    operation = Update(updated_fragments=planned.operation.updated_fragments, new_fragments=new)
    return commit(log, replace(planned, operation=operation), CommitOptions(affected_rows=rows))


def _merge() -> object:
    dataset = lance_core.dataset(URI)
    column = lance_core.Field(id=7, name="z", logical_type="int32")
    schema = replace(dataset.lance_schema, fields=(*dataset.lance_schema.fields, column))
    return _commit(LanceOperation.Merge([each.metadata for each in dataset.get_fragments()], schema))


def _rewrite() -> object:
    old = [fragment.metadata for fragment in lance_core.dataset(URI).get_fragments()]
    return _commit(LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, lance_core.write_fragments(OLD, URI))], []))


class Bench:
    """Creates a new table in one kind of store for each run."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory

    def run(self, operation: str, fault: Fault, *, retryable: bool) -> tuple[FaultyStore, LanceError | None]:
        """Run an operation on a new table with this fault; return the store and the exception."""
        action, exists, _ = OPERATIONS[operation]
        store = self._fresh(exists)
        store.fault, store.retryable = fault, retryable
        try:
            action()
        except LanceError as error:
            raised: LanceError | None = error
        else:
            raised = None
        finally:
            store.fault = no_fault
        return store, raised

    def _fresh(self, exists: bool) -> FaultyStore:
        inner: ObjectStore = MemoryStore() if self.kind == "memory" else LocalStore()
        shutil.rmtree(self.directory / "table", ignore_errors=True)
        store = FaultyStore(inner)
        register_store("faulty", store)
        if exists:
            lance_core.write_dataset(OLD, URI)
        store.calls.clear()
        return store


@pytest.fixture
def bench(faulty_kind: str, tmp_path: Path) -> Bench:
    return Bench(faulty_kind, tmp_path)


def _check_outcome(operation: str, store: FaultyStore, raised: LanceError | None) -> None:
    _, exists, rows_after = OPERATIONS[operation]
    version_before, rows_before = (1, [1, 2, 3]) if exists else (0, [])
    try:
        dataset = lance_core.dataset(URI)
        version, rows = dataset.version, dataset.to_table()["a"].to_pylist()
        dataset.validate()
    except DatasetNotFoundError:
        version, rows = 0, []
    assert (version, rows) in [(version_before, rows_before), (version_before + 1, rows_after)]
    if raised is None:
        assert version == version_before + 1
    elif not isinstance(raised, CommitOutcomeUnknownError):
        assert version == version_before


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("retryable", [False, True], ids=["final", "retryable"])
@pytest.mark.sampled(8)
def test_an_operation_with_one_failed_call_leaves_the_old_or_new_version(
    bench: Bench, operation: str, retryable: bool
) -> None:
    store, raised = bench.run(operation, no_fault, retryable=False)
    assert raised is None
    calls = list(store.calls)
    methods = {"list_names", "put", "put_if_absent"} | (
        set() if operation in WITHOUT_DATA_FILES else {"create", "commit"}
    )
    assert methods <= {call.method for call in calls}
    for call in calls:
        for when in When:
            store, raised = bench.run(operation, fault_at(call.index, when), retryable=retryable)
            _check_outcome(operation, store, raised)
            assert not isinstance(raised, CommitOutcomeUnknownError)
            if call.method == "put_if_absent" and (when is When.AFTER or retryable):
                # A lost response is detected, and repeatable requests are repeated.
                assert raised is None


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("when", list(When))
@pytest.mark.sampled(16)
def test_a_commit_whose_result_cannot_be_read_raises_outcome_unknown(bench: Bench, operation: str, when: When) -> None:
    created: list[str] = []

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            created.append(call.path)
            return when
        return When.BEFORE if created and call.path in created else None

    store, raised = bench.run(operation, fault, retryable=False)
    assert isinstance(raised, CommitOutcomeUnknownError)
    assert not _removed(store.calls)
    _check_outcome(operation, store, raised)
    transactions = list(store.inner.list(store.join("table", "_transactions")))
    assert len(transactions) == (2 if OPERATIONS[operation][1] else 1)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.sampled(7)
def test_an_operation_whose_store_becomes_unavailable_leaves_the_old_or_new_version(
    bench: Bench, operation: str
) -> None:
    """The network fails permanently at some call."""
    store, _ = bench.run(operation, no_fault, retryable=False)
    for index in range(len(store.calls)):
        store, raised = bench.run(
            operation, lambda call, index=index: When.BEFORE if call.index >= index else None, retryable=False
        )
        _check_outcome(operation, store, raised)
        assert not _removed(store.calls[:index])


def _removed(calls: list[Call]) -> list[str]:
    """Return the removed files, except the mark of a version that is being restored."""
    return [call.path for call in calls if call.method == "delete" and HOLD_PREFIX not in call.path]


@pytest.mark.parametrize("retryable", [False, True], ids=["final", "retryable"])
@pytest.mark.sampled(2)
def test_a_transaction_retried_until_it_succeeds_is_committed_once(bench: Bench, retryable: bool) -> None:
    """The commit is retried from outside, after a failure at each call of its first run."""
    dry = bench._fresh(exists=True)
    first = lance_core.write_fragments(NEW, URI, return_transaction=True)
    dry.calls.clear()
    lance_core.LanceDataset.commit(URI, first)
    calls = list(dry.calls)
    for call in calls:
        for when in When:
            store = bench._fresh(exists=True)
            transaction = lance_core.write_fragments(NEW, URI, return_transaction=True)
            store.calls.clear()
            store.fault, store.retryable = fault_at(call.index, when), retryable
            made = None
            while made is None:
                try:
                    made = lance_core.LanceDataset.commit(URI, transaction)
                except LanceError:
                    store.fault = no_fault
            assert made.version == 2
            assert lance_core.dataset(URI).to_table()["a"].to_pylist() == [1, 2, 3, 4, 5]


def test_data_files_of_a_failed_write_are_removed_when_no_commit_was_attempted(bench: Bench) -> None:
    dry, _ = bench.run("append", no_fault, retryable=False)
    for call in dry.calls:
        if call.method not in ("create", "write", "commit"):
            continue
        store, raised = bench.run("append", fault_at(call.index, When.BEFORE), retryable=False)
        assert raised is not None
        assert len(list(store.inner.list(store.join("table", "data")))) == 1
