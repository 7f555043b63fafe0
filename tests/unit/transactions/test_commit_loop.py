"""The commit loop when storage, branches, or other writers interfere with one of its steps."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lance_core.errors import InvalidInputError, StorageError, VersionNotFoundError
from lance_core.io.memory_store import MemoryStore
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming
from lance_core.table.version_log import VersionLog
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.clone import Clone
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.options import CommitProgress
from lance_core.transactions.outcomes import (
    AlreadyCommitted,
    Committed,
    Conflicted,
    NotCreated,
    Overtaken,
    TableExists,
    Unknown,
)
from lance_core.transactions.transaction import Transaction
from tests.support.faulty_store import Call, When, no_fault
from tests.support.manifests import index
from tests.support.memory_table import MemoryTable
from tests.support.records import append, fragment, overwrite


@pytest.fixture
def table() -> MemoryTable:
    return MemoryTable()


def appended(table: MemoryTable) -> Transaction:
    """Return an append that is planned on the latest version."""
    return append(fragment(), read_version=table.latest().version)


def index_over(table: MemoryTable) -> Transaction:
    """Return a transaction that creates an index on the latest version."""
    return Transaction(
        read_version=table.latest().version, operation=CreateIndex(new_indices=(index("i", (0,), {0, 1}),))
    )


def commit_some(table: MemoryTable, count: int = 1) -> None:
    for _ in range(count):
        assert isinstance(table.commit(appended(table)), Committed)


def unanswered_once(table: MemoryTable, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Make the next create fail without a response, so that it may still take effect later."""
    inner = table.store.inner.put_if_absent

    def put_if_absent(path: str, data: object, **durability: object) -> object:
        table.store.inner.put_if_absent = inner
        meanwhile()
        raise StorageError("no answer", retryable=True, in_flight=True)

    table.store.inner.put_if_absent = put_if_absent


def listings_fail(call: Call) -> When | None:
    return When.BEFORE if call.method == "list_names" else None


# ── Where a commit starts ────────────────────────────────────────────────────────────────────────────────────────────


def test_change_of_a_missing_table_does_not_create_the_table() -> None:
    log = MemoryTable().log.at("elsewhere")
    table = MemoryTable()
    table.log = log
    with pytest.raises(VersionNotFoundError, match="only an overwrite can create the first version"):
        table.commit(append(fragment(), read_version=0))


def test_operation_on_existing_fragments_without_a_read_version_is_refused(table: MemoryTable) -> None:
    with pytest.raises(InvalidInputError, match="needs a read version"):
        table.commit(replace(index_over(table), read_version=0))


def test_commit_to_a_table_dropped_during_its_checks_raises_not_found(table: MemoryTable) -> None:
    def drop(call: Call) -> None:
        if call.method == "head":
            table.store.fault = no_fault
            table.store.inner.delete(table.log.path(table.log.latest()))

    table.store.fault = drop
    with pytest.raises(VersionNotFoundError, match="no longer has any versions"):
        table.commit(append(fragment(), read_version=0))


def test_transaction_file_without_a_version_does_not_count_as_an_earlier_commit(table: MemoryTable) -> None:
    ours = append(fragment(), read_version=0)
    table.store.inner.put(table.log.transaction_path(ours.file_name), ours.serialize())
    outcome = table.commit(ours, is_first_try=False)
    assert isinstance(outcome, Committed)


def test_earlier_commit_whose_version_was_cleaned_up_is_recognized_by_its_files_in_later_versions(
    table: MemoryTable,
) -> None:
    ours = append(fragment(), read_version=0)
    assert isinstance(table.commit(ours), Committed)
    commit_some(table)
    table.clean_up()
    table.store.inner.delete(table.log.transaction_path(ours.file_name))
    outcome = table.commit(ours, is_first_try=False)
    assert isinstance(outcome, Conflicted)
    assert (outcome.verdict, outcome.version, outcome.is_removed) == (Verdict.INCOMPATIBLE, 3, True)


