"""Merging deletes with other deletes of the same fragments, in memory."""

import random

import pytest
from pyroaring import BitMap

from lance_core.errors import InvalidInputError, StorageError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome
from lance_core.proto import pb_transaction
from lance_core.table.deletion_file import DeletionFileType
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming, manifest_name
from lance_core.table.version_log import VersionLog
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import AlreadyCommitted, CommitOutcome, Committed, Conflicted, Contended, Unknown
from lance_core.transactions.transaction import Transaction, new_uuid, read_transaction
from tests.support.commits import commit_transaction
from tests.support.deletes import deleted_rows, planned_delete
from tests.support.faulty_store import Call, FaultyStore, When
from tests.support.records import append, fragment, overwrite

Rows = dict[int, BitMap]


class Table:
    """A table in memory of three fragments of ten rows."""

    def __init__(self) -> None:
        self.store = FaultyStore(MemoryStore())
        self.log = VersionLog(self.store, "table")
        self.commit(overwrite(fragment(), fragment(), fragment()))

    def commit(self, transaction: Transaction, rows: Rows | None = None, **options: object) -> CommitOutcome:
        options = {"wait": lambda seconds: None, "rng": random.Random(1), "affected_rows": rows, **options}
        return commit_transaction(self.log, transaction, CommitOptions(**options))

    def made(self, transaction: Transaction, rows: Rows | None = None, **options: object) -> int:
        outcome = self.commit(transaction, rows, **options)
        assert isinstance(outcome, Committed), outcome
        return outcome.manifest.version

    def delete(self, rows: Rows, *, version: int = 1, known: bool = True, **options: object) -> CommitOutcome:
        return self.commit(planned_delete(self.log, version, rows), rows if known else None, **options)

    def hidden(self) -> dict[int, list[int]]:
        """Return the rows deleted in the latest version."""
        manifest = self.log.read(self.log.latest())
        return {fragment_id: list(rows) for fragment_id, rows in deleted_rows(self.log, manifest).items()}

    def names(self, directory: str) -> list[str]:
        return sorted(info.path.rpartition("/")[2] for info in self.store.inner.list(f"table/{directory}"))

    def referenced(self) -> set[str]:
        """Return the deletion files of all versions."""
        return {
            each.deletion_file.name(each.id)
            for name in self.log.newer_than(0)
            for each in self.log.read(name).fragments
            if each.deletion_file is not None
        }


@pytest.fixture
def table() -> Table:
    return Table()


def _conflict(outcome: CommitOutcome, match: str) -> None:
    assert isinstance(outcome, Conflicted)
    assert outcome.verdict is Verdict.RETRYABLE
    assert match in outcome.reason


def test_stale_delete_of_different_rows_is_merged(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3]), 1: BitMap([1])})
    table.delete({0: BitMap([5, 6])})
    outcome = table.commit(stale, {0: BitMap([3]), 1: BitMap([1])})
    assert isinstance(outcome, Committed)
    assert table.hidden() == {0: [3, 5, 6], 1: [1], 2: []}
    first, second, _ = outcome.manifest.fragments
    merged, own = first.deletion_file, second.deletion_file
    # A merged file is a bitmap with the version with which it was merged; the other file remains as planned.
    assert (merged.file_type, merged.read_version, merged.num_deleted_rows) == (DeletionFileType.BITMAP, 2, 3)
    assert (own.file_type, own.read_version) == (DeletionFileType.ARROW, 1)


def test_merged_delete_records_the_version_it_was_merged_with(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    table.delete({0: BitMap([5])})
    table.made(append(fragment(), read_version=2))
    table.made(stale, {0: BitMap([3])})
    recorded = read_transaction(table.log, table.log.read_version(4))
    assert (recorded.uuid, recorded.read_version) == (stale.uuid, 3)
    assert f"3-{stale.uuid}.txn" in table.names("_transactions")
    assert stale.file_name not in table.names("_transactions")
    assert recorded.operation.updated_fragments[0].deletion_file.num_deleted_rows == 2
    # The same change is recognized although its read version changed.
    assert isinstance(table.commit(stale, {0: BitMap([3])}), AlreadyCommitted)


def test_delete_merged_with_unrecorded_row_counts_keeps_the_fragment(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    table.delete({0: BitMap([5])})
    path = table.log.path(table.log.latest())
    file = parse_manifest_file(table.store.get(path), path)
    file.message.ClearField("writer_version")
    table.store.put(
        path,
        serialize_manifest_file(
            file.message, index_section=None, transaction=file.transaction, dictionaries=file.dictionaries
        ),
    )
    table.made(stale, {0: BitMap([3])})
    assert table.hidden() == {0: [3, 5], 1: [], 2: []}


def test_delete_that_needs_no_merge_keeps_its_read_version(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    table.delete({1: BitMap([5])})
    table.made(stale, {0: BitMap([3])})
    assert read_transaction(table.log, table.log.read_version(3)).read_version == 1
    assert table.hidden() == {0: [3], 1: [5], 2: []}


def test_deletes_of_the_same_row_conflict(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3, 4])})
    table.delete({0: BitMap([4, 5])})
    _conflict(table.commit(stale, {0: BitMap([3, 4])}), "both changes delete row 4 of fragment 0")
    assert table.hidden() == {0: [4, 5], 1: [], 2: []}
    assert table.log.latest().version == 2


