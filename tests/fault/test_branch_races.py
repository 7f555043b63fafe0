"""Several writers create, change, and delete the same branch at the same time."""

import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from types import ModuleType

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.compaction.plan import CompactionTask
from lance_core.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidInputError,
    NotFoundError,
    RefAlreadyExistsError,
    RefConflictError,
    RefNotFoundError,
    StorageError,
)
from lance_core.refs import branches, cloning
from tests.support.numbered_rows import numbered_rows

NUM_WRITERS = 8


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    lance.write_dataset(numbered_rows(0, 5), uri)
    lance.write_dataset(numbered_rows(5, 6), uri, mode="append")
    return uri


@pytest.mark.parametrize("versions", [[2] * NUM_WRITERS, [1, 2] * (NUM_WRITERS // 2)], ids=["same", "different"])
def test_at_most_one_of_many_writers_creates_a_branch(uri: str, versions: list[int]) -> None:
    """If all start from the same version, exactly one succeeds; if they start from different versions, all may fail."""
    barrier = Barrier(NUM_WRITERS)

    def make(version: int) -> object:
        handle = lance_core.dataset(uri)
        barrier.wait()
        try:
            return handle.create_branch("b", version).version
        except (RefAlreadyExistsError, RefConflictError, CommitOutcomeUnknownError) as error:
            # A conflict if the other version was withdrawn; unknown if that happened before it could be read.
            return error

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        results = list(pool.map(make, versions))
    winners = [result for result in results if isinstance(result, int)]
    assert len(winners) == 1 or (not winners and len(set(versions)) > 1)
    if not winners:
        assert lance_core.dataset(uri).branches.list() == {}
        return
    (winner,) = winners
    for reader in (lance, lance_core):
        assert reader.dataset(uri).branches.list()["b"]["parent_version"] == winner
        branch = reader.dataset(uri).checkout_version(("b", None))
        assert (branch.version, branch.count_rows()) == (winner, {1: 5, 2: 6}[winner])


def test_simultaneous_appends_to_a_branch_lose_no_row(uri: str) -> None:
    lance_core.dataset(uri).create_branch("b")
    barrier = Barrier(NUM_WRITERS)

    def append(number: int) -> None:
        library = (lance, lance_core)[number % 2]
        barrier.wait()
        for row in range(3):
            start = 100 + 10 * number + row
            library.write_dataset(numbered_rows(start, start + 1), f"{uri}/tree/b", mode="append")

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        list(pool.map(append, range(NUM_WRITERS)))
    expected = [*range(6), *(100 + 10 * number + row for number in range(NUM_WRITERS) for row in range(3))]
    for reader in (lance, lance_core):
        branch = reader.dataset(f"{uri}/tree/b")
        assert sorted(branch.to_table()["x"].to_pylist()) == expected
        assert [each["version"] for each in branch.versions()] == list(range(2, 2 + 1 + 3 * NUM_WRITERS))
        assert reader.dataset(uri).count_rows() == 6


def test_simultaneous_branch_creations_and_deletions_leave_the_main_branch_intact(uri: str) -> None:
    barrier = Barrier(NUM_WRITERS)

    def work(number: int) -> None:
        handle = lance_core.dataset(uri)
        barrier.wait()
        for _ in range(4):
            # The files of a branch that is deleted during its creation are removed.
            with suppress(RefAlreadyExistsError, RefConflictError, RefNotFoundError, StorageError):
                if number % 2:
                    handle.branches.delete("b")
                else:
                    handle.create_branch("b")

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        list(pool.map(work, range(NUM_WRITERS)))
    for reader in (lance, lance_core):
        assert reader.dataset(uri).count_rows() == 6
    with suppress(RefNotFoundError):
        lance_core.dataset(uri).branches.delete("b")
    assert lance_core.dataset(uri).create_branch("b").count_rows() == 6


@pytest.mark.parametrize("module", [lance, lance_core], ids=["pylance", "ours"])
@pytest.mark.parametrize("num_appends", [1, 2])
def test_a_branch_to_which_other_writers_commit_immediately_is_kept(
    uri: str, monkeypatch: pytest.MonkeyPatch, module: ModuleType, num_appends: int
) -> None:
    made = branches.create_ref

    def go_on(*arguments: object, **options: object) -> object:
        monkeypatch.setattr(branches, "create_ref", made)
        outcome = made(*arguments, **options)
        for number in range(num_appends):
            module.write_dataset(numbered_rows(100 + number, 101 + number), f"{uri}/tree/b", mode="append")
        module.dataset(f"{uri}/tree/b").cleanup_old_versions(older_than=timedelta(0))
        return outcome

    monkeypatch.setattr(branches, "create_ref", go_on)
    lance_core.dataset(uri).create_branch("b")
    branch = lance_core.dataset(uri).checkout_version(("b", None))
    assert branch.count_rows() == 6 + num_appends
    assert set(lance.dataset(uri).branches.list()) == {"b"}


@pytest.mark.parametrize(("num_appends", "cleans_up"), [(1, False), (2, False), (1, True), (3, True)])
def test_a_clone_to_which_other_writers_commit_immediately_is_kept_or_has_an_unknown_outcome(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_appends: int, cleans_up: bool
) -> None:
    target = str(tmp_path / "clone")
    commit = cloning.commit

    def go_on(*arguments: object, **options: object) -> object:
        manifest = commit(*arguments, **options)
        for number in range(num_appends):
            lance_core.write_dataset(numbered_rows(100 + number, 101 + number), target, mode="append")
        if cleans_up:
            lance_core.dataset(target).cleanup_old_versions(older_than=timedelta(0))
        return manifest

    monkeypatch.setattr(cloning, "commit", go_on)
    is_shown = not cleans_up or num_appends == 1
    with nullcontext() if is_shown else pytest.raises(CommitOutcomeUnknownError):
        lance_core.dataset(uri).shallow_clone(target, 2)
    assert lance_core.dataset(target).count_rows() == 6 + num_appends


@pytest.mark.parametrize("num_appends", range(3))
@pytest.mark.parametrize("opened", ["by uri", "by handle"])
def test_append_to_a_branch_that_was_recreated_in_the_meantime_is_refused(
    uri: str, opened: str, num_appends: int
) -> None:
    """The written files were removed with the old branch."""
    lance_core.dataset(uri).create_branch("b", 2)
    branch = f"{uri}/tree/b"
    lance_core.write_dataset(numbered_rows(50, 51), branch, mode="append")

    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbered_rows(60, 61).to_batches()
        lance_core.dataset(uri).branches.delete("b")
        lance_core.dataset(uri).create_branch("b", 2)
        for number in range(num_appends):
            lance_core.write_dataset(numbered_rows(70 + number, 71 + number), branch, mode="append")
        yield from numbered_rows(61, 62).to_batches()

    reader = pa.RecordBatchReader.from_batches(numbered_rows(0, 1).schema, batches())
    target = branch if opened == "by uri" else lance_core.dataset(branch)
    with pytest.raises(CommitConflictError, match="recreated"):
        lance_core.write_dataset(reader, target, mode="append", max_rows_per_file=1)
    for module in (lance, lance_core):
        rows = module.dataset(branch).to_table()["x"].to_pylist()
        assert sorted(rows) == [*range(6), *range(70, 70 + num_appends)]


CHANGES_OF_A_BRANCH = {
    "append": lambda branch: lance_core.write_dataset(numbered_rows(60, 61), branch, mode="append"),
    "delete": lambda branch: branch.delete("x = 0"),
    "config": lambda branch: branch.update_config({"a": "1"}),
    "overwrite": lambda branch: lance_core.LanceDataset.commit(
        branch, lance_core.LanceOperation.Overwrite(branch.schema, []), read_version=branch.version
    ),
    "compact": lambda branch: branch.optimize.compact_files(),
}


@pytest.mark.parametrize("num_appends", range(3))
@pytest.mark.parametrize("change", CHANGES_OF_A_BRANCH)
@pytest.mark.sampled(8)
def test_change_through_a_stale_handle_of_a_recreated_branch_is_refused(
    uri: str, change: str, num_appends: int
) -> None:
    lance_core.dataset(uri).create_branch("b", 2)
    branch = f"{uri}/tree/b"
    lance_core.write_dataset(numbered_rows(50, 51), branch, mode="append")
    stale = lance_core.dataset(branch)
    lance_core.dataset(uri).branches.delete("b")
    lance_core.dataset(uri).create_branch("b", 2)
    for number in range(num_appends):
        lance_core.write_dataset(numbered_rows(70 + number, 71 + number), branch, mode="append")
    version = lance_core.dataset(branch).version
    with pytest.raises((CommitConflictError, NotFoundError, InvalidInputError)):
        CHANGES_OF_A_BRANCH[change](stale)
    latest = lance_core.dataset(branch)
    assert latest.version == version
    assert sorted(latest.to_table()["x"].to_pylist()) == [*range(6), *range(70, 70 + num_appends)]
    stale.checkout_latest()
    CHANGES_OF_A_BRANCH[change](stale)
    lance.dataset(branch).to_table()


@pytest.mark.parametrize("is_asked", [False, True], ids=["opened", "asked before"])
@pytest.mark.parametrize("change", CHANGES_OF_A_BRANCH)
def test_change_through_a_handle_of_a_deleted_branch_is_refused(uri: str, change: str, is_asked: bool) -> None:
    lance_core.dataset(uri).create_branch("b", 2)
    branch = f"{uri}/tree/b"
    lance_core.write_dataset(numbered_rows(50, 51), branch, mode="append")
    stale = lance_core.dataset(branch)
    assert not is_asked or stale.line
    lance_core.dataset(uri).branches.delete("b")
    with pytest.raises((RefNotFoundError, CommitConflictError, NotFoundError)):
        CHANGES_OF_A_BRANCH[change](stale)
    lance_core.dataset(uri).create_branch("b", 2)
    assert lance_core.dataset(branch).count_rows() == 6


HANDLES_OF_A_BRANCH = {
    "made": lambda made: made,
    "pickled": lambda made: pickle.loads(pickle.dumps(made)),
    "checked out": lambda made: made.checkout_version(made.version),
    "written by uri": lambda made: lance_core.write_dataset(numbered_rows(40, 41), made.uri, mode="append"),
    "written by handle": lambda made: lance_core.write_dataset(numbered_rows(40, 41), made, mode="append"),
    "committed": lambda made: lance_core.LanceDataset.commit(
        made.uri, lance_core.LanceOperation.UpdateConfig(lance_core.LanceOperation.UpdateMap({})), made.version
    ),
}


@pytest.mark.parametrize("change", CHANGES_OF_A_BRANCH)
@pytest.mark.parametrize("handle", HANDLES_OF_A_BRANCH)
@pytest.mark.sampled(15)
def test_handle_of_a_branch_can_still_be_used_after_a_cleanup(uri: str, handle: str, change: str) -> None:
    kept = HANDLES_OF_A_BRANCH[handle](lance_core.dataset(uri).create_branch("b", 2))
    branch = f"{uri}/tree/b"
    lance_core.write_dataset(numbered_rows(50, 51), branch, mode="append")
    lance_core.dataset(branch).cleanup_old_versions(older_than=timedelta(0))
    CHANGES_OF_A_BRANCH[change](kept)
    lance.dataset(branch).to_table()


def test_compaction_of_a_branch_finishes_although_its_version_was_cleaned_up(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lance_core.dataset(uri).create_branch("b", 2)
    branch = f"{uri}/tree/b"
    execute = CompactionTask.run

    def execute_then_clean_up(*arguments: object) -> object:
        monkeypatch.setattr(CompactionTask, "run", execute)
        result = execute(*arguments)
        lance_core.write_dataset(numbered_rows(50, 51), branch, mode="append")
        lance_core.dataset(branch).cleanup_old_versions(older_than=timedelta(0))
        return result

    monkeypatch.setattr(CompactionTask, "run", execute_then_clean_up)
    lance_core.dataset(branch).optimize.compact_files()
    assert sorted(lance.dataset(branch).to_table()["x"].to_pylist()) == [*range(6), 50]


@pytest.mark.parametrize("change", CHANGES_OF_A_BRANCH)
def test_a_writer_with_a_fast_clock_does_not_confuse_a_branch_with_its_predecessor(
    uri: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version of the old branch appears to be newer than the new branch."""
    lance_core.dataset(uri).create_branch("b", 2)
    branch = f"{uri}/tree/b"
    now = time.time_ns
    with monkeypatch.context() as ahead:
        ahead.setattr(time, "time_ns", lambda: now() + 60 * 10**9)
        for number in (50, 51):
            lance_core.write_dataset(numbered_rows(number, number + 1), branch, mode="append")
        stale = lance_core.dataset(branch)
    lance_core.dataset(uri).branches.delete("b")
    lance_core.dataset(uri).create_branch("b", 2)
    lance_core.write_dataset(numbered_rows(70, 71), branch, mode="append")
    with pytest.raises((CommitConflictError, NotFoundError)):
        CHANGES_OF_A_BRANCH[change](stale)
    assert sorted(lance.dataset(branch).to_table()["x"].to_pylist()) == [*range(6), 70]


@pytest.mark.parametrize("num_appends", [0, 1, 2])
def test_undoing_the_creation_of_a_branch_removes_no_version_of_other_writers(
    uri: str, num_appends: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer took the first version for a leftover, removed it, and created a version with its number."""
    branch = f"{uri}/tree/b"
    find_rival = cloning._find_rival

    def find_late(*arguments: object) -> object:
        monkeypatch.setattr(cloning, "_find_rival", find_rival)
        lance_core.dataset(uri).branches.delete("b")
        lance_core.dataset(uri).create_branch("b", 1)
        for number in range(num_appends):
            lance_core.write_dataset(numbered_rows(50 + number, 51 + number), branch, mode="append")
        return find_rival(*arguments)

    monkeypatch.setattr(cloning, "_find_rival", find_late)
    with pytest.raises(RefAlreadyExistsError):
        lance_core.dataset(uri).create_branch("b", 2)
    assert sorted(lance.dataset(branch).to_table()["x"].to_pylist()) == [*range(5), *range(50, 50 + num_appends)]