def test_commit_that_no_later_version_references_is_repeated_after_a_cleanup(table: MemoryTable) -> None:
    commit_some(table)
    table.clean_up()
    assert isinstance(table.commit(append(fragment(), read_version=0), is_first_try=False), Committed)


def test_change_without_files_is_committed_after_a_cleanup(table: MemoryTable) -> None:
    commit_some(table)
    table.clean_up()
    empty = overwrite(read_version=0)
    assert isinstance(table.commit(empty, is_first_try=False), Committed)


def test_index_built_on_a_version_that_was_cleaned_up_is_refused(table: MemoryTable) -> None:
    ours = index_over(table)
    commit_some(table, 2)
    table.clean_up()
    with pytest.raises(VersionNotFoundError, match="from which the index was built"):
        table.commit(ours)


def test_repeated_commit_of_an_index_built_on_a_version_that_was_cleaned_up_finds_the_first_commit(
    table: MemoryTable,
) -> None:
    ours = index_over(table)
    assert isinstance(table.commit(ours), Committed)
    table.clean_up()
    outcome = table.commit(ours, is_first_try=False)
    assert isinstance(outcome, AlreadyCommitted)
    assert outcome.manifest.version == 2


def test_search_for_the_latest_version_ends_if_versions_keep_appearing(table: MemoryTable) -> None:
    ours = appended(table)
    commit_some(table, 2)

    def grow(call: Call) -> None:
        if call.method == "get" and "_versions" in call.path and len(table.versions()) < 60:
            table.store.fault = no_fault
            commit_some(table)
            table.store.fault = grow

    table.versions = lambda: list(table.store.inner.list_names("table/_versions"))
    table.store.fault = grow
    assert isinstance(table.commit(ours), Committed)


def test_version_without_a_recorded_transaction_counts_as_part_of_the_table(table: MemoryTable) -> None:
    message = ManifestDraft(table.latest()).seal(transaction=b"", transaction_file="", timestamp_ns=0).manifest.message
    message.ClearField("transaction_section")
    bare = serialize_manifest_file(message, index_section=None, transaction=None)
    table.log.create(ManifestName(2, ManifestNaming.V2), bare)
    ours = appended(table)
    commit_some(table)
    assert isinstance(table.commit(ours), Committed)
    assert table.versions() == [1, 2, 3, 4]


# ── Interrupts and missing responses ──────────────────────────────────────────────────────────────────────────


def interrupt(*arguments: object, **more: object) -> None:
    raise KeyboardInterrupt


def test_interrupt_before_the_creation_of_the_manifest_leaves_no_version_and_no_files(table: MemoryTable) -> None:
    before = table.transaction_files()
    put = table.store.inner.put

    def put_and_be_interrupted(path: str, data: object, **durability: object) -> None:
        put(path, data, **durability)
        if "_transactions" in path:
            raise KeyboardInterrupt

    ours = appended(table)
    table.store.inner.put = put_and_be_interrupted
    table.store.inner.put_if_absent = pytest.fail
    with pytest.raises(KeyboardInterrupt):
        table.commit(ours)
    assert table.transaction_files() == before


def test_interrupt_during_the_creation_of_the_manifest_keeps_the_files_that_the_version_may_need(
    table: MemoryTable,
) -> None:
    ours, progress = appended(table), CommitProgress()
    table.store.inner.put_if_absent = interrupt
    with pytest.raises(KeyboardInterrupt):
        table.commit(ours, progress=progress)
    assert progress.may_be_committed
    assert ours.file_name in table.transaction_files()


def test_creation_request_without_a_response_has_an_unknown_outcome(table: MemoryTable) -> None:
    unanswered_once(table)
    outcome = table.commit(appended(table), max_retries=0)
    assert isinstance(outcome, Unknown)
    assert "no answer" in str(outcome.cause)


def test_failure_after_a_creation_request_without_a_response_leaves_the_outcome_unknown(table: MemoryTable) -> None:
    def fail_from_now_on(seconds: float) -> None:
        table.store.fault = listings_fail

    unanswered_once(table)
    outcome = table.commit(appended(table), wait=fail_from_now_on)
    assert isinstance(outcome, Unknown)
    assert "no answer" in str(outcome.cause)


