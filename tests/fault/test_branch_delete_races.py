"""Two operations delete, use, or create the same branch: one stops before a store call while the other runs completely.

Wherever the first operation stops, the result of every operation that reports success must hold.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import lance
import pytest

import lance_core
from lance_core.errors import RefAlreadyExistsError, RefConflictError, RefNotFoundError, VersionNotFoundError
from lance_core.io.local_store import LocalStore
from tests.support.numbered_rows import numbered_rows

REFUSALS = (RefConflictError, RefAlreadyExistsError, RefNotFoundError, VersionNotFoundError)
EACH = (lance, lance_core)
BOTH = pytest.mark.parametrize("library", EACH, ids=["pylance", "ours"])
METHODS = ("get", "head", "put", "put_if_absent", "delete", "list", "list_names", "list_recursive")
LAST_LOOK = (("delete", "_refs/branches/b.json"), ("put", "tree/b/_versions/.tmp_removal"))
"""Calls of a delete that come between its first look at who needs the branch and its last one."""

Verb = Callable[[str], object]


def _delete(uri: str) -> None:
    lance_core.dataset(uri).branches.delete("b")


def _make(uri: str) -> None:
    lance_core.dataset(uri).create_branch("b", 1)


def _make_and_append(uri: str) -> None:
    branch = lance_core.dataset(uri).create_branch("b", 1)
    lance_core.write_dataset(numbered_rows(90, 91), branch, mode="append")


def _tag(uri: str, library: ModuleType = lance_core) -> None:
    library.dataset(uri).tags.create("t", ("b", None))


def _move_tag(uri: str) -> None:
    lance_core.dataset(uri).tags.update("main", ("b", None))


def _fork(uri: str, library: ModuleType = lance_core) -> None:
    library.dataset(uri).create_branch("c", ("b", None))


def _describe(uri: str) -> None:
    lance_core.dataset(uri).branches.replace_metadata("b", {"key": "value"})


def _table(uri: str, *, grown: bool) -> str:
    """Create a tagged table of three rows and a branch, which has two more rows if ``grown`` is set."""
    main = lance_core.write_dataset(numbered_rows(0, 3), uri)
    main.tags.create("main", 1)
    branch = main.create_branch("b")
    if grown:
        lance_core.write_dataset(numbered_rows(3, 5), branch, mode="append")
    return uri


def _leftover(uri: str) -> str:
    """Leave the files of a branch whose creator was killed before it wrote the record."""
    _table(uri, grown=False)
    (Path(uri) / "_refs/branches/b.json").unlink()
    return uri


@dataclass
class Outcome:
    """The results of both operations; an error means that the operation was refused."""

    uri: str
    at: str = ""
    first: Exception | None = None
    other: Exception | None = None

    def values(self, reference: str | tuple[str, None]) -> list[int]:
        """Return the rows of a tag or branch, which must be equal in both libraries."""
        theirs, ours = (
            sorted(each.dataset(self.uri).checkout_version(reference).to_table()["x"].to_pylist()) for each in EACH
        )
        assert theirs == ours
        return ours


def _attempt(verb: Verb, uri: str) -> Exception | None:
    try:
        verb(uri)
    except REFUSALS as error:
        return error
    except (OSError, ValueError) as error:
        # The reference has no other branches.
        if type(error) in (OSError, ValueError):
            return error
        raise
    return None


def _stalled(
    monkeypatch: pytest.MonkeyPatch, uri: str, first: Verb, other: Verb, is_stop: Callable[[int, str, str], bool]
) -> Outcome:
    """Run the first operation, and the other one before the store call at which the first is stopped."""
    outcome = Outcome(uri)
    calls = 0

    def before(method: str, path: str) -> None:
        nonlocal calls
        if outcome.at:
            return
        calls += 1
        if is_stop(calls - 1, method, path):
            outcome.at = f"{method} {path.removeprefix(uri)}"
            outcome.other = _attempt(other, uri)

    def wrapped(method: str) -> Callable[..., object]:
        call = getattr(LocalStore, method)

        def run(store: LocalStore, path: str, *arguments: object, **named: object) -> object:
            before(method, path)
            return call(store, path, *arguments, **named)

        return run

    with monkeypatch.context() as patch:
        for method in METHODS:
            patch.setattr(LocalStore, method, wrapped(method))
        outcome.first = _attempt(first, uri)
    return outcome


def _at_each_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make: Callable[[str], str], first: Verb, other: Verb
) -> Iterator[Outcome]:
    """Yield one outcome for each store call of the first operation."""
    number = 0
    while True:
        uri = make(str(tmp_path / f"{number}"))
        stop = number
        outcome = _stalled(monkeypatch, uri, first, other, lambda calls, method, path, stop=stop: calls == stop)
        if not outcome.at:
            break
        _check_whole(outcome)
        yield outcome
        _clear(outcome)
        number += 1
    assert number


def _check_whole(outcome: Outcome) -> None:
    """Check that all listed branches and the main branch are complete."""
    ours = lance_core.dataset(outcome.uri)
    for name in (*ours.branches.list(), *ours.tags.list()):
        assert outcome.values((name, None) if name in ours.branches.list() else name)[:3] == [0, 1, 2], outcome
    assert ours.count_rows() == 3
    assert not list(Path(outcome.uri).rglob(".tmp*")), outcome


def _clear(outcome: Outcome) -> None:
    """Check that the branch can be deleted and created again."""
    ours = lance_core.dataset(outcome.uri)
    for tag in ours.tags.list():
        ours.tags.delete(tag)
    for name in ("c", "b"):
        _attempt(lambda uri, name=name: lance_core.dataset(uri).branches.delete(name), outcome.uri)
    assert ours.branches.list() == {}, outcome
    assert not any(path.is_file() for path in (Path(outcome.uri) / "tree").rglob("*")), outcome
    _make(outcome.uri)


GROWN = pytest.mark.parametrize("grown", [False, True], ids=["fresh", "grown"])
USES = pytest.mark.parametrize(
    ("use", "used"), [(_tag, "t"), (_move_tag, "main"), (_fork, ("c", None))], ids=["tag", "moved tag", "branch"]
)


@USES
@pytest.mark.parametrize("deletes_first", [True, False], ids=["delete stops", "use stops"])
@pytest.mark.sampled(1)
def test_an_operation_that_needs_a_branch_being_deleted_is_refused_or_keeps_the_branch(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    use: Verb,
    used: str | tuple[str, None],
    deletes_first: bool,
) -> None:
    pair = (_delete, use) if deletes_first else (use, _delete)
    for outcome in _at_each_call(monkeypatch, tmp_path, lambda uri: _table(uri, grown=True), *pair):
        delete, needs = (outcome.first, outcome.other) if deletes_first else (outcome.other, outcome.first)
        assert delete is not None or needs is not None, outcome
        names = lance_core.dataset(outcome.uri).branches.list()
        if needs is None:
            assert outcome.values(used) == [0, 1, 2, 3, 4], outcome
        if delete is None:
            assert "b" not in names, outcome
        else:
            assert "b" in names, outcome


@BOTH
@GROWN
@pytest.mark.parametrize(("use", "used"), [(_tag, "t"), (_fork, ("c", None))], ids=["tag", "branch"])
@pytest.mark.parametrize("stop", LAST_LOOK, ids=["record", "mark"])
@pytest.mark.sampled(8)
def test_a_branch_delete_checks_again_for_users_of_the_branch_after_removing_the_record(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    library: ModuleType,
    use: Callable[[str, ModuleType], object],
    used: str | tuple[str, None],
    grown: bool,
    stop: tuple[str, str],
) -> None:
    """The reference, which does not check for the record, is one of the users."""
    uri = _table(str(tmp_path / "table"), grown=grown)
    outcome = _stalled(
        monkeypatch,
        uri,
        _delete,
        lambda uri: use(uri, library),
        lambda calls, method, path: method == stop[0] and path.endswith(stop[1]),
    )
    assert outcome.at
    _check_whole(outcome)
    if outcome.other is None:
        assert isinstance(outcome.first, RefConflictError)
        assert outcome.values(used) == list(range(5 if grown else 3))
        assert "b" in lance.dataset(uri).branches.list()
    else:
        # The reference creates the manifest of a branch before it checks for the other record, and does not remove it.
        assert ("b" in lance.dataset(uri).branches.list()) == (outcome.first is not None)


@pytest.mark.parametrize("make", [_make, _make_and_append], ids=["made", "written"])
@pytest.mark.sampled(1)
def test_a_branch_created_while_another_branch_of_the_same_name_is_deleted_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Verb
) -> None:
    made = 0
    for outcome in _at_each_call(monkeypatch, tmp_path, lambda uri: _table(uri, grown=False), _delete, make):
        if outcome.other is None:
            made += 1
            assert outcome.values(("b", None)) == [0, 1, 2, *([90] if make is _make_and_append else [])], outcome
        else:
            assert outcome.first is None, outcome
    assert made


@pytest.mark.parametrize("make_table", [_leftover, lambda uri: _table(uri, grown=False)], ids=["leftover", "whole"])
def test_a_branch_delete_during_the_creation_of_the_branch_leaves_a_complete_branch_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_table: Callable[[str], str]
) -> None:
    for outcome in _at_each_call(monkeypatch, tmp_path, make_table, _make, _delete):
        if "b" in lance_core.dataset(outcome.uri).branches.list():
            assert outcome.first is None, outcome


@pytest.mark.parametrize("deletes_first", [True, False], ids=["delete stops", "description stops"])
@pytest.mark.sampled(1)
def test_a_metadata_update_during_a_branch_delete_does_not_recreate_the_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes_first: bool
) -> None:
    pair = (_delete, _describe) if deletes_first else (_describe, _delete)
    for outcome in _at_each_call(monkeypatch, tmp_path, lambda uri: _table(uri, grown=True), *pair):
        delete = outcome.first if deletes_first else outcome.other
        assert ("b" in lance_core.dataset(outcome.uri).branches.list()) == (delete is not None), outcome


@GROWN
@pytest.mark.sampled(1)
def test_two_simultaneous_branch_deletes_remove_the_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grown: bool
) -> None:
    for outcome in _at_each_call(monkeypatch, tmp_path, lambda uri: _table(uri, grown=grown), _delete, _delete):
        assert outcome.first is None or outcome.other is None, outcome
        assert lance_core.dataset(outcome.uri).branches.list() == {}, outcome


def test_a_branch_delete_repeated_after_a_kill_restores_the_record_if_the_branch_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference tags versions of a branch without a record."""
    uri = _table(str(tmp_path / "table"), grown=True)
    record = (Path(uri) / "_refs/branches/b.json").read_bytes()

    def die(uri: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _stalled(
            monkeypatch, uri, _delete, die, lambda calls, method, path: method == "delete" and path.endswith("manifest")
        )
    assert lance_core.dataset(uri).branches.list() == {}
    with pytest.raises(RefConflictError, match=r"is being deleted.*branches\.delete"):
        _make(uri)
    _tag(f"{uri}/tree/b", lance)
    with pytest.raises(RefConflictError, match="is used by tags"):
        _delete(uri)
    assert (Path(uri) / "_refs/branches/b.json").read_bytes() == record
    _check_whole(Outcome(uri))
