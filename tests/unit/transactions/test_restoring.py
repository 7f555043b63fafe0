"""Restoring during a cleanup: which files are checked, and how a version is protected."""

import time

import pytest

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.deletion_file import deletion_file_path
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import Committed
from lance_core.transactions.restoring import check_restore, has_lost_files, held
from lance_core.transactions.transaction import Transaction, withdraw_version
from tests.support.commits import commit_transaction
from tests.support.manifests import deletion
from tests.support.records import append, fragment, overwrite

FIRST = ManifestName(1, ManifestNaming.V2)


def commit(log: VersionLog, transaction: Transaction) -> None:
    assert isinstance(commit_transaction(log, transaction, CommitOptions()), Committed)


@pytest.fixture
def log() -> VersionLog:
    """A table whose first version has a data file, and whose second version deletes one of its rows."""
    made = VersionLog(MemoryStore(), "table")
    commit(made, overwrite(fragment(path="a.lance")))
    made.store.put("table/data/a.lance", b"rows")
    (first,) = made.read(FIRST).fragments
    hidden = first.with_deletion(deletion(1))
    made.store.put(deletion_file_path(made.store, "table", 0, hidden.deletion_file), b"rows")
    operation = Delete(updated_fragments=(hidden,), deleted_fragment_ids=(), predicate="a = 1")
    commit(made, Transaction(read_version=1, operation=operation))
    return made


def test_version_whose_files_exist_can_be_restored(log: VersionLog) -> None:
    check_restore(log, 1, None)
    check_restore(log, 2, None)
    assert not has_lost_files(log, log.read_version(2), None)


def test_version_that_does_not_exist_cannot_be_restored(log: VersionLog) -> None:
    with pytest.raises(VersionNotFoundError):
        check_restore(log, 9, None)


def test_version_without_its_data_file_cannot_be_restored(log: VersionLog) -> None:
    log.store.delete("table/data/a.lance")
    with pytest.raises(NotFoundError, match=r"table/data/a\.lance is missing"):
        check_restore(log, 1, None)


def test_version_without_its_deletion_file_cannot_be_restored(log: VersionLog) -> None:
    (hidden,) = log.read_version(2).fragments
    log.store.delete(deletion_file_path(log.store, "table", 0, hidden.deletion_file))
    check_restore(log, 1, None)
    with pytest.raises(NotFoundError, match="_deletions"):
        check_restore(log, 2, None)


def test_version_with_a_file_missing_from_a_listing_can_be_restored(
    log: VersionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "list_names", lambda store, prefix: iter(()))
    check_restore(log, 2, None)


def test_held_version_is_listed_until_it_is_released(log: VersionLog) -> None:
    waits: list[float] = []
    with held(log, 1, waits.append):
        assert log.held_versions(time.time()) == {1}
    assert log.held_versions(time.time()) == set()
    assert waits == []


def test_holder_of_a_version_waits_for_a_cleanup_that_may_remove_it(log: VersionLog) -> None:
    log.store.delete(log.transaction_path(log.read_version(1).message.transaction_file))
    waits: list[float] = []
    with held(log, 1, waits.append):
        assert log.held_versions(time.time()) == {1}
    assert len(waits) == 1


def test_version_that_no_longer_exists_is_not_held(log: VersionLog) -> None:
    with held(log, 9, pytest.fail):
        assert log.held_versions(time.time()) == set()


def test_only_a_version_created_by_the_transaction_is_withdrawn(log: VersionLog) -> None:
    theirs = append(fragment(), read_version=1)
    assert not withdraw_version(log, FIRST, theirs)
    assert [name.version for name in log.newer_than(0)] == [1, 2]


def test_version_that_no_longer_exists_is_not_withdrawn(log: VersionLog) -> None:
    assert not withdraw_version(log, ManifestName(9, ManifestNaming.V2), append(fragment(), read_version=1))
