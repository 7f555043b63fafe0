"""A cleanup is killed (``kill -9``) at every store call: all versions to be kept are intact, and the next cleanup
finishes the work.

A dry run lists the calls. For each of them a forked child cleans up the same table and kills itself there.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy
from lance_core.cleanup.pacing import Stride
from lance_core.cleanup.plan import plan_for
from lance_core.io.local_store import LocalStore
from lance_core.table.version_log import VersionLog
from tests.support.aged_table import (
    AgedTable,
    append,
    branch,
    compact,
    create,
    delete,
    index,
    on_branch,
    overwrite,
    tag,
)
from tests.support.faulty_store import Call, FaultyStore, no_fault

# With one thread, the calls have the same order in each run.
POLICY = CleanupPolicy.of(retain_versions=2, error_if_tagged_old_versions=False, delete_concurrency=1)


@pytest.fixture(autouse=True)
def steady_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the calls of each run the same, regardless of their speed."""
    monkeypatch.setattr(Stride, "finish", lambda stride, actions: setattr(stride, "length", 6))


@pytest.fixture
def table(tmp_path: Path) -> AgedTable:
    table = AgedTable(tmp_path / "table")
    steps: list[Callable[[AgedTable], object]] = [create, append, delete, index, overwrite, append, delete, compact]
    for number, action in enumerate(steps):
        table.step(40 - number, action)
    table.step(1, tag("kept", 2))
    table.step(1, branch("b", 4))
    table.step(1, on_branch("b", lambda handle: handle.delete("a = 1")))
    table.put("data/abandoned.lance", 30)
    table.put("data/notes.txt", 30)
    table.save()
    return table


def _clean(table: AgedTable, fault: Callable[[Call], None] = no_fault) -> FaultyStore:
    store = FaultyStore(LocalStore(), fault=fault)
    log = VersionLog(store, table.uri)
    latest = log.latest()
    assert latest is not None
    store.calls.clear()
    plan_for(log, log.read(latest), POLICY).execute()
    return store


def _killed_at(table: AgedTable, number: int) -> bool:
    """Clean up in a child that is killed before the call with this number; return whether the call was reached."""
    child = os.fork()
    if child == 0:
        try:
            _clean(table, lambda call: os.kill(os.getpid(), signal.SIGKILL) if call.index == number else None)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _check_kept(table: AgedTable, kept: list[int], rows: dict[int, object]) -> None:
    for version in kept:
        theirs = lance.dataset(table.uri, version=version)
        theirs.validate()
        assert theirs.to_table().equals(rows[version])
        assert lance_core.dataset(table.uri, version=version).to_table().equals(rows[version])
    assert lance.dataset(table.uri).checkout_version(("b", None)).count_rows() == 26
    assert lance_core.dataset(table.uri).tags.get_version("kept") == 2


@pytest.mark.slow
def test_a_cleanup_killed_at_any_call_is_finished_by_the_next_cleanup(table: AgedTable) -> None:
    latest = lance.dataset(table.uri).version
    calls = _clean(table).calls
    done = table.files()
    kept = [each["version"] for each in lance_core.dataset(table.uri).version_refs()]
    assert kept == [2, 4, latest - 1, latest]
    rows = {version: lance.dataset(table.uri, version=version).to_table() for version in kept}
    assert {call.method for call in calls} >= {"delete", "get", "list_names", "list_recursive"}
    for number in range(len(calls)):
        table.go_back()
        assert _killed_at(table, number)
        # The table remains usable: no leftover blocks writers or misleads readers.
        if calls[number].method == "delete":
            _check_kept(table, kept, rows)
        _clean(table)
        assert table.files() == done
    _check_kept(table, kept, rows)


@pytest.mark.slow
def test_pylance_finishes_a_killed_cleanup(table: AgedTable) -> None:
    calls = _clean(table).calls
    done = table.files()
    deletes = [call.index for call in calls if call.method == "delete"]
    for number in deletes[:: max(1, len(deletes) // 8)]:
        table.go_back()
        assert _killed_at(table, number)
        lance.dataset(table.uri).cleanup_old_versions(retain_versions=2, error_if_tagged_old_versions=False)
        left = table.files()
        # It keeps fewer files of the version from which the branch was created.
        assert left <= done
        assert not {path for path in done - left if not path.startswith(("_transactions/", "_indices/", "_deletions/"))}