def test_stale_delete_with_unknown_rows_conflicts(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    table.delete({0: BitMap([5])})
    _conflict(table.commit(stale), "'delete'")
    _conflict(table.commit(stale, {}), "are unknown")
    _conflict(table.commit(stale, {0: BitMap()}), "are unknown")


def test_deletes_that_together_cover_a_fragment_remove_the_fragment(table: Table) -> None:
    mine = BitMap(range(4, 10))
    stale = planned_delete(table.log, 1, {0: mine, 2: BitMap([0])})
    table.delete({0: BitMap(range(4))})
    table.made(stale, {0: mine, 2: BitMap([0])})
    assert table.hidden() == {1: [], 2: [0]}
    operation = read_transaction(table.log, table.log.read_version(3)).operation
    assert operation.deleted_fragment_ids == (0,)
    assert [each.id for each in operation.updated_fragments] == [2]
    assert table.log.read_version(3).message.max_fragment_id == 2


def test_stale_delete_of_a_removed_fragment_conflicts(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    table.delete({0: BitMap(range(10))})
    _conflict(table.commit(stale, {0: BitMap([3])}), "removed fragment 0")


def test_stale_delete_of_all_rows_of_a_changed_fragment_conflicts(table: Table) -> None:
    rows = {0: BitMap(range(10)), 1: BitMap([1])}
    stale = planned_delete(table.log, 1, rows)
    table.delete({0: BitMap([3])})
    _conflict(table.commit(stale, rows), "fragment 0, which this change removes")


def _update(table: Table, *, path: str) -> None:
    """Create version 2 by another writer's update, which deletes row 5 of fragment 0 and may replace its data file."""
    theirs = planned_delete(table.log, 1, {0: BitMap([5])}).operation.updated_fragments[0]
    is_anew = theirs.message.files[0].path != path
    theirs.message.files[0].path = path
    update = {"updated_fragments": [theirs.message], "fields_modified": [0] if is_anew else []}
    message = pb_transaction.Transaction(read_version=1, uuid=new_uuid(), update=update)
    draft = ManifestDraft(table.log.read_version(1))
    draft.message.fragments[0].CopyFrom(theirs.message)
    sealed = draft.seal(transaction=message.SerializeToString(), transaction_file="", timestamp_ns=0)
    assert table.log.create(ManifestName(2, ManifestNaming.V2), sealed.data) is PutOutcome.CREATED


def test_stale_delete_is_merged_with_updates_of_different_rows(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    _update(table, path=stale.operation.updated_fragments[0].files[0].path)
    table.made(stale, {0: BitMap([3])})
    assert table.hidden() == {0: [3, 5], 1: [], 2: []}


def test_stale_delete_in_a_fragment_with_changed_files_conflicts(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    _update(table, path="other.lance")
    _conflict(table.commit(stale, {0: BitMap([3])}), "that version changed the data files of fragment 0")


def test_stale_delete_conflicts_with_a_rewrite(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([3])})
    old = table.log.read_version(1).fragments[0]
    group = RewriteGroup(old_fragments=(old,), new_fragments=(fragment(),))
    table.made(Transaction(read_version=1, operation=Rewrite(groups=(group,))))
    _conflict(table.commit(stale, {0: BitMap([3])}), "'rewrite'")


def test_many_stale_deletes_are_committed_one_after_another(table: Table) -> None:
    plans = [({0: BitMap([row]), 1: BitMap([row])}) for row in range(10)]
    planned = [planned_delete(table.log, 1, rows) for rows in plans]
    for transaction, rows in zip(planned[:9], plans, strict=False):
        table.made(transaction, rows)
    assert table.hidden() == {0: list(range(9)), 1: list(range(9)), 2: []}
    table.made(planned[9], plans[9])
    assert table.hidden() == {2: []}


class Racer:
    """A writer that deletes another row right before each of the first attempts to create a version."""

    def __init__(self, table: Table, rows: list[int]) -> None:
        self.table = table
        self.rows = rows

    def __call__(self, call: Call) -> None:
        if call.method == "put_if_absent" and self.rows:
            row = self.rows.pop(0)
            version = self.table.log.latest().version
            self.table.store.fault = lambda call: None
            assert isinstance(self.table.delete({0: BitMap([row])}, version=version), Committed)
            self.table.store.fault = self


def test_delete_that_loses_races_is_merged_again_without_leftovers(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([9])})
    own = table.names("_deletions")
    table.store.fault = Racer(table, [1, 2, 3])
    assert table.made(stale, {0: BitMap([9])}) == 5
    assert table.hidden() == {0: [1, 2, 3, 9], 1: [], 2: []}
    recorded = read_transaction(table.log, table.log.read_version(5))
    assert (recorded.uuid, recorded.read_version) == (stale.uuid, 4)
    assert [name for name in table.names("_transactions") if stale.uuid in name] == [recorded.file_name]
    # The planned deletion file is left to a cleanup; the merged files of failed attempts are removed.
    assert set(table.names("_deletions")) == table.referenced() | set(own)


def test_delete_that_gives_up_leaves_only_its_planned_deletion_files(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([9])})
    own = table.names("_deletions")
    table.store.fault = Racer(table, [1, 2, 3, 4])
    assert isinstance(table.commit(stale, {0: BitMap([9])}, max_retries=2), Contended)
    assert not [name for name in table.names("_transactions") if stale.uuid in name]
    assert set(table.names("_deletions")) == table.referenced() | set(own)


def test_delete_of_a_row_deleted_by_a_race_winner_conflicts_and_leaves_no_files(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([9])})
    own = table.names("_deletions")
    table.store.fault = Racer(table, [1, 9])
    _conflict(table.commit(stale, {0: BitMap([9])}), "both changes delete row 9")
    assert not [name for name in table.names("_transactions") if stale.uuid in name]
    assert set(table.names("_deletions")) == table.referenced() | set(own)