def test_versions_removed_after_a_creation_request_without_a_response_leave_the_outcome_unknown(
    table: MemoryTable,
) -> None:
    def clean_up(seconds: float) -> None:
        table.store.fault = no_fault
        commit_some(table, 3)
        table.clean_up()

    unanswered_once(table)
    outcome = table.commit(appended(table), wait=clean_up)
    assert isinstance(outcome, Unknown)
    assert "no answer" in str(outcome.cause)


def test_different_version_with_the_same_number_proves_that_a_creation_request_without_a_response_failed(
    table: MemoryTable,
) -> None:
    unanswered_once(table)
    assert isinstance(table.commit(appended(table), wait=lambda seconds: commit_some(table)), Committed)
    assert table.versions() == [1, 2, 3]


def test_version_of_another_writer_does_not_prove_that_an_earlier_creation_request_failed(table: MemoryTable) -> None:
    unanswered_once(table, lambda: commit_some(table, 2))
    outcome = table.commit(appended(table))
    assert isinstance(outcome, Unknown)
    assert outcome.version == 2


def test_lost_request_of_an_earlier_attempt_leaves_the_outcome_unknown(table: MemoryTable) -> None:
    ours, progress = appended(table), CommitProgress(may_be_committed=True)
    commit_some(table, 3)
    table.clean_up()
    outcome = table.commit(ours, progress=progress)
    assert isinstance(outcome, Unknown)
    assert outcome.version == 2


def test_creation_request_that_certainly_failed_is_reported_as_failed(table: MemoryTable) -> None:
    table.store.fault = lambda call: When.BEFORE if call.method == "put_if_absent" else None
    assert isinstance(table.commit(appended(table)), NotCreated)


def test_transaction_that_changes_between_attempts_keeps_its_file(table: MemoryTable) -> None:
    ours = index_over(table)
    table.act_at_create(lambda: commit_some(table))
    assert isinstance(table.commit(ours), Committed)
    assert table.versions() == [1, 2, 3]
    assert ours.file_name in table.transaction_files()


# ── Branches ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def branch() -> MemoryTable:
    return MemoryTable(branch="b")


def test_commit_to_a_deleted_branch_is_refused(branch: MemoryTable) -> None:
    branch.delete_branch()
    outcome = branch.commit(appended(branch))
    assert isinstance(outcome, Conflicted)
    assert (outcome.verdict, outcome.reason) == (Verdict.INCOMPATIBLE, "the branch was deleted")


def test_commit_to_a_branch_that_was_recreated_is_refused(branch: MemoryTable) -> None:
    progress = CommitProgress()
    assert isinstance(branch.commit(appended(branch), progress=progress), Committed)
    branch.make_branch(created_at=2)
    outcome = branch.commit(appended(branch), progress=CommitProgress(line=progress.line))
    assert isinstance(outcome, Conflicted)
    assert "recreated" in outcome.reason
    assert isinstance(branch.commit(appended(branch)), Committed)


def test_commit_to_a_concurrently_deleted_branch_is_undone(branch: MemoryTable) -> None:
    branch.act_at_create(branch.delete_branch, When.AFTER)
    assert branch.commit(appended(branch)) == Overtaken(version=2, latest=3)
    assert len(branch.latest().fragments) == 2
    assert branch.versions() == [1, 2, 3], "others may have tagged the version while it was the latest"


def test_commit_that_cannot_be_undone_has_an_unknown_outcome(branch: MemoryTable) -> None:
    for path in branch.paths():
        branch.store.inner.delete(f"{branch.root}/data/{path}")
    branch.act_at_create(branch.delete_branch, When.AFTER)
    assert isinstance(branch.commit(appended(branch)), Unknown)
    assert branch.versions() == [1, 2]


