"""A commit that creates a version whose number a cleanup has freed is either kept or refused, but never lost."""

from collections.abc import Callable

import pytest

from lance_core.errors import StorageError
from lance_core.io.memory_store import MemoryStore
from lance_core.io.object_store import PutOutcome
from lance_core.table.paths import ManifestName, ManifestNaming, manifest_name
from lance_core.transactions.conflicts import Verdict
from lance_core.transactions.operations.delete import Delete
from lance_core.transactions.operations.map_update import MapUpdate
from lance_core.transactions.operations.overwrite import Overwrite
from lance_core.transactions.operations.parts import RewriteGroup
from lance_core.transactions.operations.reserve_fragments import ReserveFragments
from lance_core.transactions.operations.restore import Restore
from lance_core.transactions.operations.rewrite import Rewrite
from lance_core.transactions.operations.update_config import UpdateConfig
from lance_core.transactions.outcomes import AlreadyCommitted, CommitOutcome, Committed, Conflicted, Overtaken, Unknown
from lance_core.transactions.transaction import Transaction
from tests.support.faulty_store import Call, When
from tests.support.memory_table import MemoryTable as Table
from tests.support.records import SCHEMA, append, fragment, overwrite


def _append(table: Table) -> Transaction:
    return append(fragment(), read_version=table.latest().version)


def _delete_whole(table: Table) -> Transaction:
    return Transaction(
        read_version=table.latest().version,
        operation=Delete(updated_fragments=(), deleted_fragment_ids=(1,), predicate="true"),
    )


def _set_config(table: Table) -> Transaction:
    update = UpdateConfig(config=MapUpdate(entries={"key": "value"}))
    return Transaction(read_version=table.latest().version, operation=update)


def _replace_rows(table: Table) -> Transaction:
    return overwrite(fragment(), read_version=table.latest().version)


CHANGES = {"append": _append, "delete": _delete_whole, "config": _set_config, "overwrite": _replace_rows}


def _overtake(table: Table, num_commits: int, keep: int = 1) -> None:
    for _ in range(num_commits):
        assert isinstance(table.commit(_append(table)), Committed)
    table.clean_up(keep)


@pytest.mark.parametrize("num_commits", range(1, 6))
@pytest.mark.parametrize("change", CHANGES)
def test_commit_overtaken_by_other_commits_and_a_cleanup_is_kept_or_refused(change: str, num_commits: int) -> None:
    table = Table()
    ours = CHANGES[change](table)
    table.act_at_create(lambda: _overtake(table, num_commits))
    outcome = table.commit(ours)
    if isinstance(outcome, Committed):
        assert outcome.manifest.version == table.latest().version
    else:
        assert isinstance(outcome, (Overtaken, Conflicted, Unknown)), outcome
        assert table.latest().version == 1 + num_commits
        if isinstance(outcome, Overtaken):
            assert table.versions() == [1 + num_commits], "the version that came too late is withdrawn"


def test_overtaken_append_missing_from_the_next_version_is_withdrawn() -> None:
    table = Table()
    ours = _append(table)
    table.act_at_create(lambda: _overtake(table, 4, keep=3))
    assert table.commit(ours) == Overtaken(version=2, latest=5)
    assert table.versions() == [3, 4, 5]
    assert not {file.path for each in ours.operation.fragments for file in each.files} & table.paths()


def test_overtaken_append_that_a_compaction_may_include_has_an_unknown_outcome() -> None:
    table = Table()

    def compact_and_clean() -> None:
        _overtake(table, 3, keep=9)
        old = tuple(each for each in table.latest().fragments if each.id >= 2)
        new = fragment(num_rows=10 * len(old))
        rewrite = Rewrite(groups=(RewriteGroup(old_fragments=old, new_fragments=(new,)),))
        done = table.commit(Transaction(read_version=table.latest().version, operation=rewrite))
        assert isinstance(done, Committed), done
        table.clean_up()

    table.act_at_create(compact_and_clean)
    assert isinstance(table.commit(_append(table)), Unknown)
    assert table.versions() == [2, 5], "nothing is removed when it is not known what became of the commit"


