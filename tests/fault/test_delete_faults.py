"""Every store call of a delete fails once, or is the last call before the process is killed.

A dry run lists the calls. Then, for each of them, the delete runs on a fresh table whose store fails there. Whatever
happens, the table opens at the old or the new version with the rows of that version, the next delete succeeds, and no
deletion file is missing.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, LanceError
from lance_core.io.local_store import LocalStore
from lance_core.io.uri import register_store, unregister_store
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at, no_fault

URI = "memory://faulty/table"
ROWS = pa.table({"a": pa.array(range(12), pa.int64())})
BEFORE = [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]
PREDICATE = "a in (1, 4, 6, 7) or a = 9"
AFTER = [0, 2, 3, 8, 10, 11]


class Killed(BaseException):
    """The process is killed here, without any cleanup."""


class Bench:
    """Creates a new table for each run: three fragments of four rows, of which one is deleted."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "table"

    def fresh(self) -> tuple[FaultyStore, lance_core.LanceDataset]:
        shutil.rmtree(self.path, ignore_errors=True)
        store = FaultyStore(LocalStore())
        register_store("faulty", store)
        lance_core.write_dataset(ROWS, URI, max_rows_per_file=4)
        dataset = lance_core.dataset(URI)
        dataset.delete("a = 5")
        store.calls.clear()
        return store, dataset

    def run(self, fault: Fault, *, retryable: bool = False) -> tuple[FaultyStore, BaseException | None]:
        """Delete with this fault; return the store and the exception."""
        store, dataset = self.fresh()
        store.fault, store.retryable = fault, retryable
        raised: BaseException | None = None
        try:
            dataset.delete(PREDICATE)
        except (LanceError, Killed) as error:
            raised = error
        finally:
            store.fault = no_fault
        return store, raised

    def check(self, raised: BaseException | None) -> None:
        """Check that the table is at the old or the new version, and that the delete can be repeated."""
        dataset = lance_core.dataset(URI)
        state = (dataset.version, dataset.to_table()["a"].to_pylist())
        assert state in [(2, BEFORE), (3, AFTER)]
        dataset.validate()
        if raised is None:
            assert state[0] == 3
        elif isinstance(raised, LanceError) and not isinstance(raised, CommitOutcomeUnknownError):
            assert state[0] == 2
        dataset.delete(PREDICATE)
        assert dataset.to_table()["a"].to_pylist() == AFTER
        reference = lance.dataset(str(self.path))
        reference.validate()
        assert reference.to_table()["a"].to_pylist() == AFTER


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    # Paths of the memory scheme are relative, so that a local store below it works in this directory.
    monkeypatch.chdir(tmp_path)
    yield Bench(tmp_path)
    unregister_store("faulty")


def _calls(bench: Bench) -> list[Call]:
    store, raised = bench.run(no_fault)
    assert raised is None
    calls = list(store.calls)
    assert len([call for call in calls if call.method == "put" and "_deletions" in call.path]) == 2
    return calls


@pytest.mark.parametrize("retryable", [False, True], ids=["final", "retryable"])
@pytest.mark.sampled(1)
def test_a_delete_with_one_failed_call_leaves_the_old_or_new_version(bench: Bench, retryable: bool) -> None:
    for call in _calls(bench):
        for when in When:
            store, raised = bench.run(fault_at(call.index, when), retryable=retryable)
            assert not isinstance(raised, CommitOutcomeUnknownError)
            if call.method == "put" and "_deletions" in call.path:
                # The written files were removed; a file whose response was lost may remain.
                left = [info.path for info in store.inner.list("table/_deletions")]
                assert len(left) <= (1 if when is When.BEFORE else 2)
            bench.check(raised)


@pytest.mark.slow
def test_a_delete_killed_at_any_call_leaves_the_old_or_new_version(bench: Bench) -> None:
    for call in _calls(bench):
        for after in (False, True):

            def kill(now: Call, index: int = call.index, after: bool = after) -> None:
                # "After" a call is before the next one.
                if now.index == index + after:
                    raise Killed

            _, raised = bench.run(kill)
            bench.check(raised)


def test_a_delete_killed_before_its_commit_leaves_the_old_version(bench: Bench) -> None:
    def kill(call: Call) -> None:
        if call.method == "put_if_absent":
            raise Killed

    store, raised = bench.run(kill)
    assert isinstance(raised, Killed)
    assert len(list(store.inner.list("table/_deletions"))) == 3
    dataset = lance_core.dataset(URI)
    assert (dataset.version, dataset.to_table()["a"].to_pylist()) == (2, BEFORE)
    bench.check(raised)


def test_a_delete_with_an_unknown_outcome_removes_no_file(bench: Bench) -> None:
    created: list[str] = []

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            created.append(call.path)
            return When.AFTER
        return When.BEFORE if created and call.path in created else None

    store, raised = bench.run(fault)
    assert isinstance(raised, CommitOutcomeUnknownError)
    assert not [call for call in store.calls if call.method == "delete"]
    dataset = lance_core.dataset(URI)
    assert (dataset.version, dataset.to_table()["a"].to_pylist()) == (3, AFTER)
    bench.check(raised)
