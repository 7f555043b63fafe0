"""A compaction that fails or is killed at any store call leaves the old or the new fragments, with the same rows.

A dry run counts the calls. Then every call fails in turn, before or after it takes effect, and a child process is
killed at every call. Both are repeated with a concurrent writer that causes a conflict with one of the two groups.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import CommitOutcomeUnknownError, LanceError, RetryableCommitConflictError
from lance_core.io.local_store import LocalStore
from tests.support.faulty_store import Call, Fault, FaultyStore, When, fault_at
from tests.support.faulty_tables import fresh, through

TARGET = {"target_rows_per_fragment": 20}
ROWS = [number for number in range(50) if number not in (3, 12)]
RIVAL_ROW = 5


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A table of five fragments, two of them with a deleted row, which are compacted by two tasks."""
    uri = tmp_path / "source"
    for number in range(5):
        numbers = pa.array(range(number * 10, number * 10 + 10))
        lance_core.write_dataset(pa.table({"a": numbers}), uri, mode="append")
    lance.dataset(str(uri)).delete("a in (3, 12)")
    return uri


class Rival:
    """Another writer: deletes a row of the first group as soon as a new data file is complete."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.acted_at: int | None = None

    def __call__(self, call: Call) -> None:
        if call.method == "commit" and self.acted_at is None:
            self.acted_at = call.index
            lance_core.dataset(self.root).delete(f"a = {RIVAL_ROW}")

    @property
    def rows(self) -> list[int]:
        """Return the rows that the table must contain."""
        return ROWS if self.acted_at is None else [number for number in ROWS if number != RIVAL_ROW]


def calls_of(source: Path) -> list[Call]:
    store = FaultyStore(LocalStore())
    dataset = through(store, fresh(source))
    store.calls.clear()
    dataset.optimize.compact_files(**TARGET)
    return store.calls


def calls_with_rival(source: Path) -> tuple[list[Call], int]:
    """Return the calls, and the call at which the other writer acts."""
    root = fresh(source)
    store = FaultyStore(LocalStore())
    dataset = through(store, root)
    store.calls.clear()
    store.fault = rival = Rival(root)
    dataset.optimize.compact_files(**TARGET)
    assert rival.acted_at is not None
    assert len([call for call in store.calls if call.method == "put_if_absent"]) == 4
    return store.calls, rival.acted_at


def check(root: Path, rows: list[int] = ROWS) -> None:
    """Check that both libraries read the correct rows, and that the next run finishes."""
    assert referenced(root) <= {path.name for path in (root / "data").iterdir()}
    assert sorted(lance_core.dataset(root).to_table()["a"].to_pylist()) == rows
    lance.dataset(str(root)).validate()
    dataset = lance_core.dataset(root)
    dataset.optimize.compact_files(**TARGET)
    assert len(dataset.get_fragments()) == 2
    assert sorted(lance.dataset(str(root)).to_table()["a"].to_pylist()) == rows
    lance.dataset(str(root)).validate()
    dataset.validate()
    assert lance.write_dataset(pa.table({"a": [-1]}), str(root), mode="append").count_rows() == len(rows) + 1


def referenced(root: Path) -> set[str]:
    """Return the data files of all versions."""
    log = lance_core.dataset(root).log
    return {
        file.path
        for name in log.newer_than(0)
        for fragment in log.read(name).message.fragments
        for file in fragment.files
    }


@pytest.mark.slow
@pytest.mark.parametrize("when", list(When))
def test_a_compaction_with_one_failed_call_leaves_old_or_new_rows(source: Path, when: When) -> None:
    calls = calls_of(source)
    assert {"create", "write", "commit", "put", "put_if_absent", "get", "get_ranges", "list_names"} <= {
        call.method for call in calls
    }
    reserved = next(call.index for call in calls if call.method == "put_if_absent")
    outcomes = set()
    for call in calls:
        root = fresh(source)
        store = FaultyStore(LocalStore())
        dataset = through(store, root)
        store.calls.clear()
        store.fault = fault_at(call.index, when)
        try:
            dataset.optimize.compact_files(**TARGET)
            outcomes.add("done")
        except CommitOutcomeUnknownError:
            outcomes.add("unknown")
        except LanceError:
            outcomes.add("failed")
            files = {path.name for path in (root / "data").iterdir()}
            if call.index > reserved:
                # The commit of the rewrite may have been requested, so that its files are left to a cleanup.
                check(root)
                continue
            # After a definite failure, no unreferenced file remains, regardless of the failed call.
            # The temporary file of a stream whose opening failed afterward is left to a cleanup.
            lost_stream = {name for name in files if name.startswith(".tmp") and call.method == "create"}
            assert files - lost_stream == referenced(root), call
        check(root)
    assert {"done", "failed"} <= outcomes


@pytest.mark.slow
@pytest.mark.parametrize("when", list(When))
def test_a_compaction_with_a_failed_call_after_a_conflict_keeps_committed_files(source: Path, when: When) -> None:
    """Other groups are already committed, and their files remain regardless of later failures."""
    calls, acted_at = calls_with_rival(source)
    outcomes = set()
    for call in calls[acted_at:]:
        root = fresh(source)
        store = FaultyStore(LocalStore())
        dataset = through(store, root)
        store.calls.clear()
        rival, fault = Rival(root), fault_at(call.index, when)

        def fail(found: Call, rival: Rival = rival, fault: Fault = fault) -> When | None:
            rival(found)
            return fault(found)

        store.fault = fail
        try:
            dataset.optimize.compact_files(**TARGET)
            outcomes.add("done")
        except LanceError as error:
            # The error contains what was committed before.
            outcomes.add("failed after a part" if getattr(error, "__notes__", None) else "failed")
        check(root, rival.rows)
    assert outcomes == {"done", "failed", "failed after a part"}


def test_a_compaction_with_an_unknown_outcome_removes_no_file(source: Path) -> None:
    """The last version is created, but the response is lost, and the outcome cannot be determined."""
    root = fresh(source)
    store = FaultyStore(LocalStore(), retryable=False)
    creates: list[int] = []

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            creates.append(call.index)
            return When.AFTER if len(creates) == 2 else None
        is_looking_up = len(creates) == 2 and call.method in ("get", "head") and "_versions" in call.path
        return When.BEFORE if is_looking_up else None

    dataset = through(store, root)
    store.fault = fault
    with pytest.raises(CommitOutcomeUnknownError):
        dataset.optimize.compact_files(**TARGET)
    assert not [call for call in store.calls if call.method == "delete"]
    assert len(lance.dataset(str(root)).get_fragments()) == 2
    check(root)


def _in_child(action: Callable[[], object]) -> int:
    """Run in a forked child, and return the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            # The child must not run pytest's cleanup or flush its output.
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.slow
def test_a_compaction_killed_at_any_call_leaves_old_or_new_rows(source: Path) -> None:
    """The process is killed before each call and after the last one."""
    calls = calls_of(source)
    for index in range(len(calls) + 1):
        root = fresh(source)

        def compact_until(root: Path = root, index: int = index) -> None:
            store = KilledStore(LocalStore(), index)
            dataset = through(store, root)
            store.calls.clear()
            store.is_armed = True
            dataset.optimize.compact_files(**TARGET)
            os.kill(os.getpid(), signal.SIGKILL)

        assert _in_child(compact_until) == signal.SIGKILL, index
        check(root)


