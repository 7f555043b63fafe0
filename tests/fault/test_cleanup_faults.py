"""Every store call of a cleanup fails once, before or after it takes effect: no file that must be kept is lost."""

from pathlib import Path

import lance
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy
from lance_core.cleanup.pacing import Stride
from lance_core.cleanup.plan import plan_for
from lance_core.cleanup.records import CleanupStats
from lance_core.errors import LanceError
from lance_core.io.local_store import LocalStore
from lance_core.table.version_log import VersionLog
from tests.support.aged_table import AgedTable, append, compact, create, delete, index, overwrite, tag
from tests.support.faulty_store import Fault, FaultyStore, When, fault_at, no_fault

POLICY = CleanupPolicy.of(retain_versions=2, error_if_tagged_old_versions=False, delete_concurrency=1)


@pytest.fixture
def table(tmp_path: Path) -> AgedTable:
    table = AgedTable(tmp_path / "table")
    for number, action in enumerate([create, append, delete, index, overwrite, append, delete, compact]):
        table.step(40 - number, action)
    table.step(1, tag("kept", 3))
    table.put("_transactions/abandoned.txn", 50)
    table.save()
    return table


def _clean(table: AgedTable, fault: Fault = no_fault) -> tuple[FaultyStore, CleanupStats | LanceError]:
    store = FaultyStore(LocalStore())
    log = VersionLog(store, table.uri)
    latest = log.latest()
    assert latest is not None
    manifest = log.read(latest)
    store.calls.clear()
    store.fault = fault
    try:
        return store, plan_for(log, manifest, POLICY).execute()
    except LanceError as error:
        return store, error


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("files_per_look", [1, 5, 512])
@pytest.mark.sampled(1)
def test_a_cleanup_with_one_failed_call_keeps_every_needed_file(
    table: AgedTable, when: When, files_per_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same calls in each run, regardless of their speed.
    monkeypatch.setattr(Stride, "finish", lambda stride, actions: setattr(stride, "length", files_per_look))
    store, clean = _clean(table)
    assert isinstance(clean, CleanupStats)
    calls, done = list(store.calls), table.files()
    kept = [each["version"] for each in lance_core.dataset(table.uri).version_refs()]
    for call in calls:
        table.go_back()
        before = table.files()
        _, outcome = _clean(table, fault_at(call.index, when))
        if call.method in ("delete", "remove_empty_directory"):
            assert isinstance(outcome, CleanupStats)
            # When only the response is lost, the file is gone.
            assert outcome.failed_deletes == (call.method == "delete" and when is When.BEFORE)
        else:
            assert isinstance(outcome, LanceError)
            assert "injected" in str(outcome)
        if call.index < next(each.index for each in calls if each.method == "delete"):
            assert table.files() == before
        left = {each["version"] for each in lance_core.dataset(table.uri).version_refs()}
        assert left >= set(kept)
        for version in kept:
            lance_core.dataset(table.uri, version=version).validate()
        _clean(table)
        assert table.files() == done
    for version in kept:
        lance.dataset(table.uri, version=version).validate()