def test_delete_with_an_unknown_outcome_removes_no_files(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([9])})
    table.delete({0: BitMap([1])})

    def fault(call: Call) -> When | None:
        if call.method == "put_if_absent":
            return When.AFTER
        return When.BEFORE if call.method == "get" and call.path.endswith(manifest_name(3)) else None

    table.store.fault = fault
    assert isinstance(table.commit(stale, {0: BitMap([9])}), Unknown)
    table.store.fault = lambda call: None
    assert not [call for call in table.store.calls if call.method == "delete"]
    # The commit had taken effect.
    assert table.hidden()[0] == [1, 9]


def test_deletion_file_of_a_possibly_pending_commit_is_kept(table: Table) -> None:
    stale = planned_delete(table.log, 1, {0: BitMap([9])})
    table.delete({0: BitMap([1])})
    before = set(table.names("_deletions"))
    table.store.fault = lambda call: When.BEFORE if call.method == "put_if_absent" else None
    table.commit(stale, {0: BitMap([9])})
    table.store.fault = lambda call: None
    assert len(set(table.names("_deletions")) - before) == 1
    assert not [name for name in table.names("_transactions") if stale.uuid in name]


def test_failure_while_merging_deletes_leaves_no_files(table: Table) -> None:
    rows = {0: BitMap([9]), 1: BitMap([9])}
    stale = planned_delete(table.log, 1, rows)
    table.delete({0: BitMap([1]), 1: BitMap([1])})
    before = table.names("_deletions")
    puts: list[str] = []

    def fault(call: Call) -> When | None:
        if call.method == "put" and "_deletions" in call.path:
            puts.append(call.path)
        return When.BEFORE if len(puts) == 2 else None

    table.store.fault = fault
    with pytest.raises(StorageError):
        table.commit(stale, rows)
    table.store.fault = lambda call: None
    assert table.log.latest().version == 2
    # The removal also failed; it is best effort, and a cleanup finds the file.
    assert set(before) <= set(table.names("_deletions"))


def test_deletes_and_rewrites_require_a_read_version(table: Table) -> None:
    old = table.log.read_version(1).fragments[0]
    group = RewriteGroup(old_fragments=(old,), new_fragments=(fragment(),))
    delete = planned_delete(table.log, 1, {0: BitMap([9])})
    for operation in (Rewrite(groups=(group,)), delete.operation):
        with pytest.raises(InvalidInputError, match="needs a read version"):
            table.commit(Transaction(read_version=0, operation=operation))
