"""Cleanup plans classify every file; a file that has come into use since the plan was made is kept."""

import dataclasses
import functools
import itertools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lance_core
from lance_core.cleanup import CleanupPolicy, plan_cleanup, removal
from lance_core.cleanup.classification import PathState
from lance_core.cleanup.reachability import KeepReason
from lance_core.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    InvalidTypeError,
    StorageError,
    UnsupportedFeatureFlagError,
    VersionNotFoundError,
)
from lance_core.table.feature_flags import FeatureFlag
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file
from lance_core.table.paths import manifest_name
from tests.support.counting_store import CountingStore
from tests.support.faulty_store import Call, When

ALL = CleanupPolicy.of(timedelta(0), delete_concurrency=1)
LENIENT = CleanupPolicy.of(timedelta(0), error_if_tagged_old_versions=False, delete_concurrency=1)


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of four versions, each with its own data file."""
    for number in range(4):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="overwrite")
    return lance_core.dataset(uri)


def _length_of_strides(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """Make batches of this many files, regardless of their speed."""

    class Fixed(removal.Stride):
        def __init__(self, per_second: int | None, at_a_time: int) -> None:
            super().__init__(per_second, at_a_time)
            self.length = length

        def finish(self, actions: int) -> None:
            """Keep the number of files."""

    monkeypatch.setattr(removal, "Stride", Fixed)


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _length_of_strides(monkeypatch, 1)


def _paths(store: CountingStore) -> set[str]:
    return {info.path.removeprefix("table/") for info in store.inner.list_recursive("table")}


def _versions(dataset: lance_core.LanceDataset) -> list[int]:
    return [each["version"] for each in dataset.version_refs()]


def _change(store: CountingStore, version: int, change: Callable[[object], None]) -> None:
    """Rewrite a manifest with a change."""
    path = f"table/_versions/{manifest_name(version)}"
    file = parse_manifest_file(store.get(path), path)
    change(file.message)
    data = serialize_manifest_file(file.message, index_section=file.index_section, transaction=file.transaction)
    store.put(path, data)


def test_cleanup_plan_contains_every_file_of_the_dataset(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    store.put("table/notes.txt", b"mine")
    store.put("table/_versions/x#1", b"")
    store.put(f"table/_versions/{manifest_name(9)}#1", b"")
    dataset.tags.create("two", 2)
    plan = plan_cleanup(dataset, LENIENT)
    assert {file.path for file in plan.paths} == _paths(store)
    parts = [plan.kept, plan.removable, plan.protected, plan.possibly_needed, plan.unrecognized]
    assert sum(map(len, parts)) == len(plan.paths)
    assert plan.kept_versions == {2: KeepReason.TAGGED, 4: KeepReason.CURRENT}
    assert [name.version for name in plan.removed_versions] == [1, 3]
    assert [file.path for file in plan.unrecognized] == ["_versions/x#1", "notes.txt"]
    assert [file.path for file in plan.protected] == [f"_versions/{manifest_name(9)}#1"]
    [warning] = plan.explanation().warnings
    assert warning == "2 unrecognized files are kept (4 bytes; age of the oldest: 0 days): _versions/x#1, notes.txt"
    later = plan_cleanup(dataset, LENIENT, now_ns=time.time_ns() + 9 * 86_400 * 10**9)
    assert "age of the oldest: 9 days" in later.warnings()[0]


def test_cleanup_plan_changes_nothing_until_it_is_executed(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    before = _paths(store)
    plan = plan_cleanup(dataset, ALL)
    assert _paths(store) == before
    batches: list[tuple[int, int]] = []
    assert plan.execute(lambda *processed: batches.append(processed)) == plan.stats == plan.explanation().stats
    assert batches == sorted(batches)
    assert batches[-1] == (len(plan.removable), plan.stats.bytes_removed)
    assert before - _paths(store) == {file.path for file in plan.removable}
    assert _versions(dataset) == [4]


def test_cleanup_reads_manifests_once_and_removes_them_last(
    dataset: lance_core.LanceDataset, store: CountingStore, one_at_a_time: None
) -> None:
    store.reset()
    plan_cleanup(dataset, ALL).execute()
    gets = [call.path for call in store.calls if call.method == "get"]
    assert sorted(gets) == sorted(f"table/_versions/{manifest_name(version)}" for version in range(1, 5))
    deleted = [call.path for call in store.calls if call.method == "delete"]
    # Versions are removed one after another, each with its manifest last.
    assert [path.split("/")[1] for path in deleted] == ["_transactions", "data", "_versions"] * 3
    assert [path for path in deleted if "_versions" in path] == [
        f"table/_versions/{manifest_name(version)}" for version in (1, 2, 3)
    ]


def test_cleanup_treats_a_copied_branch_as_its_own_table(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    _change(store, 4, lambda message: setattr(message, "branch", "b"))
    assert lance_core.dataset(dataset.uri).cleanup_old_versions(timedelta(0)).old_versions == 3


@pytest.mark.parametrize("flag", [FeatureFlag.MANAGED_BLOBS, FeatureFlag.FRAGMENT_REUSE_FILES, 1 << 40])
def test_an_unknown_feature_in_any_version_stops_the_cleanup(
    dataset: lance_core.LanceDataset, store: CountingStore, flag: int
) -> None:
    def change(message) -> None:
        message.reader_feature_flags |= int(flag)
        message.writer_feature_flags |= int(flag)

    _change(store, 2, change)
    before = _paths(store)
    with pytest.raises(UnsupportedFeatureFlagError, match="version 2"):
        dataset.cleanup_old_versions(timedelta(0))
    assert _paths(store) == before


def test_cleanup_honors_the_delete_rate_limit(
    dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    paces = []

    class Watched(removal.Pace):
        def wait(self) -> None:
            paces.append(self._interval)

    monkeypatch.setattr(removal, "Pace", Watched)
    stats = dataset.cleanup_old_versions(timedelta(0), delete_rate_limit=4)
    assert stats.old_versions == 3
    assert paces == [0.25] * 9


@pytest.mark.parametrize(("asked", "threads"), [(None, 8), (1, 1), (3, 3), (10**6, 64)])
def test_cleanup_honors_the_delete_concurrency(
    dataset: lance_core.LanceDataset, monkeypatch: pytest.MonkeyPatch, asked: int | None, threads: int
) -> None:
    seen = []

    class Watched(ThreadPoolExecutor):
        def __init__(self, max_workers: int, **arguments: object) -> None:
            seen.append(max_workers)
            super().__init__(max_workers, **arguments)

    monkeypatch.setattr(removal, "ThreadPoolExecutor", Watched)
    assert dataset.cleanup_old_versions(timedelta(0), delete_concurrency=asked).old_versions == 3
    assert seen == [threads]


# ── Changes between the plan and the removal ─────────────────────────────────────────────────────────────────


def test_cleanup_keeps_a_version_tagged_after_planning(dataset: lance_core.LanceDataset, store: CountingStore) -> None:
    plan = plan_cleanup(dataset, ALL)
    dataset.tags.create("late", 2)
    stats = plan.execute()
    assert (stats.old_versions, stats.data_files_removed, stats.spared_versions) == (2, 2, 1)
    assert _versions(dataset) == [2, 4]
    dataset.checkout_version("late").validate()


def test_cleanup_keeps_a_file_that_a_new_version_references(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    plan = plan_cleanup(dataset, ALL)
    old = dataset.checkout_version(1)
    fragments = [fragment.metadata for fragment in old.get_fragments()]
    operation = lance_core.LanceOperation.Overwrite(old.schema, fragments)
    lance_core.LanceDataset.commit(dataset.uri, operation, read_version=4)
    stats = plan.execute()
    assert (stats.old_versions, stats.data_files_removed, stats.spared_versions) == (3, 2, 0)
    assert lance_core.dataset(dataset.uri).to_table()["a"].to_pylist() == [0]


def _when_deleted(store: CountingStore, part: str, number: int, action: Callable[[], object]) -> None:
    """Run an action once, just before the nth file of a kind is removed."""
    seen: list[str] = []

    def fault(call: Call) -> None:
        if call.method == "delete" and f"/{part}/" in call.path:
            seen.append(call.path)
            if len(seen) == number:
                action()

    store.fault = fault


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("place", ["_transactions", "data"])
@pytest.mark.parametrize("turn", [1, 2, 3])
def test_cleanup_keeps_a_version_tagged_before_its_removal_starts(
    dataset: lance_core.LanceDataset, store: CountingStore, one_at_a_time: None, version: int, place: str, turn: int
) -> None:
    """A version whose removal has not started remains complete, and only such versions count as spared."""
    rows = dataset.checkout_version(version).to_table()
    plan = plan_cleanup(dataset, ALL)
    outcome: list[type[BaseException]] = []

    def tag() -> None:
        try:
            dataset.tags.create("late", version)
        except VersionNotFoundError as error:
            outcome.append(type(error))

    _when_deleted(store, place, turn, tag)
    stats = plan.execute()
    if version < turn:
        # The version no longer exists and cannot be tagged.
        assert outcome == [VersionNotFoundError]
        assert dataset.tags.list() == {}
        assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (3, 0, 0)
    elif version > turn or place == "_transactions":
        # The file removed first marks the version as about to be removed, and is not needed to read the rows.
        assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (2, 1, 0)
        assert _versions(dataset) == [version, 4]
        assert dataset.checkout_version("late").to_table().equals(rows)
    else:
        # Its removal had started: the remaining files are kept, and the version is not reported as complete.
        assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (2, 0, 1)
        assert _versions(dataset) == [version, 4]
        left = {file.path.partition("/")[0] for file in plan.removable if file.goes_with == version} & {
            path.partition("/")[0] for path in _paths(store)
        }
        assert "_versions" in left
    assert stats.failed_deletes == 0


def test_cleanup_that_damaged_a_tagged_version_logs_an_error(
    dataset: lance_core.LanceDataset, store: CountingStore, one_at_a_time: None, caplog: pytest.LogCaptureFixture
) -> None:
    plan = plan_cleanup(dataset, ALL)
    _when_deleted(store, "data", 2, lambda: dataset.tags.create("late", 2))
    assert plan.execute().damaged_versions == 1
    [record] = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "version 2 is incomplete: tag 'late' was created" in record.getMessage()


def test_cleanup_reports_a_version_tagged_while_its_manifest_is_removed(
    dataset: lance_core.LanceDataset, store: CountingStore, one_at_a_time: None
) -> None:
    """The tag is created while the manifest is removed, and the final check finds the tag."""
    plan = plan_cleanup(dataset, ALL)
    _when_deleted(store, "_versions", 3, lambda: dataset.tags.create("late", 3))
    stats = plan.execute()
    assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (3, 0, 1)


@pytest.mark.parametrize(("version", "damaged"), [(2, 1), (3, 0)])
def test_cleanup_reports_damage_only_for_a_version_restored_after_its_removal(
    dataset: lance_core.LanceDataset, store: CountingStore, one_at_a_time: None, version: int, damaged: int
) -> None:
    old = dataset.checkout_version(version)
    rows = old.to_table()
    plan = plan_cleanup(dataset, ALL)
    operation = lance_core.LanceOperation.Overwrite(old.schema, [each.metadata for each in old.get_fragments()])
    restore = functools.partial(lance_core.LanceDataset.commit, dataset.uri, operation, read_version=4)
    # The first data file is already removed, and the second is removed next.
    _when_deleted(store, "data", 2, restore)
    stats = plan.execute()
    assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (3, 0, damaged)
    if not damaged:
        assert lance_core.dataset(dataset.uri).to_table().equals(rows)


def test_shared_files_are_removed_with_the_last_version_that_references_them(uri: str) -> None:
    for number in range(4):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="append")
    dataset = lance_core.write_dataset(pa.table({"a": [9]}), uri, mode="overwrite")
    plan = plan_cleanup(dataset, ALL)
    data = [file.goes_with for file in plan.removable if file.path.startswith("data/")]
    assert data == [4] * 4
    turns = [file.goes_with for file in plan.removable]
    assert turns == sorted(turns, key=lambda turn: turn or 0)


def test_late_tag_protects_every_file_that_the_tagged_version_references(
    uri: str, store: CountingStore, one_at_a_time: None
) -> None:
    for number in range(6):
        lance_core.write_dataset(pa.table({"a": [number]}), uri, mode="append")
    dataset = lance_core.write_dataset(pa.table({"a": [9]}), uri, mode="overwrite")
    plan = plan_cleanup(dataset, ALL)
    _when_deleted(store, "_versions", 3, lambda: dataset.tags.create("late", 4))
    stats = plan.execute()
    assert (stats.old_versions, stats.spared_versions, stats.damaged_versions) == (5, 1, 0)
    assert dataset.checkout_version("late").to_table()["a"].to_pylist() == [0, 1, 2, 3]


def test_slow_cleanup_checks_for_new_tags_at_regular_intervals(
    dataset: lance_core.LanceDataset, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal.Pace, "wait", lambda pace: None)
    plan = plan_cleanup(dataset, CleanupPolicy.of(timedelta(0), delete_rate_limit=2, delete_concurrency=1))
    store.reset()
    plan.execute()
    steps = [call.method for call in store.calls if call.method == "delete" or call.path.endswith("tree")]
    looks = [number for number, method in enumerate(steps) if method != "delete"]
    # At most two files are removed between two checks.
    assert max(after - before - 1 for before, after in itertools.pairwise(looks)) <= 2
    assert looks[-1] == len(steps) - 1


def test_unreadable_tag_stops_the_cleanup_before_any_removal(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    plan = plan_cleanup(dataset, ALL)
    store.put("table/_refs/tags/x.json", b"{")
    before = _paths(store)
    with pytest.raises(CorruptDataError, match=r"x\.json"):
        plan.execute()
    assert _paths(store) == before


def test_files_of_a_version_that_another_cleanup_removes_remain_protected(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    def remove_first(call: Call) -> None:
        if call.method == "get" and call.path.endswith(manifest_name(1)):
            store.inner.delete(call.path)

    store.fault = remove_first
    plan = plan_cleanup(dataset, ALL)
    assert [name.version for name in plan.removed_versions] == [2, 3]
    # Which version owns the files can no longer be determined.
    assert len(plan.protected) == 2
    assert plan.execute().old_versions == 2


def test_tag_on_a_version_that_another_process_removed_protects_nothing(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    plan = plan_cleanup(dataset, ALL)
    dataset.tags.create("late", 2)
    store.delete(f"table/_versions/{manifest_name(2)}")
    assert plan.execute().spared_versions == 0
    assert _versions(dataset) == [4]


def test_cleanup_with_an_unreadable_current_version_raises_version_not_found(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    def remove_first(call: Call) -> None:
        if call.method == "get" and call.path.endswith(manifest_name(4)):
            store.inner.delete(call.path)

    store.fault = remove_first
    before = _paths(store)
    with pytest.raises(VersionNotFoundError, match="no version 4"):
        dataset.cleanup_old_versions(timedelta(0))
    assert before - _paths(store) == {f"_versions/{manifest_name(4)}"}


def test_cleanup_of_a_dataset_that_no_longer_exists_raises_not_found(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    for path in _paths(store):
        store.delete(f"table/{path}")
    with pytest.raises(DatasetNotFoundError):
        dataset.cleanup_old_versions(timedelta(0))


# ── Files that cannot be removed ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["data", "_transactions"])
def test_manifest_is_kept_when_a_file_of_its_version_cannot_be_removed(
    dataset: lance_core.LanceDataset, store: CountingStore, place: str
) -> None:
    plan = plan_cleanup(dataset, ALL)
    stubborn = next(file.path for file in plan.removable if file.path.startswith(place))

    def refuse(call: Call) -> When | None:
        return When.BEFORE if call.method == "delete" and call.path.endswith(stubborn) else None

    store.fault = refuse
    stats = plan.execute()
    # The version is incomplete, and does not count as spared.
    assert (stats.failed_deletes, stats.old_versions, stats.spared_versions) == (1, 2, 0)
    assert len(_versions(dataset)) == 2
    store.fault = lambda call: None
    again = plan_cleanup(dataset, ALL)
    assert next((file.path, file.verified) for file in again.removable) == (stubborn, True)
    assert again.execute().old_versions == 1
    assert {file.state for file in plan_cleanup(dataset, ALL).paths} == {PathState.KEPT}


@pytest.mark.parametrize("length", [1, 100])
def test_every_data_file_that_cannot_be_removed_is_counted_for_any_batch_length(
    uri: str, store: CountingStore, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    lance_core.write_dataset(pa.table({"a": [1, 2, 3]}), uri, max_rows_per_file=1)
    dataset = lance_core.write_dataset(pa.table({"a": [4]}), uri, mode="overwrite")
    _length_of_strides(monkeypatch, length)
    store.fault = lambda call: When.BEFORE if call.method == "delete" and "/data/" in call.path else None
    stats = plan_cleanup(dataset, ALL).execute()
    assert (stats.failed_deletes, stats.old_versions, stats.transaction_files_removed) == (3, 0, 1)


def test_cleanup_counts_a_file_as_removed_despite_a_lost_response(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    """The response of the store was lost."""
    plan = plan_cleanup(dataset, ALL)
    store.fault = lambda call: When.AFTER if call.method == "delete" else None
    assert plan.execute() == plan.stats
    assert _versions(dataset) == [4]


def test_cleanup_counts_a_manifest_that_cannot_be_removed(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    store.fault = lambda call: When.BEFORE if call.method == "delete" and "_versions" in call.path else None
    stats = dataset.cleanup_old_versions(timedelta(0))
    assert (stats.failed_deletes, stats.old_versions, stats.data_files_removed) == (3, 0, 3)
    store.fault = lambda call: None
    assert dataset.cleanup_old_versions(timedelta(0)).old_versions == 3


def test_failed_listing_stops_the_cleanup_before_any_removal(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    plan = plan_cleanup(dataset, ALL)
    before = _paths(store)
    store.fault = lambda call: When.BEFORE if call.method.startswith("list") else None
    with pytest.raises(StorageError, match="injected"):
        plan.execute()
    assert _paths(store) == before


# ── Leftovers of killed writers ────────────────────────────────────────────────────────────────────────────────────

RESIDUE = [f"_versions/{manifest_name(4)}#1", "_transactions/.tmpx", "_deletions/.tmpx"]


def test_leftovers_of_crashed_writers_are_explained_and_removed(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    for path in RESIDUE:
        store.put(f"table/{path}", b"12345")
    young = plan_cleanup(dataset, ALL)
    assert {file.path for file in young.protected} == set(RESIDUE)
    policy = CleanupPolicy.of(timedelta(0), delete_unverified=True)
    explained = dataset.explain_cleanup_old_versions(timedelta(0), delete_unverified=True, include_files=True)
    listed = {file.path: (file.kind, file.unverified, file.size_bytes) for file in explained.candidate_files}
    assert [listed[f"table/{path}"] for path in RESIDUE] == [("residue", True, 5)] * 3
    stats = plan_cleanup(dataset, policy).execute()
    assert stats == explained.stats
    assert stats.residue_files_removed == 3
    # The metrics of the reference do not count the leftover; only the number of bytes includes all files.
    assert dataclasses.replace(stats, residue_files_removed=0, bytes_removed=stats.bytes_removed - 15) == young.stats
    assert not set(RESIDUE) & _paths(store)
    assert dataset.checkout_version(4).to_table()["a"].to_pylist() == [3]


def test_staging_name_of_a_kept_version_is_removed_after_the_retention_period(tmp_path: Path) -> None:
    """The writer was killed between link and unlink, so that one file has two names."""
    uri = str(tmp_path / "table")
    lance_core.write_dataset(pa.table({"a": [1]}), uri)
    final = tmp_path / "table" / "_versions" / manifest_name(1)
    staging = final.with_name(f"{final.name}#1")
    os.link(final, staging)
    dataset = lance_core.dataset(uri)
    assert dataset.cleanup_old_versions().residue_files_removed == 0
    assert staging.exists()
    old = time.time() - 8 * 86_400
    os.utime(staging, (old, old))
    assert dataset.cleanup_old_versions().residue_files_removed == 1
    assert not staging.exists()
    assert lance_core.dataset(uri).to_table()["a"].to_pylist() == [1]


@pytest.mark.parametrize(
    "arguments",
    [{"max_files": value} for value in ("1", 1.0, None, True)]
    + [{"include_files": value} for value in (1, "no", None)],
    ids=repr,
)
def test_explain_cleanup_arguments_of_the_wrong_type_raise_invalid_type(
    dataset: lance_core.LanceDataset, arguments: dict
) -> None:
    with pytest.raises(InvalidTypeError, match=next(iter(arguments))):
        dataset.explain_cleanup_old_versions(**arguments)


@pytest.mark.parametrize("verb", ["cleanup_old_versions", "explain_cleanup_old_versions"])
def test_cleanup_with_a_number_as_the_versions_argument_raises_invalid_type(
    dataset: lance_core.LanceDataset, verb: str
) -> None:
    with pytest.raises(InvalidTypeError, match="versions must be a list"):
        getattr(dataset, verb)(versions=5)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_version_whose_transaction_file_cannot_be_removed_remains_complete(
    dataset: lance_core.LanceDataset, store: CountingStore, version: int
) -> None:
    """A missing transaction file marks the version as about to be removed."""
    rows = dataset.checkout_version(version).to_table()
    announcing = dataset.log.read_version(version).message.transaction_file
    plan = plan_cleanup(dataset, ALL)

    def refuse(call: Call) -> When | None:
        return When.BEFORE if call.method == "delete" and call.path.endswith(announcing) else None

    store.fault = refuse
    stats = plan.execute()
    assert (stats.failed_deletes, stats.old_versions) == (1, 2)
    assert dataset.checkout_version(version).to_table().equals(rows)