@pytest.mark.slow
def test_a_compaction_killed_after_a_conflict_leaves_old_or_new_rows(source: Path) -> None:
    calls, acted_at = calls_with_rival(source)
    for index in range(acted_at + 1, len(calls) + 1):
        root = fresh(source)

        def compact_until(root: Path = root, index: int = index) -> None:
            store = KilledStore(LocalStore(), index)
            dataset = through(store, root)
            store.calls.clear()
            store.fault = Rival(root)
            store.is_armed = True
            dataset.optimize.compact_files(**TARGET)
            os.kill(os.getpid(), signal.SIGKILL)

        assert _in_child(compact_until) == signal.SIGKILL, index
        check(root, [number for number in ROWS if number != RIVAL_ROW])


class KilledStore(FaultyStore):
    """A store that kills its process before one call."""

    def __init__(self, inner: LocalStore, index: int) -> None:
        super().__init__(inner)
        self._index = index
        self.is_armed = False

    def run(self, method: str, path: str, action: Callable[[], object]):
        if self.is_armed and len(self.calls) == self._index:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(method, path, action)


def at_the_first_manifest(act: Callable[[], object]) -> Fault:
    """Let another writer act just before the compaction creates its first manifest, which reserves ids."""
    waiting = [act]

    def fault(call: Call) -> None:
        if call.method == "put_if_absent" and waiting:
            waiting.pop()()

    return fault


def test_a_reservation_that_conflicts_with_a_restore_is_repeated(source: Path) -> None:
    store = FaultyStore(LocalStore())
    dataset = through(store, source)
    store.fault = at_the_first_manifest(lambda: lance_core.dataset(source).restore())
    dataset.optimize.compact_files(**TARGET)
    assert len(dataset.get_fragments()) == 2
    assert {path.name for path in (source / "data").iterdir()} == referenced(source)
    check(source)


def test_a_reservation_that_conflicts_with_an_overwrite_removes_the_new_files(source: Path) -> None:
    store = FaultyStore(LocalStore())
    dataset = through(store, source)
    rows = pa.table({"a": [7]})
    store.fault = at_the_first_manifest(lambda: lance_core.write_dataset(rows, source, mode="overwrite"))
    with pytest.raises(RetryableCommitConflictError):
        dataset.optimize.compact_files(**TARGET)
    assert {path.name for path in (source / "data").iterdir()} == referenced(source)
    assert lance_core.dataset(source).to_table().equals(rows)
