"""Merging updates that move rows with deletes and updates of the same fragments, in memory."""

import pytest
from pyroaring import BitMap

from lance_core.io.memory_store import MemoryStore
from lance_core.table.deletion_file import DeletionFileType
from lance_core.table.version_log import VersionLog
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.create_index import CreateIndex
from lance_core.transactions.operations.update import Update, UpdateMode
from lance_core.transactions.options import CommitOptions
from lance_core.transactions.outcomes import CommitOutcome, Committed, Conflicted
from lance_core.transactions.transaction import Transaction
from tests.support.commits import commit_transaction
from tests.support.deletes import deleted_rows, planned_delete
from tests.support.manifests import column_file, coverage, index, section, with_files
from tests.support.records import fragment, overwrite

Rows = dict[int, BitMap]


@pytest.fixture
def log() -> VersionLog:
    """A table of three fragments of ten rows."""
    log = VersionLog(MemoryStore(), "table")
    _commit(log, overwrite(fragment(), fragment(), fragment()))
    return log


def _commit(log: VersionLog, transaction: Transaction, rows: Rows | None = None) -> CommitOutcome:
    return commit_transaction(log, transaction, CommitOptions(wait=lambda seconds: None, affected_rows=rows))


def _planned(log: VersionLog, rows: Rows, *, num_new: int = 1) -> Transaction:
    """Plan an update of these rows on version 1."""
    delete = planned_delete(log, 1, rows)
    operation = Update(
        updated_fragments=delete.operation.updated_fragments,
        removed_fragment_ids=delete.operation.deleted_fragment_ids,
        new_fragments=tuple(fragment(3) for _ in range(num_new)),
    )
    return Transaction(read_version=1, operation=operation)


def _hidden(log: VersionLog) -> dict[int, list[int]]:
    manifest = log.read(log.latest())
    return {fragment_id: list(rows) for fragment_id, rows in deleted_rows(log, manifest).items()}


def test_updates_of_different_rows_are_merged_as_bitmaps(log: VersionLog) -> None:
    rows = {0: BitMap([3]), 1: BitMap([1])}
    stale = _planned(log, rows)
    assert isinstance(_commit(log, _planned(log, {0: BitMap([5])}), {0: BitMap([5])}), Committed)
    outcome = _commit(log, stale, rows)
    assert isinstance(outcome, Committed)
    assert _hidden(log) == {0: [3, 5], 1: [1], 2: [], 3: [], 4: []}
    deletion = outcome.manifest.fragments[0].deletion_file
    assert (deletion.file_type, deletion.read_version, deletion.num_deleted_rows) == (DeletionFileType.BITMAP, 2, 2)


def test_updates_and_deletes_of_different_rows_are_merged_in_both_orders(log: VersionLog) -> None:
    update = _planned(log, {0: BitMap([3])})
    delete = planned_delete(log, 1, {0: BitMap([7])})
    _commit(log, planned_delete(log, 1, {0: BitMap([5])}), {0: BitMap([5])})
    assert isinstance(_commit(log, update, {0: BitMap([3])}), Committed)
    assert isinstance(_commit(log, delete, {0: BitMap([7])}), Committed)
    assert _hidden(log)[0] == [3, 5, 7]


def test_two_updates_of_the_same_row_are_not_merged(log: VersionLog) -> None:
    stale = _planned(log, {0: BitMap([3, 4])})
    _commit(log, _planned(log, {0: BitMap([4])}), {0: BitMap([4])})
    outcome = _commit(log, stale, {0: BitMap([3, 4])})
    assert isinstance(outcome, Conflicted)
    assert outcome.verdict is Verdict.RETRYABLE
    assert "both changes delete row 4 of fragment 0" in outcome.reason


def test_stale_update_with_unknown_rows_conflicts(log: VersionLog) -> None:
    stale = _planned(log, {0: BitMap([3])})
    _commit(log, _planned(log, {0: BitMap([4])}), {0: BitMap([4])})
    assert isinstance(_commit(log, stale), Conflicted)


def test_updates_that_together_empty_a_fragment_remove_the_fragment(log: VersionLog) -> None:
    stale = _planned(log, {0: BitMap(range(5))})
    rest = {0: BitMap(range(5, 10))}
    _commit(log, _planned(log, rest), rest)
    outcome = _commit(log, stale, {0: BitMap(range(5))})
    assert isinstance(outcome, Committed)
    assert [each.id for each in outcome.manifest.fragments] == [1, 2, 3, 4]


def test_stale_update_in_a_fragment_with_rewritten_columns_conflicts(log: VersionLog) -> None:
    rows = {0: BitMap([3])}
    stale = _planned(log, rows)
    first = log.read_version(1).fragments[0]
    path = first.message.files[0].path
    anew = with_files(first, column_file(path, 0, -2), column_file("new", 1))
    columns = Update(updated_fragments=(anew,), fields_modified=(1,), mode=UpdateMode.COLUMNS)
    assert isinstance(_commit(log, Transaction(read_version=1, operation=columns)), Committed)
    outcome = _commit(log, stale, rows)
    assert isinstance(outcome, Conflicted)
    assert "changed the data files of fragment 0" in outcome.reason


@pytest.mark.parametrize("is_known", [True, False])
def test_fragments_that_changed_since_an_index_build_are_removed_from_the_new_index(
    log: VersionLog, is_known: bool
) -> None:
    first = log.read_version(1).fragments[0]
    anew = with_files(first, column_file(first.message.files[0].path, 0, -2), column_file("new", 1))
    columns = Update(updated_fragments=(anew,), fields_modified=(1,), mode=UpdateMode.COLUMNS)
    known = log.read_version(1) if is_known else None
    _commit(log, Transaction(read_version=1, operation=columns))
    operation = CreateIndex(new_indices=(index("a", (0,), {0, 1, 2}), index("b", (1,), {0, 1, 2})))
    transaction = Transaction(read_version=1, operation=operation)
    outcome = commit_transaction(log, transaction, CommitOptions(), known=known)
    assert isinstance(outcome, Committed)
    assert coverage(outcome.manifest.index_section) == {"a": [0, 1, 2], "b": [1, 2]}
    # The recorded transaction contains the same coverage.
    recorded = Transaction.parse(outcome.manifest.transaction, "t").operation
    assert section(*recorded.new_indices) == outcome.manifest.index_section
