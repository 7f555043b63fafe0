"""A writer commits late and is killed, so that its version has the number of a version that a cleanup removed.

No newer version builds on the late version. It must not be used to decide conflicts: neither by a handle opened before
the late commit, nor by a handle opened on the late version.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup.guard import Guard
from lance_core.commit import commit as api_commit
from lance_core.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CommitOvertakenError,
    IncompatibleTransactionError,
    NotFoundError,
    StorageError,
)
from lance_core.io.local_store import LocalStore
from lance_core.table.version_log import VersionLog
from lance_core.transactions.options import CommitOptions
from tests.support.numbered_rows import numbers_twice
from tests.support.s3_servers import S3Server

NO_AGE = timedelta(0)
REFUSALS = (CommitConflictError, CommitOutcomeUnknownError, IncompatibleTransactionError, NotFoundError)


class Killed(BaseException):
    """Raised where a writer is killed."""


def _table(uri: str, *, stable: bool = False) -> lance_core.LanceDataset:
    """Create a table whose version 3 has three fragments."""
    lance_core.write_dataset(numbers_twice(1, 2, 3), uri, enable_stable_row_ids=stable)
    for numbers in ((4, 5, 6), (7, 8, 9)):
        lance_core.write_dataset(numbers_twice(*numbers), uri, mode="append")
    return lance_core.dataset(uri)


def _append(uri: str, number: int, branch: str | None = None) -> None:
    target = uri if branch is None else lance_core.dataset(uri).checkout_version((branch, None))
    lance_core.write_dataset(numbers_twice(number), target, mode="append")


def _content(uri: str) -> list[tuple[int, int]]:
    columns = lance.dataset(uri).to_table(columns=["a", "b"]).to_pydict()
    return sorted(zip(columns["a"], columns["b"], strict=True))


def _update(uri: str, where: str) -> None:
    lance.dataset(uri).update({"b": "b + 1000"}, where=where)


@contextmanager
def _at_create(before: Callable[[], object] | None = None, after: Callable[[], object] | None = None) -> Iterator[None]:
    """Run an action right before, or right after, the next version is created."""
    create = VersionLog.create

    def once(log: VersionLog, *arguments: object) -> object:
        VersionLog.create = create
        if before is not None:
            before()
        outcome = create(log, *arguments)
        if after is not None:
            after()
        return outcome

    VersionLog.create = once
    try:
        yield
    finally:
        VersionLog.create = create


def _die() -> None:
    raise Killed


LATE: dict[str, Callable[[lance_core.LanceDataset], object]] = {
    "config": lambda dataset: dataset.update_config({"x": "1"}),
    "delete of nothing": lambda dataset: dataset.delete("a = 900"),
    "append": lambda dataset: lance_core.write_dataset(numbers_twice(70), dataset, mode="append"),
}
FOURTH: dict[str, Callable[[str], object]] = {
    "update": lambda uri: _update(uri, "a in (1, 4)"),
    "delete": lambda uri: lance_core.dataset(uri).delete("a in (1, 4)"),
    "overwrite": lambda uri: lance_core.write_dataset(numbers_twice(*range(1, 10)), uri, mode="overwrite"),
}
"""The real fourth version, which the cleanup removes."""
FIFTH: dict[str, Callable[[str], object]] = {
    "delete": lambda uri: lance_core.dataset(uri).delete("a = 4 OR a = 9"),
    "update": lambda uri: _update(uri, "a = 4 OR a = 9"),
    "append": lambda uri: _append(uri, 40),
}


@pytest.mark.parametrize("opened", ["before", "on it"])
@pytest.mark.parametrize("stable", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "stable"])
@pytest.mark.parametrize(("late", "fourth", "fifth"), list(itertools.product(LATE, FOURTH, FIFTH)))
@pytest.mark.sampled(12)
def test_a_version_left_by_a_late_writer_is_ignored_when_conflicts_are_resolved(
    late: str, fourth: str, fifth: str, stable: bool, opened: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    behind = _table(uri, stable=stable)
    for version in (2, 3):
        behind.tags.create(f"t{version}", version)

    def overtake() -> None:
        FOURTH[fourth](uri)
        FIFTH[fifth](uri)
        fifth_version = lance_core.dataset(uri).version
        _append(uri, 50)
        lance_core.dataset(uri, version=fifth_version).cleanup_old_versions(
            older_than=NO_AGE, error_if_tagged_old_versions=False
        )

    with _at_create(overtake, _die), pytest.raises(Killed):
        LATE[late](lance_core.dataset(uri))
    before = _content(uri)
    handle = behind if opened == "before" else lance_core.dataset(uri, version=4)
    try:
        handle.delete("a = 2")
    except REFUSALS:
        assert _content(uri) == before
    else:
        assert _content(uri) == [row for row in before if row[0] != 2]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "created again"])
@pytest.mark.parametrize("verb", ["append", "delete", "config", "overwrite"])
def test_a_late_commit_to_a_deleted_branch_appears_in_no_other_branch(
    verb: str, recreated: bool, times: int, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    _table(uri).create_branch("b")
    _append(uri, 10, "b")
    branch = lance_core.dataset(uri).checkout_version(("b", None))
    acts: dict[str, Callable[[], object]] = {
        "append": lambda: lance_core.write_dataset(numbers_twice(70), branch, mode="append"),
        "delete": lambda: branch.delete("a in (1, 10)"),
        "config": lambda: branch.update_config({"x": "1"}),
        "overwrite": lambda: lance_core.write_dataset(numbers_twice(70), branch, mode="overwrite"),
    }
    expected = [1, 2, 3, 4, 5, 6, 7, 8, 9]

    def remove() -> None:
        lance_core.dataset(uri).branches.delete("b")
        if recreated:
            lance_core.dataset(uri).create_branch("b")
            for number in range(times):
                _append(uri, 20 + number, "b")
                expected.append(20 + number)

    with _at_create(remove):
        try:
            acts[verb]()
        except (*REFUSALS, StorageError):
            pass
        else:
            assert (verb, recreated) == ("delete", True), "only what is planned again has the new branch"
            expected.remove(1)
    if recreated:
        again = lance_core.dataset(uri).checkout_version(("b", None))
        again.validate()
        assert sorted(again.to_table()["a"].to_pylist()) == expected
    else:
        assert "b" not in lance_core.dataset(uri).branches.list()
        if any(path.is_file() for path in (tmp_path / "table" / "tree").rglob("*")):
            # Deleting the branch again removes its remaining files.
            lance_core.dataset(uri).branches.delete("b")
        lance_core.dataset(uri).create_branch("b")


@pytest.mark.parametrize("is_deep", [False, True], ids=["shallow", "deep"])
def test_a_clone_to_which_other_writers_commit_immediately_is_kept(is_deep: bool, tmp_path: Path) -> None:
    source, target = _table(str(tmp_path / "source")), str(tmp_path / "clone")

    def build() -> None:
        lance_core.dataset(target).tags.create("first", 3)
        _append(target, 50)

    with _at_create(after=build):
        (source.deep_clone if is_deep else source.shallow_clone)(target, 3)
    assert [row[0] for row in _content(target)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 50]
    assert lance_core.dataset(target, version="first").count_rows() == 9


@pytest.mark.parametrize("builds", [False, True], ids=["alone", "others build on it"])
def test_a_restore_of_a_version_that_pylance_cleans_up_meanwhile_is_not_acknowledged(
    builds: bool, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    _table(uri).delete("a < 7")
    lance_core.dataset(uri).optimize.compact_files()
    old = lance_core.dataset(uri, version=2)
    with (
        _at_create(
            lambda: lance.dataset(uri).cleanup_old_versions(older_than=NO_AGE),
            (lambda: _append(uri, 50)) if builds else None,
        ),
        pytest.raises((CommitConflictError, CommitOutcomeUnknownError)),
    ):
        old.restore()
    if not builds:
        assert [row[0] for row in _content(uri)] == [7, 8, 9]


@pytest.mark.parametrize("options", [{}, {"delete_unverified": True}, {"retain_versions": 1}], ids=str)
def test_a_cleanup_keeps_a_version_that_is_about_to_be_restored(options: dict[str, object], tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    _table(uri).delete("a < 7")
    lance_core.dataset(uri).optimize.compact_files()
    old = lance_core.dataset(uri, version=2)
    with _at_create(lambda: lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE, **options)):
        old.restore()
    assert [row[0] for row in _content(uri)] == [1, 2, 3, 4, 5, 6]
    assert not list(tmp_path.rglob(".tmp*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dynamodb", "sqlite"])
def test_a_table_in_an_external_manifest_store_opens_after_a_late_restore(
    server: S3Server, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Remove it like a cleanup by another implementation, which does not know about held versions.
    monkeypatch.setattr(VersionLog, "held_versions", lambda log, now: set())
    options = {**server.options(), "dynamodb_endpoint": server.endpoint, "sql_url": f"sqlite:///{tmp_path}/m.db"}
    uri = server.uri(f"restored-{kind}", "s3+ddb" if kind == "dynamodb" else "s3+sql")
    if kind == "dynamodb":
        uri += f"?ddbTableName={server.bucket}"
    lance_core.write_dataset(numbers_twice(1, 2), uri, storage_options=options)
    lance_core.write_dataset(numbers_twice(3, 4), uri, mode="append", storage_options=options)
    lance_core.dataset(uri, storage_options=options).delete("a < 3")
    lance_core.dataset(uri, storage_options=options).optimize.compact_files()
    before = lance_core.dataset(uri, storage_options=options).version
    old = lance_core.dataset(uri, version=2, storage_options=options)

    def clean_up() -> None:
        lance_core.dataset(uri, storage_options=options).cleanup_old_versions(older_than=NO_AGE)

    with _at_create(clean_up), pytest.raises(CommitOvertakenError):
        old.restore()
    latest = lance_core.dataset(uri, storage_options=options)
    assert latest.version == before + 2, "the version before the restore was made the latest again"
    assert latest.to_table()["a"].to_pylist() == [3, 4]
    latest.cleanup_old_versions(older_than=NO_AGE)
    lance_core.write_dataset(numbers_twice(5), uri, mode="append", storage_options=options)
    assert lance_core.dataset(uri, storage_options=options).count_rows() == 3


@pytest.mark.parametrize("act", ["open", "append", "delete"])
def test_the_latest_version_is_found_while_a_cleanup_removes_its_predecessor(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "table")
    _table(uri)
    read, is_armed = VersionLog.read, [True]

    def read_late(log: VersionLog, *arguments: object) -> object:
        if is_armed:
            is_armed.clear()
            _append(uri, 10)
            lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE)
        return read(log, *arguments)

    monkeypatch.setattr(VersionLog, "read", read_late)
    if act == "append":
        _append(uri, 11)
    else:
        dataset = lance_core.dataset(uri)
        if act == "delete":
            dataset.delete("a = 10")
    assert {row[0] for row in _content(uri)} - {10, 11} == set(range(1, 10))


@pytest.mark.parametrize("line", ["branch", "table"])
def test_a_running_cleanup_removes_no_version_of_a_recreated_branch_or_table(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "table")
    _table(uri)
    if line == "branch":
        lance_core.dataset(uri).create_branch("b", 2)
        for number in range(10, 14):
            _append(uri, number, "b")
    look, is_armed = Guard.look, [True]

    def look_late(guard: Guard) -> None:
        if is_armed:
            is_armed.clear()
            if line == "branch":
                lance_core.dataset(uri).branches.delete("b")
                lance_core.dataset(uri).create_branch("b", 3)
                _append(uri, 20, "b")
            else:
                lance_core.LanceDataset.drop(uri)
                lance_core.write_dataset(numbers_twice(20, 21), uri)
        look(guard)

    monkeypatch.setattr(Guard, "look", look_late)

    def opened() -> lance_core.LanceDataset:
        dataset = lance_core.dataset(uri)
        return dataset.checkout_version(("b", None)) if line == "branch" else dataset

    opened().cleanup_old_versions(older_than=NO_AGE)
    latest = opened()
    latest.validate()
    expected = [1, 2, 3, 4, 5, 6, 7, 8, 9, 20] if line == "branch" else [20, 21]
    assert sorted(latest.to_table()["a"].to_pylist()) == expected


@pytest.mark.parametrize("verb", ["append", "config"])
def test_a_commit_that_stalls_during_a_migration_leaves_the_table_readable(verb: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance_core.write_dataset(numbers_twice(1, 2), uri, enable_v2_manifest_paths=False)
    _append(uri, 3)

    def migrate() -> None:
        lance_core.dataset(uri).migrate_manifest_paths_v2()
        _append(uri, 4)

    handle = lance_core.dataset(uri)
    with _at_create(migrate), pytest.raises((CommitConflictError, CommitOutcomeUnknownError)):
        LATE[verb](handle)
    assert [row[0] for row in _content(uri)] == [1, 2, 3, 4]
    lance_core.dataset(uri).validate()


@pytest.mark.parametrize("wanted_by", ["tag", "branch"])
def test_a_version_is_kept_when_the_deletion_of_its_branch_is_aborted(wanted_by: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    _table(uri).create_branch("b")
    _append(uri, 10, "b")
    record = tmp_path / "table" / "_refs" / "branches" / "b.json"
    saved = record.read_bytes()

    def need_and_delete() -> None:
        if wanted_by == "tag":
            lance_core.dataset(uri).tags.create("x", ("b", 5))
        else:
            lance_core.dataset(uri).create_branch("c", ("b", 5))
        # A deletion removes the record first, and restores it if the branch turns out to be in use.
        record.unlink()

    with _at_create(after=need_and_delete), pytest.raises((CommitConflictError, CommitOutcomeUnknownError)):
        _append(uri, 20, "b")
    record.write_bytes(saved)
    dataset = lance_core.dataset(uri)
    wanted = lance_core.dataset(uri, version="x") if wanted_by == "tag" else dataset.checkout_version(("c", None))
    assert sorted(wanted.to_table()["a"].to_pylist()) == [*range(1, 10), 10, 20]
    dataset.checkout_version(("b", None)).validate()


CHANGES: dict[str, Callable[[lance.LanceDataset], object]] = {
    "drop column": lambda dataset: dataset.drop_columns(["c"]),
    "rename": lambda dataset: dataset.alter_columns({"path": "b", "name": "d"}),
    "cast": lambda dataset: dataset.alter_columns({"path": "b", "data_type": pa.int32()}),
    "delete all": lambda dataset: dataset.delete("true"),
    "update": lambda dataset: dataset.update({"b": "b + 1"}, where="a < 5"),
    "schema metadata": lambda dataset: dataset.update_schema_metadata({"k": "v"}),
    "compact": lambda dataset: dataset.optimize.compact_files(),
    "config": lambda dataset: dataset.update_config({"k": "v"}),
}


@pytest.mark.parametrize("second", ["config", "append"])
@pytest.mark.parametrize("first", CHANGES)
def test_a_handle_on_the_only_version_left_by_a_cleanup_can_still_be_used(
    first: str, second: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    table = numbers_twice(1, 2, 3).append_column("c", pa.array([1, 2, 3]))
    lance_core.write_dataset(table, uri)
    lance_core.write_dataset(table, uri, mode="append")
    handle = lance_core.dataset(uri)
    handle.cleanup_old_versions(older_than=NO_AGE)
    CHANGES[first](lance.dataset(uri))
    if second == "config":
        lance.dataset(uri).update_config({"other": "v"})
    else:
        lance.write_dataset(lance.dataset(uri).schema.empty_table(), uri, mode="append")
    handle.update_config({"ours": "v"})
    assert lance_core.dataset(uri).config()["ours"] == "v"


@pytest.mark.parametrize("left_at", ["before the listing", "after the listing"])
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("theirs", ["a = 1", "a in (1, 5)"])
def test_newer_version_that_is_also_late_does_not_prove_presence_of_a_late_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str, stable: bool, left_at: str
) -> None:
    """Both delete the same row, so that the later version contains the delete, but no version builds on it."""
    uri = str(tmp_path / "table")
    first = _table(uri, stable=stable)
    create, newer_than = VersionLog.create, VersionLog.newer_than
    left: list[Callable[[], object]] = []

    def leave_the_fifth() -> None:
        """Let a writer plan on the real fourth version, and kill it just before or after its version was created."""
        second = lance_core.dataset(uri)

        def die_late(log: VersionLog, *arguments: object) -> object:
            VersionLog.create = create
            lance_core.dataset(uri).update_config({"y": "1"})
            _append(uri, 60)
            lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE)
            left.append(lambda: create(log, *arguments))
            if left_at == "before the listing":
                left.pop()()
            raise Killed

        VersionLog.create = die_late
        with pytest.raises(Killed):
            second.delete(theirs)

    def come_late() -> None:
        lance_core.dataset(uri).update_config({"z": "1"})
        leave_the_fifth()
        VersionLog.create = create

    def list_then_leave(log: VersionLog, version: int) -> object:
        names = newer_than(log, version)
        if left and version == 4:
            left.pop()()
        return names

    monkeypatch.setattr(VersionLog, "newer_than", list_then_leave)
    with _at_create(before=come_late):
        first.delete("a = 1")
    assert (1, 1) not in _content(uri), "the delete was repeated on the latest version"


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_a_version_about_to_be_removed_is_not_restored(
    stable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleanup has made its last check for holders of the version, and has removed one of its files."""
    uri = str(tmp_path / "table")
    _table(uri, stable=stable).delete("a < 7")
    lance_core.dataset(uri).optimize.compact_files()
    cleanup = Thread(target=lambda: lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE))
    is_removing, may_remove = Event(), Event()
    delete = LocalStore.delete

    def delete_when_told(store: LocalStore, path: str, **how: object) -> None:
        if "/data/" in path and not may_remove.is_set():
            is_removing.set()
            assert may_remove.wait(60)
        delete(store, path, **how)

    def wait(seconds: float) -> None:
        may_remove.set()
        cleanup.join()

    monkeypatch.setattr(LocalStore, "delete", delete_when_told)
    monkeypatch.setattr(api_commit, "CommitOptions", partial(CommitOptions, wait=wait))
    old = lance_core.dataset(uri, version=2)
    cleanup.start()
    assert is_removing.wait(60)
    with pytest.raises(NotFoundError):
        old.restore()
    assert [row[0] for row in _content(uri)] == [7, 8, 9]
    assert not list(tmp_path.rglob(".tmp*"))


@pytest.mark.slow
def test_a_cleanup_keeps_a_version_restored_before_its_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "table")
    _table(uri).delete("a < 7")
    lance_core.dataset(uri).optimize.compact_files()
    old = lance_core.dataset(uri, version=2)
    delete = LocalStore.delete

    def restore_first(store: LocalStore, path: str, **how: object) -> None:
        monkeypatch.setattr(LocalStore, "delete", delete)
        old.restore()
        delete(store, path, **how)

    # The cleanup checks for new versions before the first removal.
    monkeypatch.setattr(LocalStore, "delete", restore_first)
    lance_core.dataset(uri).cleanup_old_versions(older_than=NO_AGE)
    assert [row[0] for row in _content(uri)] == [1, 2, 3, 4, 5, 6]