@pytest.mark.parametrize("num_commits", range(1, 6))
@pytest.mark.parametrize("change", CHANGES)
def test_commit_that_other_writers_build_on_immediately_is_kept(change: str, num_commits: int) -> None:
    table = Table()
    table.act_at_create(lambda: _overtake(table, num_commits, keep=9), When.AFTER)
    outcome = table.commit(CHANGES[change](table))
    assert isinstance(outcome, Committed)
    assert outcome.manifest.version == 2
    assert table.versions() == list(range(1, 3 + num_commits))


@pytest.mark.parametrize("change", CHANGES)
def test_commit_is_kept_if_the_listing_misses_the_version_built_upon_it(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table()
    listed = MemoryStore.list_names

    def hide_the_next_version() -> None:
        _overtake(table, 2, keep=9)
        hidden = manifest_name(3)
        monkeypatch.setattr(
            MemoryStore, "list_names", lambda store, prefix: (n for n in listed(store, prefix) if n != hidden)
        )

    table.act_at_create(hide_the_next_version, When.AFTER)
    assert isinstance(table.commit(CHANGES[change](table)), Committed)


@pytest.mark.parametrize("num_commits", range(1, 6))
@pytest.mark.parametrize("change", CHANGES)
def test_commit_that_other_writers_build_on_is_kept_although_a_cleanup_removed_its_version(
    change: str, num_commits: int
) -> None:
    table = Table()
    table.act_at_create(lambda: _overtake(table, num_commits), When.AFTER)
    outcome = table.commit(CHANGES[change](table))
    if num_commits > 1 and change in ("delete", "config"):
        # Other writers may have removed or set the same things.
        assert isinstance(outcome, Unknown)
    else:
        assert isinstance(outcome, Committed)
        assert outcome.manifest.version == 2


def test_commit_whose_fragment_is_compacted_immediately_is_kept() -> None:
    table = Table()

    def compact() -> None:
        old = table.latest().fragments
        groups = (RewriteGroup(old_fragments=old, new_fragments=(fragment(num_rows=30),)),)
        done = table.commit(Transaction(read_version=table.latest().version, operation=Rewrite(groups=groups)))
        assert isinstance(done, Committed), done

    table.act_at_create(compact, When.AFTER)
    assert isinstance(table.commit(_append(table)), Committed)
    assert table.versions() == [1, 2, 3]


def _restore_of(table: Table, version: int) -> Transaction:
    return Transaction(read_version=table.latest().version, operation=Restore(version=version))


def _restore_first(table: Table) -> Transaction:
    return _restore_of(table, 1)


@pytest.mark.parametrize("undo", [_replace_rows, _restore_first, _set_config])
@pytest.mark.parametrize("change", CHANGES)
def test_commit_that_other_writers_revert_immediately_is_kept(
    change: str, undo: Callable[[Table], Transaction]
) -> None:
    table = Table()
    ours = CHANGES[change](table)
    undone = []
    table.act_at_create(lambda: undone.append(table.commit(undo(table))), When.AFTER)
    assert isinstance(table.commit(ours), Committed)
    if isinstance(undone[0], Committed):
        assert table.versions() == [1, 2, 3]
        repeated = table.commit(ours, is_first_try=False)
        assert isinstance(repeated, AlreadyCommitted)
        assert repeated.manifest.version == 2


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("change", ["delete", "empty overwrite"])
def test_removal_of_fragments_that_a_compaction_has_overtaken_is_not_acknowledged(change: str, keep: int) -> None:
    table = Table()
    ours = CHANGES["delete"](table)
    if change == "empty overwrite":
        ours = Transaction(read_version=1, operation=Overwrite(schema=SCHEMA, fragments=()))

    def compact_and_clean() -> None:
        old = table.latest().fragments
        groups = (RewriteGroup(old_fragments=old, new_fragments=(fragment(num_rows=20),)),)
        done = table.commit(Transaction(read_version=1, operation=Rewrite(groups=groups)))
        assert isinstance(done, Committed), done
        _overtake(table, 2, keep)

    table.act_at_create(compact_and_clean)
    assert isinstance(table.commit(ours), (Conflicted, Overtaken, Unknown))


@pytest.mark.parametrize("is_tagged", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_writer_ignores_a_version_created_out_of_order(change: str, is_tagged: bool) -> None:
    table = Table()
    first = table.log.path(table.log.latest())
    tagged = bytes(table.store.inner.get(first))
    late = CHANGES[change](table)
    behind = Transaction(
        read_version=1, operation=Delete(updated_fragments=(), deleted_fragment_ids=(0,), predicate="true")
    )

    def overtake_and_die() -> None:
        assert isinstance(table.commit(_replace_rows(table)), Committed)
        _overtake(table, 2, keep=2)
        if is_tagged:
            table.store.inner.put(first, tagged)
        table.store.fault = _listings_fail

    table.act_at_create(overtake_and_die)
    assert isinstance(table.commit(late), Unknown)
    table.store.fault = lambda call: None
    assert table.versions()[-3:] == [2, 3, 4], "the late version is left where a crashed writer left it"
    assert isinstance(table.commit(behind), Conflicted)


def test_overtaken_reservation_is_refused_and_removes_no_version() -> None:
    table = Table()
    reserve = Transaction(read_version=1, operation=ReserveFragments(num_fragments=3))
    table.act_at_create(lambda: _overtake(table, 2, keep=9), When.AFTER)
    assert isinstance(table.commit(reserve), Overtaken)
    assert table.versions() == [1, 2, 3, 4]


def test_creation_overtaken_by_another_table_is_not_acknowledged() -> None:
    table = Table()
    fresh = Table()
    fresh.clean_up(keep=1)
    fresh.store.inner.delete(fresh.log.path(fresh.log.latest()))
    assert fresh.versions() == []

    def create_and_grow() -> None:
        fresh.commit(overwrite(fragment(), fragment()))
        _overtake(fresh, 2)

    fresh.act_at_create(create_and_grow)
    outcome = fresh.commit(overwrite(fragment()), create_only=True)
    # Versions 1 and 2 of the other table were removed, and this version might have been one of them.
    assert isinstance(outcome, Unknown)
    assert fresh.versions() == [1, 3]
    assert table.versions() == [1]


def _listings_fail(call: Call) -> When | None:
    return When.BEFORE if call.method == "list_names" else None


def test_repeated_commit_does_not_count_its_orphaned_version_as_success() -> None:
    table = Table()
    ours = _append(table)

    def overtake_and_die() -> None:
        _overtake(table, 2)
        table.store.fault = _listings_fail

    table.act_at_create(overtake_and_die)
    assert isinstance(table.commit(ours), Unknown)
    table.store.fault = lambda call: None
    assert table.versions() == [2, 3]
    again = table.commit(ours, is_first_try=False)
    assert not isinstance(again, (Committed, AlreadyCommitted)), again


def test_failure_to_list_after_the_creation_of_the_manifest_leaves_the_outcome_unknown() -> None:
    table = Table()
    ours = _append(table)

    def lose_the_listings() -> None:
        table.store.fault = _listings_fail

    table.act_at_create(lose_the_listings)
    outcome = table.commit(ours)
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.cause, StorageError)


def _lose_the_answer(table: Table, meanwhile: Callable[[], object], *, says_exists: bool, in_flight: bool) -> None:
    """Make the next create succeed with a lost response, or be sent twice, so that the response is "exists"."""
    inner = table.store.inner.put_if_absent

    def put_if_absent(path: str, data: object, **durability: object) -> object:
        table.store.inner.put_if_absent = inner
        outcome = inner(path, data, **durability)
        meanwhile()
        if says_exists:
            return PutOutcome.EXISTS
        assert outcome is PutOutcome.CREATED
        raise StorageError("no answer", retryable=True, in_flight=in_flight)

    table.store.inner.put_if_absent = put_if_absent


@pytest.mark.parametrize(("says_exists", "in_flight"), [(False, False), (False, True), (True, False)])
def test_commit_with_a_lost_response_whose_version_was_cleaned_up_has_an_unknown_outcome(
    says_exists: bool, in_flight: bool
) -> None:
    table = Table()
    ours = _append(table)
    _lose_the_answer(table, lambda: _overtake(table, 2), says_exists=says_exists, in_flight=in_flight)
    outcome = table.commit(ours)
    assert isinstance(outcome, Unknown), outcome
    assert table.versions() == [4]


def test_out_of_order_version_leaves_the_outcome_of_a_commit_with_a_lost_response_unknown() -> None:
    table = Table()
    ours, late = _append(table), _append(table)

    def clean_up_and_come_late() -> None:
        _overtake(table, 2)
        table.store.fault = _listings_fail
        assert isinstance(table.commit(late, known=first), Unknown)
        table.store.fault = lambda call: None

    first = table.log.read_version(1)
    _lose_the_answer(table, clean_up_and_come_late, says_exists=False, in_flight=True)
    assert isinstance(table.commit(ours), Unknown)


def _restore_what_is_cleaned_up(table: Table, then: Callable[[], object] = lambda: None) -> CommitOutcome:
    """Restore version 1, which a cleanup removes with its files right before version 3 is created."""
    restore = Transaction(read_version=2, operation=Restore(version=1))
    old = table.paths()
    assert isinstance(table.commit(_replace_rows(table)), Committed)

    def clean_up_with_files() -> None:
        for path in old:
            table.store.inner.delete(f"table/data/{path}")
        table.clean_up()

    table.act_at_create(clean_up_with_files, then=then)
    return table.commit(restore)


def test_restore_of_a_version_whose_files_were_removed_is_undone() -> None:
    table = Table()
    assert _restore_what_is_cleaned_up(table) == Overtaken(version=3, latest=4)
    assert table.versions() == [2, 4]
    assert table.paths() == {file.path for each in table.log.read_version(2).fragments for file in each.files}


def test_undoing_a_restore_does_not_return_to_a_version_older_than_the_previous_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Table()
    remove = table.store.inner.delete

    def list_names(prefix: str) -> object:
        if 3 in (versions := [int(2**64 - 1 - int(name[:20])) for name in listed(prefix) if name[0] != "."]):
            monkeypatch.setattr(table.store.inner, "list_names", listed)
            for version in versions:
                if version == 2:
                    remove(table.log.path(ManifestName(2, ManifestNaming.V2)))
        return listed(prefix)

    listed = table.store.inner.list_names
    monkeypatch.setattr(table.store.inner, "list_names", list_names)
    assert isinstance(_restore_what_is_cleaned_up(table), Unknown)
    assert table.versions() == [3]


@pytest.mark.parametrize("change", ["append", "delete", "config"])
def test_undone_restore_is_never_built_upon(change: str) -> None:
    table = Table()
    others: list[CommitOutcome] = []
    outcome = _restore_what_is_cleaned_up(table, lambda: others.append(table.commit(CHANGES[change](table))))
    assert [(type(each), each.verdict, each.version) for each in others] == [(Conflicted, Verdict.RETRYABLE, 3)]
    assert outcome == Overtaken(version=3, latest=4)
    assert table.versions() == [2, 4]


@pytest.mark.parametrize("change", [_replace_rows, lambda table: _restore_of(table, 2)])
def test_replacement_or_restore_is_committed_after_a_restore_of_a_version_that_is_cleaned_up(
    change: Callable[[Table], Transaction],
) -> None:
    table = Table()
    others: list[CommitOutcome] = []
    outcome = _restore_what_is_cleaned_up(table, lambda: others.append(table.commit(change(table))))
    assert isinstance(others[0], Committed), others
    assert isinstance(outcome, Unknown)
    assert table.latest() == others[0].manifest


def test_append_is_committed_after_a_restore_whose_source_is_cleaned_up() -> None:
    table = Table()
    assert isinstance(table.commit(_restore_of(table, 1)), Committed)
    table.clean_up()
    assert isinstance(table.commit(_append(table)), Committed)


@pytest.mark.parametrize(("is_first_try", "verdict"), [(True, Verdict.RETRYABLE), (False, Verdict.INCOMPATIBLE)])
@pytest.mark.parametrize("change", CHANGES)
def test_conflict_with_removed_versions_is_retryable_unless_an_earlier_attempt_may_have_created_one(
    change: str, is_first_try: bool, verdict: Verdict
) -> None:
    table = Table()
    ours = CHANGES[change](table)
    _overtake(table, 3)
    outcome = table.commit(ours, is_first_try=is_first_try)
    assert isinstance(outcome, Conflicted)
    assert (outcome.verdict, outcome.is_removed) == (verdict, True)
    assert table.versions() == [4]


def test_empty_overwrite_that_is_overtaken_is_refused() -> None:
    table = Table()
    ours = Transaction(read_version=1, operation=Overwrite(schema=SCHEMA, fragments=()))
    table.act_at_create(lambda: _overtake(table, 2))
    assert isinstance(table.commit(ours), Overtaken)
