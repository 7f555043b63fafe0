"""The commit loop in memory: outcomes, races, repeated commits, and leftover files."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lance_core.errors import InternalError, InvalidInputError, StorageError, VersionNotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome
from lance_core.proto import pb_transaction
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.optimistic_commit import OptimisticCommit
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    CommitOutcome,
    Committed,
    Conflicted,
    Contended,
    NotCreated,
    TableExists,
    Unknown,
)
from lance_core.transactions.transaction import Transaction, read_transaction
from tests.support.commits import commit_transaction
from tests.support.faulty_store import Call, FaultyStore, When, no_fault
from tests.support.records import append, fragment, overwrite


class Table:
    """A table in memory, the faults of its store, and the waiting times of the commit loop."""

    def __init__(self) -> None:
        self.store = FaultyStore(MemoryStore())
        self.log = VersionLog(self.store, "table")
        self.waits: list[float] = []

    def commit(
        self,
        transaction: Transaction,
        *,
        template: Manifest | None = None,
        known: Manifest | None = None,
        **options: object,
    ) -> CommitOutcome:
        options = {"wait": self.waits.append, "rng": random.Random(1), **options}
        return commit_transaction(self.log, transaction, CommitOptions(**options), template=template, known=known)

    def made(self, transaction: Transaction, **options: object) -> int:
        outcome = self.commit(transaction, **options)
        assert isinstance(outcome, Committed), outcome
        return outcome.manifest.version

    def versions(self) -> list[int]:
        return [name.version for name in self.log.newer_than(0)]

    def fragment_ids(self) -> list[int]:
        return [each.id for each in self.log.read(self.log.latest()).fragments]

    def transaction_files(self) -> list[str]:
        return sorted(info.path.rpartition("/")[2] for info in self.store.inner.list("table/_transactions"))


@pytest.fixture
def table() -> Table:
    made = Table()
    assert made.made(overwrite(fragment())) == 1
    return made


def test_a_new_table_starts_at_version_one() -> None:
    table = Table()
    transaction = overwrite(fragment(), fragment())
    assert table.made(transaction) == 1
    assert table.fragment_ids() == [0, 1]
    assert table.transaction_files() == [f"0-{transaction.uuid}.txn"]
    manifest = table.log.read_version(1)
    assert manifest.message.transaction_file == transaction.file_name
    assert read_transaction(table.log, manifest) == transaction


def test_committed_versions_and_fragment_ids_are_contiguous(table: Table) -> None:
    for version in range(2, 8):
        assert table.made(append(fragment(), read_version=version - 1)) == version
    assert table.versions() == list(range(1, 8))
    assert table.fragment_ids() == list(range(7))


def test_stale_append_is_committed_after_later_appends(table: Table) -> None:
    table.made(append(fragment(), read_version=1))
    late = append(fragment(), read_version=1)
    assert table.made(late) == 3
    assert table.fragment_ids() == [0, 1, 2]
    assert read_transaction(table.log, table.log.read_version(3)).read_version == 1


@pytest.mark.parametrize(
    ("late", "verdict"),
    [
        (append(fragment(), read_version=1), Verdict.INCOMPATIBLE),
        (overwrite(fragment(), read_version=1), Verdict.RETRYABLE),
    ],
)
def test_conflicting_commit_returns_the_conflict_and_leaves_no_files(
    table: Table, late: Transaction, verdict: Verdict
) -> None:
    table.made(overwrite(fragment(), read_version=1))
    before = table.transaction_files()
    outcome = table.commit(late)
    assert isinstance(outcome, Conflicted)
    assert (outcome.verdict, outcome.version) == (verdict, 2)
    assert "overwrite" in outcome.reason
    assert table.versions() == [1, 2]
    assert table.transaction_files() == before


def test_read_version_zero_means_the_latest_version(table: Table) -> None:
    table.made(overwrite(fragment(), read_version=1))
    assert table.made(overwrite(fragment(), read_version=0)) == 3
    assert table.made(append(fragment(), read_version=0)) == 4
    assert table.fragment_ids() == [2, 3]


def test_overwrite_without_retries_conflicts_with_any_later_version(table: Table) -> None:
    table.made(append(fragment(), read_version=1))
    outcome = table.commit(overwrite(fragment(), read_version=1), max_retries=0)
    assert isinstance(outcome, Conflicted)
    assert table.made(overwrite(fragment(), read_version=2), max_retries=0) == 3


def test_commit_with_a_missing_read_version_raises_version_not_found(table: Table) -> None:
    with pytest.raises(VersionNotFoundError, match="no version 7"):
        table.commit(append(fragment(), read_version=7))


def test_create_only_commit_refuses_an_existing_table(table: Table) -> None:
    assert table.commit(overwrite(fragment()), create_only=True) == TableExists(1)
    assert table.versions() == [1]
    fresh = Table()
    assert fresh.made(overwrite(fragment()), create_only=True) == 1


def test_table_created_with_v1_manifest_names_keeps_the_naming_scheme() -> None:
    table = Table()
    table.made(overwrite(fragment()), template=Manifest.empty(naming=ManifestNaming.V1))
    table.made(append(fragment(), read_version=1))
    assert [table.log.path(name) for name in table.log.newer_than(0)] == [
        "table/_versions/1.manifest",
        "table/_versions/2.manifest",
    ]


# ── A transaction is committed once ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("operation", ["append", "overwrite", "create"])
def test_committing_a_transaction_twice_creates_one_version(operation: str) -> None:
    table = Table()
    if operation == "create":
        transaction = overwrite(fragment())
    else:
        table.made(overwrite(fragment()))
        transaction = append(fragment(), read_version=1) if operation == "append" else overwrite(read_version=1)
    version = table.made(transaction)
    table.made(append(fragment(), read_version=version))
    for create_only in {False, operation == "create"}:
        outcome = table.commit(transaction, create_only=create_only)
        assert isinstance(outcome, AlreadyCommitted)
        assert outcome.manifest.version == version
    assert table.versions() == list(range(1, version + 2))
    assert transaction.file_name in table.transaction_files()


def test_transaction_planned_again_is_recognized_by_its_uuid(table: Table) -> None:
    first = append(fragment(), read_version=1)
    table.made(append(fragment(), read_version=1))
    table.made(first)
    again = Transaction(read_version=2, operation=first.operation, uuid=first.uuid)
    outcome = table.commit(again)
    assert isinstance(outcome, AlreadyCommitted)
    assert outcome.manifest.version == 3


def test_earlier_commit_is_found_despite_removed_versions(table: Table) -> None:
    transaction = append(fragment(), read_version=1)
    table.made(append(fragment(), read_version=1))
    table.made(transaction)
    for version in (1, 2):
        table.store.delete(table.log.path(ManifestName(version, ManifestNaming.V2)))
    outcome = table.commit(transaction)
    assert isinstance(outcome, AlreadyCommitted)
    assert outcome.manifest.version == 3


def test_commit_without_listed_newer_versions_finds_no_earlier_commit(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VersionLog, "newer_than", lambda log, version: [])
    assert isinstance(table.commit(append(fragment(), read_version=0)), Committed)


def test_removed_versions_after_the_read_version_cause_a_conflict(table: Table) -> None:
    table.made(append(fragment(), read_version=1))
    table.made(append(fragment(), read_version=2))
    table.store.delete(table.log.path(ManifestName(2, ManifestNaming.V2)))
    outcome = table.commit(append(fragment(), read_version=1))
    assert isinstance(outcome, Conflicted)
    assert (outcome.verdict, outcome.version) == (Verdict.INCOMPATIBLE, 2)


def test_version_missing_from_the_listing_is_read_by_name(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.made(append(fragment(), read_version=1))
    table.made(append(fragment(), read_version=2))
    hidden = table.log.path(ManifestName(2, ManifestNaming.V2)).rpartition("/")[2]
    listed = MemoryStore.list_names
    monkeypatch.setattr(
        MemoryStore, "list_names", lambda store, prefix: (n for n in listed(store, prefix) if n != hidden)
    )
    assert table.made(append(fragment(), read_version=1)) == 4


# ── Races ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _before_create(table: Table, action: Callable[[], object], times: int = 1) -> None:
    """Run an action right before the store is asked to create a manifest."""
    left = [times]

    def fault(call: Call) -> None:
        if call.method == "put_if_absent" and left[0] > 0:
            left[0] -= 1
            table.store.fault = lambda call: None
            action()
            table.store.fault = fault

    table.store.fault = fault


def test_commit_that_loses_a_race_is_retried(table: Table) -> None:
    _before_create(table, lambda: table.made(append(fragment(), read_version=1)), times=3)
    transaction = append(fragment(), read_version=1)
    assert table.made(transaction) == 5
    assert table.fragment_ids() == [0, 1, 2, 3, 4]
    assert len(table.waits) == 3
    assert transaction.file_name in table.transaction_files()


def test_commit_that_loses_to_a_conflicting_version_is_refused(table: Table) -> None:
    _before_create(table, lambda: table.made(overwrite(fragment(), read_version=1)))
    transaction = append(fragment(), read_version=1)
    outcome = table.commit(transaction)
    assert isinstance(outcome, Conflicted)
    assert transaction.file_name not in table.transaction_files()


def test_commit_that_loses_every_race_reports_contention(table: Table) -> None:
    _before_create(table, lambda: table.made(append(fragment(), read_version=0)), times=100)
    transaction = append(fragment(), read_version=1)
    assert table.commit(transaction, max_retries=4) == Contended(5)
    assert len(table.versions()) == 6
    assert transaction.file_name not in table.transaction_files()


def test_commit_timeout_ends_the_retries(table: Table) -> None:
    _before_create(table, lambda: table.made(append(fragment(), read_version=0)), times=100)
    outcome = table.commit(append(fragment(), read_version=1), timeout=timedelta(microseconds=1))
    assert outcome == Contended(1)


def test_two_concurrent_creations_create_one_table() -> None:
    table = Table()
    _before_create(table, lambda: table.made(overwrite(fragment())))
    assert table.commit(overwrite(fragment()), create_only=True) == TableExists(1)
    table = Table()
    _before_create(table, lambda: table.made(overwrite(fragment())))
    outcome = table.commit(overwrite(fragment()))
    assert isinstance(outcome, Conflicted)
    assert table.versions() == [1]


def test_same_transaction_in_two_processes_creates_one_version(table: Table) -> None:
    transaction = append(fragment(), read_version=1)
    _before_create(table, lambda: table.made(transaction))
    assert table.made(transaction) == 2
    assert table.versions() == [1, 2]
    assert transaction.file_name in table.transaction_files()


# ── Failing storage ───────────────────────────────────────────────────────────────────────────────────────────────


def _failing(*methods: tuple[str, str, When], times: int = 1000) -> Callable[[Call], When | None]:
    left = [times]

    def fault(call: Call) -> When | None:
        for method, part, when in methods:
            if call.method == method and part in call.path and left[0] > 0:
                left[0] -= 1
                return when
        return None

    return fault


def test_commit_with_a_lost_response_succeeds(table: Table) -> None:
    table.store.fault = _failing(("put_if_absent", "", When.AFTER))
    assert table.made(append(fragment(), read_version=1)) == 2
    assert table.versions() == [1, 2]


def test_lost_retryable_commit_request_is_repeated(table: Table) -> None:
    table.store.retryable = True
    table.store.fault = _failing(("put_if_absent", "", When.BEFORE), times=2)
    assert table.made(append(fragment(), read_version=1)) == 2
    assert len(table.waits) == 2


def test_lost_retryable_commit_request_at_the_time_limit_raises_the_error_of_the_store(table: Table) -> None:
    table.store.retryable = True
    table.store.fault = _failing(("put_if_absent", "", When.BEFORE))
    outcome = table.commit(append(fragment(), read_version=1), timeout=timedelta(microseconds=1))
    assert isinstance(outcome, NotCreated)
    assert "injected" in str(outcome.cause)
    assert table.versions() == [1]


def test_lost_commit_request_that_is_not_retryable_is_reported(table: Table) -> None:
    table.store.fault = _failing(("put_if_absent", "", When.BEFORE))
    transaction = append(fragment(), read_version=1)
    outcome = table.commit(transaction)
    assert isinstance(outcome, NotCreated)
    assert "injected" in str(outcome.cause)
    assert table.versions() == [1]
    assert transaction.file_name not in table.transaction_files()


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("retryable", [False, True])
def test_unreadable_manifest_after_a_failed_creation_request_leaves_the_outcome_unknown(
    table: Table, when: When, retryable: bool
) -> None:
    table.store.retryable = retryable
    table.store.fault = _failing(("put_if_absent", "", when), ("get", "18446744073709551613.manifest", When.BEFORE))
    transaction = append(fragment(), read_version=1)
    outcome = table.commit(transaction)
    assert isinstance(outcome, Unknown)
    assert outcome.version == 2
    assert transaction.file_name in table.transaction_files()
    assert not [call for call in table.store.calls if call.method == "delete"]
    # Regardless of the outcome, committing again leads to exactly one version.
    table.store.fault = lambda call: None
    assert isinstance(table.commit(transaction), (Committed, AlreadyCommitted))
    assert table.versions() == [1, 2]


def test_failed_read_back_of_a_commit_is_retried(table: Table) -> None:
    table.store.retryable = True
    table.store.fault = _failing(
        ("put_if_absent", "", When.AFTER), ("get", "18446744073709551613.manifest", When.BEFORE), times=3
    )
    assert table.made(append(fragment(), read_version=1)) == 2


def test_creation_request_refused_although_no_version_exists_is_repeated(table: Table) -> None:
    real = table.store.inner.put_if_absent
    answers = [PutOutcome.EXISTS, PutOutcome.EXISTS]
    table.store.inner.put_if_absent = lambda *args, **more: answers.pop() if answers else real(*args, **more)
    assert table.made(append(fragment(), read_version=1)) == 2
    assert len(table.waits) == 2


def test_errors_before_the_commit_are_raised_and_leave_no_files(table: Table) -> None:
    for method in ("list_names", "get"):
        table.store.fault = _failing((method, "", When.BEFORE))
        with pytest.raises(StorageError, match="injected"):
            table.commit(append(fragment(), read_version=1))
    table.store.fault = lambda call: None
    assert len(table.transaction_files()) == 1


def test_failed_version_hint_write_does_not_fail_the_commit(table: Table) -> None:
    capabilities = replace(table.store.capabilities, version_hint=True)

    class Hinted(MemoryStore):
        @property
        def capabilities(self):
            return capabilities

    hinted = Hinted()
    hinted._objects = table.store.inner._objects
    table.store.inner = hinted
    table.made(append(fragment(), read_version=1))
    assert bytes(hinted.get("table/_versions/latest_version_hint.json")) == b'{"version":2}'
    table.store.fault = _failing(("put", "hint", When.BEFORE))
    assert table.made(append(fragment(), read_version=2)) == 3


# ── Checks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_error_between_the_steps_of_a_commit_leaves_no_files(table: Table) -> None:
    before = table.transaction_files()
    options = CommitOptions(wait=table.waits.append)
    files_at_draft = []

    def refuse_draft() -> None:
        with OptimisticCommit(table.log, append(fragment(), read_version=1), options, Manifest.empty()) as attempts:
            assert attempts.advance() == table.log.read_version(1)
            attempts.build()
            files_at_draft.extend(table.transaction_files())
            raise InvalidInputError("no")

    with pytest.raises(InvalidInputError, match="no"):
        refuse_draft()
    assert files_at_draft == before, "nothing is written before the caller has seen the draft"
    assert table.transaction_files() == before
    assert table.versions() == [1]


def test_commit_that_is_not_finished_has_no_outcome(table: Table) -> None:
    with OptimisticCommit(table.log, append(fragment(), read_version=1), CommitOptions(), Manifest.empty()) as attempts:
        attempts.advance()
    with pytest.raises(InternalError, match="before the commit was finished"):
        _ = attempts.outcome


def test_refused_fragment_leaves_no_transaction_file(table: Table) -> None:
    before = table.transaction_files()
    with pytest.raises(InvalidInputError):
        table.commit(append(fragment(0), read_version=1))
    assert table.transaction_files() == before
    assert table.versions() == [1]


def test_version_without_a_transaction_conflicts_with_a_stale_commit(table: Table) -> None:
    draft = ManifestDraft(table.log.read_version(1))
    sealed = draft.seal(transaction=b"", transaction_file="", timestamp_ns=0)
    message = sealed.manifest.message
    message.ClearField("transaction_section")
    table.log.create(
        ManifestName(2, ManifestNaming.V2), serialize_manifest_file(message, index_section=None, transaction=None)
    )
    outcome = table.commit(append(fragment(), read_version=1))
    assert isinstance(outcome, Conflicted)
    assert outcome.reason == "that version records no transaction, so its changes are unknown"
    assert table.made(append(fragment(), read_version=2)) == 3


def test_unknown_operations_conflict(table: Table) -> None:
    data = pb_transaction.Transaction(uuid="x").SerializeToString() + bytes.fromhex("c20700")
    sealed = ManifestDraft(table.log.read_version(1)).seal(transaction=data, transaction_file="1-x.txn", timestamp_ns=0)
    table.log.create(ManifestName(2, ManifestNaming.V2), sealed.data)
    outcome = table.commit(append(fragment(), read_version=1))
    assert isinstance(outcome, Conflicted)
    assert outcome.verdict is Verdict.RETRYABLE


def test_transactions_stored_only_as_files_are_read(table: Table) -> None:
    transaction = append(fragment(), read_version=1)
    table.made(transaction)
    manifest = table.log.read_version(2)
    bare = Manifest(message=manifest.message, naming=manifest.naming)
    assert read_transaction(table.log, bare) == transaction
    table.store.delete(f"table/_transactions/{transaction.file_name}")
    assert read_transaction(table.log, bare) is None


# ── Cost ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _requests(table: Table) -> list[str]:
    requests = [call.method for call in table.store.calls]
    table.store.calls.clear()
    return requests


def test_versions_that_appear_during_conflict_checks_are_also_checked(table: Table) -> None:
    ours = append(fragment(), read_version=1)
    for _ in range(3):
        assert isinstance(table.commit(append(fragment(), read_version=1)), Committed)
    left = [2, 1, 1]

    def grow(call: Call) -> None:
        if call.method == "get" and "_versions" in call.path and left:
            table.store.fault = no_fault
            for _ in range(left.pop(0)):
                assert isinstance(table.commit(append(fragment(), read_version=1)), Committed)
            table.store.calls.clear()
            table.store.fault = grow

    table.store.fault = grow
    assert isinstance(table.commit(ours), Committed)
    assert not left
    assert [call.method for call in table.store.calls].count("put_if_absent") == 1


def test_append_commit_makes_as_few_requests_as_possible(table: Table) -> None:
    table.store.calls.clear()
    outcome = table.commit(append(fragment(), read_version=1))
    assert _requests(table) == ["list_names", "get", "put", "put_if_absent", "list_names"]
    table.commit(append(fragment(), read_version=2), known=outcome.manifest)
    assert _requests(table) == ["list_names", "put", "put_if_absent", "list_names"]
    # There is one newer version, and only that version is read.
    table.commit(append(fragment(), read_version=2), known=outcome.manifest)
    assert _requests(table) == ["list_names", "get", "put", "put_if_absent", "list_names"]


def test_commit_retry_costs_one_read_and_no_second_transaction_file(table: Table) -> None:
    winner = append(fragment(), read_version=1)
    _before_create(table, lambda: (table.made(winner), table.store.calls.clear()))
    table.made(append(fragment(), read_version=1))
    assert _requests(table) == ["get", "list_names", "put_if_absent", "list_names"]