def test_commit_that_other_writers_build_on_before_it_is_undone_has_an_unknown_outcome(branch: MemoryTable) -> None:
    known = branch.transaction_files()

    def overtake(path: str, data: object, **durability: object) -> object:
        if path == branch.log.path(ManifestName(3, ManifestNaming.V2)):
            branch.store.inner.put_if_absent = inner
            branch.make_branch(created_at=1)
            commit_some(branch)
        return inner(path, data, **durability)

    def delete_and_watch() -> None:
        branch.delete_branch()
        branch.store.inner.put_if_absent = overtake

    inner = branch.store.inner.put_if_absent
    branch.act_at_create(delete_and_watch, When.AFTER)
    assert isinstance(branch.commit(appended(branch)), Unknown)
    assert branch.versions() == [1, 2, 3]
    assert len(branch.transaction_files()) == len(known) + 2, "the file of the restore that came too late is removed"


# ── After the create ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_first_version_of_a_clone_is_not_searched_for_an_earlier_commit(table: MemoryTable) -> None:
    source, clone = table.latest(), MemoryTable()
    clone.log = VersionLog(table.store, "clone")
    operation = Clone(is_shallow=True, ref_version=1, ref_path="table")
    template = replace(source, message=type(source.message)())
    template.message.CopyFrom(source.message)
    template.message.version = 0
    outcome = clone.commit(Transaction(read_version=1, operation=operation), template=template)
    assert isinstance(outcome, Committed)
    assert clone.commit(Transaction(read_version=1, operation=operation), template=template) == TableExists(1)


def test_commit_is_withdrawn_if_the_other_naming_scheme_has_a_version_with_the_same_number() -> None:
    table = MemoryTable(ManifestNaming.V1)
    first, ours = table.latest(), appended(table)
    theirs = table.log.path(ManifestName(2, ManifestNaming.V2))

    def migrate() -> None:
        sealed = ManifestDraft(first).seal(
            transaction=append(fragment(), read_version=1).serialize(), transaction_file="1-x.txn", timestamp_ns=0
        )
        table.store.inner.put(theirs, sealed.data)

    table.act_at_create(migrate, When.AFTER)
    assert table.commit(ours) == Overtaken(version=2, latest=2)
    left = {info.path for info in table.store.inner.list("table/_versions")}
    assert left == {table.log.path(ManifestName(1, ManifestNaming.V1)), theirs}


def test_newer_versions_removed_repeatedly_leave_the_outcome_unknown(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [ManifestName(9, ManifestNaming.V2)]

    def clean_up_again_and_again() -> None:
        monkeypatch.setattr(VersionLog, "surely_newer_than", lambda log, version: gone)

    table.act_at_create(clean_up_again_and_again, When.AFTER)
    outcome = table.commit(appended(table))
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.cause, VersionNotFoundError)


def test_version_already_removed_need_not_be_withdrawn(table: MemoryTable) -> None:
    def overtake() -> None:
        commit_some(table, 4)
        table.clean_up(keep=3)

    def remove_ours() -> None:
        def fault(call: Call) -> None:
            # The version is read once for the comparison, and again before it is withdrawn.
            if call.method == "get" and call.path == ours:
                table.store.fault = no_fault
                table.store.inner.delete(ours)

        table.store.fault = fault

    ours = table.log.path(ManifestName(2, ManifestNaming.V2))
    late = appended(table)
    table.act_at_create(overtake, then=remove_ours)
    assert table.commit(late) == Overtaken(version=2, latest=5)
    assert table.versions() == [3, 4, 5]


def test_damaged_transaction_of_the_read_version_does_not_prevent_a_commit(table: MemoryTable) -> None:
    sealed = ManifestDraft(table.latest()).seal(transaction=b"\xff", transaction_file="1-x.txn", timestamp_ns=0)
    table.log.create(ManifestName(2, ManifestNaming.V2), sealed.data)
    assert isinstance(table.commit(append(fragment(), read_version=2)), Committed)


def test_restore_concurrent_with_a_config_change_is_committed(table: MemoryTable) -> None:
    update = UpdateConfig(config=MapUpdate(entries={"key": "value"}))
    assert isinstance(table.commit(Transaction(read_version=1, operation=update)), Committed)
    assert isinstance(table.commit(Transaction(read_version=2, operation=Restore(version=1))), Committed)
    assert isinstance(table.commit(appended(table)), Committed)
    assert isinstance(table.store.inner, MemoryStore)
