"""Every store call of a commit that merges deletes fails once, before and after it takes effect.

Another delete of other rows is committed after the commit was planned. Whatever happens, the table opens at the old or
the new version with the rows of that version, and no version refers to a missing file.
"""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core.commit.commit import commit
from lance_core.errors import CommitOutcomeUnknownError, LanceError
from lance_core.io.local_store import LocalStore
from lance_core.io.memory_store import MemoryStore
from lance_core.io.uri import register_store
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.transaction import Transaction
from tests.support.deletes import planned_delete
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at, no_fault

URI = "memory://faulty/table"
ROWS = pa.table({"a": pa.array(range(8), pa.int64())})
MINE = {0: BitMap([1]), 1: BitMap([2, 3])}
BEFORE = [1, 2, 3, 6, 7]
AFTER = [2, 3]
"""Ours hides rows 1, 6 and 7; together with theirs, fragment 1 has no row left."""


class Bench:
    """Creates a new table with another writer's delete, in one kind of store, for each run."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.store = FaultyStore(MemoryStore())

    def fresh(self) -> Transaction:
        """Return version 2 and the stale delete that is committed after it."""
        shutil.rmtree(self.directory / "table", ignore_errors=True)
        self.store = FaultyStore(MemoryStore() if self.kind == "memory" else LocalStore())
        register_store("faulty", self.store)
        lance_core.write_dataset(ROWS, URI, max_rows_per_file=4)
        log = lance_core.dataset(URI).log
        stale = planned_delete(log, 1, MINE)
        commit(log, planned_delete(log, 1, {0: BitMap([0]), 1: BitMap([0, 1])}), CommitOptions())
        self.store.calls.clear()
        return stale

    def run(self, fault: Fault, *, retryable: bool, max_retries: int = 3) -> LanceError | None:
        stale = self.fresh()
        return self.commit(stale, fault, retryable=retryable, max_retries=max_retries)

    def commit(self, stale: Transaction, fault: Fault, *, retryable: bool, max_retries: int = 3) -> LanceError | None:
        log = lance_core.dataset(URI).log
        self.store.calls.clear()
        self.store.fault, self.store.retryable = fault, retryable
        try:
            commit(log, stale, CommitOptions(affected_rows=MINE, max_retries=max_retries))
        except LanceError as error:
            return error
        finally:
            self.store.fault = no_fault
        return None

    def check(self, raised: LanceError | None) -> None:
        dataset = lance_core.dataset(URI)
        version, rows = dataset.version, dataset.to_table()["a"].to_pylist()
        dataset.validate()
        assert (version, rows) in [(2, BEFORE), (3, AFTER)]
        if raised is None:
            assert version == 3
        elif not isinstance(raised, CommitOutcomeUnknownError):
            assert version == 2

    def names(self, directory: str) -> set[str]:
        return {info.path.rpartition("/")[2] for info in self.store.inner.list(f"table/{directory}")}


@pytest.fixture
def bench(faulty_kind: str, tmp_path: Path) -> Bench:
    return Bench(faulty_kind, tmp_path)


@pytest.mark.parametrize("retryable", [False, True], ids=["final", "retryable"])
@pytest.mark.sampled(2)
def test_a_merged_delete_with_one_failed_call_leaves_the_old_or_new_version(bench: Bench, retryable: bool) -> None:
    assert bench.run(no_fault, retryable=False) is None
    bench.check(None)
    calls = list(bench.store.calls)
    # Only one merged file, because the other fragment is dropped.
    assert len([call for call in calls if call.method == "put" and "_deletions" in call.path]) == 1
    for call in calls:
        for when in When:
            raised = bench.run(fault_at(call.index, when), retryable=retryable)
            bench.check(raised)
            assert not isinstance(raised, CommitOutcomeUnknownError)
            if call.method == "put_if_absent" and (when is When.AFTER or retryable):
                assert raised is None


def test_a_merged_delete_whose_store_becomes_unavailable_leaves_the_old_or_new_version(bench: Bench) -> None:
    assert bench.run(no_fault, retryable=False) is None
    for index in range(len(bench.store.calls)):
        raised = bench.run(lambda call, index=index: When.BEFORE if call.index >= index else None, retryable=False)
        bench.check(raised)


def test_a_merged_delete_retried_until_it_succeeds_is_committed_once(bench: Bench) -> None:
    assert bench.run(no_fault, retryable=False) is None
    for call in list(bench.store.calls):
        for when in When:
            stale = bench.fresh()
            raised = bench.commit(stale, fault_at(call.index, when), retryable=False)
            if raised is not None:
                assert bench.commit(stale, no_fault, retryable=False) is None
            bench.check(None)
            own = [name for name in bench.names("_transactions") if stale.uuid in name]
            assert own == [f"2-{stale.uuid}.txn"]


def test_a_merged_delete_with_an_unknown_outcome_removes_no_file(bench: Bench) -> None:
    created: list[str] = []

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            created.append(call.path)
            return When.AFTER
        return When.BEFORE if call.path in created else None

    raised = bench.run(fault, retryable=False)
    assert isinstance(raised, CommitOutcomeUnknownError)
    assert not [call for call in bench.store.calls if call.method == "delete"]
    bench.check(raised)
