"""Compaction compared with pylance: sizes, tasks, results, concurrent changes, row ids, and indices."""

from __future__ import annotations

import decimal
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.optimize import Compaction as TheirCompaction
from lance.optimize import CompactionPlan as TheirPlan
from lance.optimize import CompactionTask as TheirTask
from lance.optimize import RewriteResult as TheirResult
from pyroaring import BitMap

import lance_core
from lance_core.errors import (
    CorruptDataError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    NotSupportedError,
    RetryableCommitConflictError,
    UnsupportedVersionError,
    VersionNotFoundError,
)
from lance_core.optimize import (
    Compaction,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
    commit_rewrites,
    plan_again,
)
from lance_core.proto import pb_table
from lance_core.table.deletion_file import write_deletion_file
from lance_core.table.feature_flags import FeatureFlag
from lance_core.table.manifest_file import serialize_manifest_file
from lance_core.table.paths import ManifestName, ManifestNaming


def numbered(start: int, rows: int) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table({"a": pa.array(numbers, pa.int64()), "s": [f"row {number}" for number in numbers]})


def make(uri: str, *sizes: int, **options: object) -> lance.LanceDataset:
    """Create one fragment of each size, with rows numbered from 0."""
    start = 0
    for rows in sizes:
        lance.write_dataset(numbered(start, rows), uri, mode="append", **options)
        start += rows
    return lance.dataset(uri)


def numbers(uri: str) -> list[int]:
    """Return column ``a`` in scan order, after checking that both implementations agree and validate the table."""
    theirs, ours = lance.dataset(uri), lance_core.dataset(uri)
    theirs.validate()
    ours.validate()
    rows = ours.to_table()
    assert rows.equals(theirs.to_table())
    return rows["a"].to_pylist()


def sizes(uri: str) -> list[int]:
    return [fragment.count_rows() for fragment in lance.dataset(uri).get_fragments()]


def data_files(uri: str) -> set[str]:
    return {path.name for path in Path(uri, "data").iterdir()}


@pytest.mark.parametrize(
    ("fragments", "target", "expected"),
    [
        ([300], 70, [84, 83, 83]),
        ([50] * 5, 70, [100, 75, 75]),
        ([99] * 3, 100, [149, 148]),
        ([99] * 2, 100, [198]),
        ([61, 61, 61, 61, 61], 100, [122, 183]),
        ([10, 10, 10], 1000, [30]),
    ],
)
def test_compacted_fragments_have_the_same_sizes_as_in_pylance(
    tmp_path, fragments: list[int], target: int, expected: list[int]
) -> None:
    found = []
    for name in ("theirs", "ours"):
        uri = str(tmp_path / name)
        table = make(uri, *fragments)
        if len(fragments) == 1:
            table.delete("a < 50")
        opened = lance.dataset(uri) if name == "theirs" else lance_core.dataset(uri)
        opened.optimize.compact_files(target_rows_per_fragment=target)
        found.append((sizes(uri), [each.fragment_id for each in lance.dataset(uri).get_fragments()], numbers(uri)))
    assert found[0] == found[1]
    assert found[1][0] == expected


@pytest.mark.parametrize(
    ("fragments", "deleted", "target", "expected"),
    [
        # The threshold is more than a tenth of the physical rows: 10 of 100 are kept, 11 are not.
        ([100, 100], "a < 10", 50, [90, 100]),
        ([100, 100], "a < 11", 50, [100, 89]),
        ([1000], "a < 100", 50, [900]),
        ([7], "a < 1", 5, [6]),
        # A fragment of exactly the target size is not merged, regardless of deleted rows; a smaller one is.
        ([100, 100], "a < 5", 100, [95, 100]),
        ([99, 100, 99], "a < 0", 100, [99, 100, 99]),
        ([99, 99, 100], "a < 0", 100, [100, 198]),
        # The tail joins the last task, because each task needs at least the target number of rows.
        ([10] * 5, "a < 0", 20, [20, 30]),
        ([99, 99], "a < 0", 100, [198]),
        ([100, 400, 200, 200, 400, 300, 300, 100], "a < 0", 500, [500, 800, 700]),
    ],
)
@pytest.mark.sampled(6)
def test_compaction_thresholds_are_compared_as_in_pylance(
    tmp_path, fragments: list[int], deleted: str, target: int, expected: list[int]
) -> None:
    found = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        make(uri, *fragments).delete(deleted)
        library.dataset(uri).optimize.compact_files(target_rows_per_fragment=target)
        found.append((sizes(uri), [each.fragment_id for each in lance.dataset(uri).get_fragments()], numbers(uri)))
    assert found[0] == found[1]
    assert found[1][0] == expected


def test_a_compaction_returns_its_metrics_and_advances_the_handle(uri: str) -> None:
    make(uri, 50, 50, 50).delete("a in (3, 4, 60)")
    dataset = lance_core.dataset(uri)
    metrics = dataset.optimize.compact_files()
    assert (metrics.fragments_removed, metrics.fragments_added) == (3, 1)
    assert (metrics.files_removed, metrics.files_added) == (5, 1)
    assert dataset.version == 6
    assert [type(each.operation).__name__ for each in dataset.get_transactions(2)] == ["Rewrite", "ReserveFragments"]
    assert dataset.get_transactions(1)[0].read_version == 4
    assert dataset.optimize.compact_files() == type(metrics)()
    assert dataset.version == 6
    assert len(numbers(uri)) == 147
    assert not dataset.manifest.message.reader_feature_flags & FeatureFlag.DELETION_FILES


def test_compaction_tasks_and_results_are_exchanged_with_pylance(uri: str) -> None:
    """One library plans, both execute tasks alternately, and the other commits."""
    make(uri, *[60] * 8).delete("a = 20 or a = 120")
    expected = numbers(uri)
    options = {"target_rows_per_fragment": 100}
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    plan = Compaction.plan(ours, options)
    their_plan = TheirPlan.from_json(plan.json())
    assert CompactionPlan.from_json(TheirCompaction.plan(theirs, options).json()).tasks == plan.tasks
    assert len(plan.tasks) == their_plan.num_tasks() == 4
    results = []
    for number, (task, their_task) in enumerate(zip(plan.tasks, their_plan.tasks, strict=True)):
        if number % 2:
            executed = CompactionTask.from_json(their_task.json()).execute(ours)
            results.append(TheirResult.from_json(executed.json()))
        else:
            results.append(TheirTask.from_json(task.json()).execute(theirs))
    back = [RewriteResult.from_json(result.json()) for result in results]
    assert [result.read_version for result in back] == [9] * 4
    assert TheirCompaction.commit(theirs, results[:2]).fragments_removed == 4
    assert commit_rewrites(ours, back[2:]).lost == []
    assert sorted(numbers(uri)) == expected


def test_compaction_tasks_and_results_survive_json_and_pickle(uri: str) -> None:
    make(uri, 50, 50)
    dataset = lance_core.dataset(uri)
    plan = Compaction.plan(dataset, {"target_bytes_per_fragment": 10**6})
    result = plan.tasks[0].execute(dataset)
    for record in (plan, plan.tasks[0], result):
        assert type(record).from_json(record.json()) == record
        assert pickle.loads(pickle.dumps(record)) == record
    assert json.loads(plan.json())["options"]["target_bytes_per_fragment"] == 10**6


CHANGES: dict[str, tuple[Callable[[str], object], set[int]]] = {
    "rows deleted": (lambda uri: lance.dataset(uri).delete("a in (1, 12)"), {0}),
    "fragment deleted": (lambda uri: lance.dataset(uri).delete("a < 10"), {0}),
    "rows updated": (lambda uri: lance.dataset(uri).update({"s": "'new'"}, "a = 25"), {1}),
    "rows deleted by ours": (lambda uri: lance_core.dataset(uri).delete("a = 35"), {1}),
    "rows appended": (lambda uri: lance.write_dataset(numbered(40, 5), uri, mode="append"), set()),
    "config changed": (lambda uri: lance.dataset(uri).update_config({"k": "v"}), set()),
    "column renamed": (lambda uri: lance.dataset(uri).alter_columns({"path": "s", "name": "text"}), set()),
    "column dropped": (lambda uri: lance.dataset(uri).drop_columns(["s"]), set()),
    "all-null column added": (lambda uri: lance.dataset(uri).add_columns(pa.field("n", pa.int8())), {0, 1}),
    "column added": (lambda uri: lance.dataset(uri).add_columns({"b": "a + 1"}), {0, 1}),
    "table overwritten": (lambda uri: lance.write_dataset(numbered(0, 7), uri, mode="overwrite"), {0, 1}),
    "older version restored": (lambda uri: lance.dataset(uri, version=2).restore(), {0, 1}),
    "compacted": (lambda uri: lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000), {0, 1}),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.sampled(6)
def test_a_compaction_never_undoes_a_change_made_after_its_plan(uri: str, name: str) -> None:
    """Plan and execute, let another writer commit, commit the groups without conflicts, and plan the rest again."""
    change, expected_lost = CHANGES[name]
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    options = {"target_rows_per_fragment": 20}
    plan = Compaction.plan(dataset, options)
    results = [task.execute(dataset) for task in plan.tasks]
    change(uri)
    expected = lance.dataset(uri).to_table().sort_by("a")
    version = lance.dataset(uri).version
    outcome = commit_rewrites(dataset, results, transaction_properties={"step": "7"})
    assert {results.index(result) for result in outcome.lost} == expected_lost
    assert [results.index(result) for result in outcome.committed] == sorted({0, 1} - expected_lost)
    assert lance.dataset(uri).to_table().sort_by("a").equals(expected)
    if outcome.committed:
        assert outcome.version == lance.dataset(uri).version == version + 2 == dataset.version
        [made] = dataset.get_transactions(1)
        assert made.read_version == plan.read_version
        assert made.transaction_properties == {"step": "7"}
    else:
        assert outcome.version is None
        assert lance.dataset(uri).version <= version + 1  # ids may have been reserved
    # Files of groups in conflict are removed; files of committed groups are kept.
    new = [{file.path for each in result.new_fragments for file in each.files} for result in results]
    assert [names <= data_files(uri) for names in new] == [number not in expected_lost for number in (0, 1)]
    # Only the groups in conflict are planned again; then the table is compacted and contains all changes.
    again = plan_again(dataset, outcome.lost, options)
    old = {each.id for result in outcome.lost for each in result.original_fragments}
    assert {each.id for task in again.tasks for each in task.fragments} <= old
    finished = commit_rewrites(dataset, [task.execute(dataset) for task in again.tasks])
    assert finished.lost == []
    assert lance.dataset(uri).to_table().sort_by("a").equals(expected)
    numbers(uri)


def test_a_compaction_conflicts_with_an_index_created_after_its_plan(uri: str) -> None:
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 20})
    results = [task.execute(dataset) for task in plan.tasks]
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    outcome = commit_rewrites(dataset, results)
    assert (outcome.committed, len(outcome.lost)) == ([], 2)
    assert dataset.optimize.compact_files(target_rows_per_fragment=20).fragments_added == 2
    _check_index(uri, 40)


def test_a_compaction_commit_with_a_conflict_commits_no_group(uri: str) -> None:
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 20})
    results = [task.execute(dataset) for task in plan.tasks]
    lance.dataset(uri).delete("a = 1")
    with pytest.raises(RetryableCommitConflictError, match=r"changed fragments \[0, 1\] since version 4"):
        Compaction.commit(dataset, results)
    assert lance.dataset(uri).version == 5
    # The other group can still be committed, unless its files no longer exist.
    assert Compaction.commit(dataset, results[1:]).fragments_added == 1
    assert numbers(uri) == [0, *range(2, 40)]
    with pytest.raises(RetryableCommitConflictError):
        Compaction.commit(dataset, results)
    assert numbers(uri) == [0, *range(2, 40)]


def test_a_compaction_committed_twice_creates_one_version(uri: str) -> None:
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {"target_rows_per_fragment": 20}).tasks]
    first = commit_rewrites(dataset, results)
    lance.dataset(uri).delete("a = 1")
    dataset.optimize.compact_files()
    again = commit_rewrites(lance_core.dataset(uri), results)
    assert (again.version, again.committed, again.lost, again.attempts) == (first.version, results, [], 0)
    assert Compaction.commit(dataset, results) == first.metrics
    assert numbers(uri) == [0, *range(2, 40)]


def test_files_of_versions_that_were_cleaned_up_are_not_removed(uri: str) -> None:
    make(uri, 10, 10)
    dataset = lance_core.dataset(uri)
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {}).tasks]
    commit_rewrites(dataset, results)
    lance.dataset(uri).delete("a = 1")
    lance.dataset(uri).tags.create("kept", 4)
    # It can no longer be determined whether version 4 added them to the table.
    for name in ("3", "4"):
        path = dataset.log.path(next(each for each in dataset.log.newer_than(0) if str(each.version) == name))
        dataset.log.store.delete(path)
    other = RewriteResult.from_json(results[0].json())
    before = data_files(uri)
    commit_rewrites(lance_core.dataset(uri), [other])
    assert data_files(uri) == before


def test_a_compaction_reverted_by_a_restore_is_not_committed_again(uri: str) -> None:
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {"target_rows_per_fragment": 20}).tasks]
    made = commit_rewrites(dataset, results).version
    lance.dataset(uri, version=4).restore()
    # Fragments remain the same when rows were deleted in the meantime.
    lance.dataset(uri).delete("a = 1")
    before = data_files(uri)
    again = commit_rewrites(dataset, results)
    assert (again.version, again.committed, again.lost) == (None, [], results)
    with pytest.raises(RetryableCommitConflictError):
        Compaction.commit(dataset, results)
    # The version before the restore still needs its files.
    assert data_files(uri) == before
    assert lance.dataset(uri, version=made).count_rows() == 40
    redone = plan_again(dataset, again.lost, {"target_rows_per_fragment": 20})
    assert commit_rewrites(dataset, [task.execute(dataset) for task in redone.tasks]).lost == []
    assert numbers(uri) == [0, *range(2, 40)]


def executed(uri: str) -> tuple[lance_core.LanceDataset, list[RewriteResult]]:
    """Return two executed tasks, which compact four fragments."""
    make(uri, 10, 10, 10, 10)
    dataset = lance_core.dataset(uri)
    return dataset, [task.execute(dataset) for task in Compaction.plan(dataset, {"target_rows_per_fragment": 20}).tasks]


@pytest.mark.parametrize("commit", [Compaction.commit, commit_rewrites])
def test_files_referenced_by_a_version_are_never_removed_as_leftovers(uri: str, commit: Callable[..., object]) -> None:
    """The committed results pretend to be planned on the latest version, which no longer has their old fragments."""
    dataset, results = executed(uri)
    commit_rewrites(dataset, results)
    before = data_files(uri)
    latest = [replace(result, read_version=dataset.version) for result in results]
    if commit is commit_rewrites:
        assert commit(dataset, latest).lost == latest
    else:
        with pytest.raises(RetryableCommitConflictError):
            commit(dataset, latest)
    assert data_files(uri) == before
    assert numbers(uri) == list(range(40))


def test_a_compaction_result_of_another_read_version_keeps_its_files(uri: str) -> None:
    """Whether the files of such a result are needed cannot be determined."""
    dataset, results = executed(uri)
    lance.dataset(uri).delete("a = 1 or a = 21")
    before = data_files(uri)
    assert commit_rewrites(dataset, [replace(result, read_version=5) for result in results]).committed == []
    assert data_files(uri) == before
    assert commit_rewrites(dataset, results).lost == results
    assert data_files(uri) < before


@pytest.mark.parametrize("commit", [Compaction.commit, commit_rewrites])
def test_inconsistent_compaction_results_are_refused(uri: str, tmp_path, commit: Callable[..., object]) -> None:
    dataset, (first, second) = executed(uri)
    [new], [file] = first.new_fragments, first.new_fragments[0].files
    victim = tmp_path / "victim"
    victim.write_text("precious")

    def with_file(**changes: object) -> RewriteResult:
        return replace(first, new_fragments=[replace(new, files=[replace(file, **changes)])])

    refused = {
        "is 4; the result was planned on a different dataset": [replace(first, read_version=5)],
        "is already part of version 4": [replace(first, new_fragments=second.original_fragments)],
        "occurs more than once": [first, replace(second, new_fragments=first.new_fragments)],
        "found '../../victim'|'../../victim'": [with_file(path="../../victim")],
        "'/victim'": [with_file(path="/victim")],
        "in base path 1": [with_file(base_id=1)],
        "no column for field 0": [with_file(column_indices=[-1, 0])],
        "must be CompactionMetrics": [replace(first, metrics="x")],
        "must be a whole number": [replace(first, metrics=replace(first.metrics, files_added="x"))],
    }
    before = data_files(uri)
    for message, results in refused.items():
        with pytest.raises(InvalidInputError, match=message):
            commit(dataset, results)
        assert lance.dataset(uri).version == 4
    lance.dataset(uri).delete("a = 1")
    with pytest.raises(InvalidInputError, match="victim"):
        commit(dataset, [with_file(path="../../victim")])
    assert victim.read_text() == "precious"
    assert data_files(uri) == before
    assert commit_rewrites(dataset, [first, second]).committed == [second]


def test_a_compaction_whose_new_files_are_missing_is_refused(uri: str) -> None:
    make(uri, 10, 10)
    dataset = lance_core.dataset(uri)
    [task] = Compaction.plan(dataset, {}).tasks
    result = task.execute(dataset)
    [name] = [file.path for each in result.new_fragments for file in each.files]
    dataset.log.store.delete(dataset.log.store.join(dataset.log.root, "data", name))
    with pytest.raises(NotFoundError, match="does not exist"):
        commit_rewrites(dataset, [result])
    assert lance.dataset(uri).version == 2


def _check_index(uri: str, rows: int) -> None:
    dataset = lance.dataset(uri)
    assert [dataset.count_rows(f"a = {number}") for number in range(rows)] == [1] * rows
    assert numbers(uri) == sorted(numbers(uri))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("commits_with", ["ours", "theirs"])
@pytest.mark.sampled(2)
def test_indices_find_the_correct_rows_after_a_compaction(uri: str, stable: bool, commits_with: str) -> None:
    make(uri, 50, 50, enable_stable_row_ids=stable).create_scalar_index("a", "BTREE")
    lance.write_dataset(numbered(100, 50), uri, mode="append")
    lance.write_dataset(numbered(150, 50), uri, mode="append")
    lance.dataset(uri).delete("a in (7, 60, 110)")
    theirs, dataset = lance.dataset(uri), lance_core.dataset(uri)
    plan = Compaction.plan(dataset, {})
    assert [[each.id for each in task.fragments] for task in plan.tasks] == [[0, 1], [2, 3]]
    results = [task.execute(dataset) for task in plan.tasks]
    section = dataset.manifest.index_section
    if commits_with == "ours":
        Compaction.commit(dataset, results)
        assert dataset.manifest.index_section == section
    else:
        TheirCompaction.commit(theirs, [TheirResult.from_json(result.json()) for result in results])
        [index] = lance.dataset(uri).list_indices()
        assert stable or (len(index["fragment_ids"]) == 1 and min(index["fragment_ids"]) >= 4)
    latest = lance.dataset(uri)
    assert [latest.count_rows(f"a = {number}") for number in range(200)] == [
        int(number not in (7, 60, 110)) for number in range(200)
    ]
    latest.optimize.optimize_indices()
    assert lance.dataset(uri).count_rows("a = 199") == 1


def test_a_compaction_keeps_stable_row_ids_and_row_versions(tmp_path) -> None:
    hidden = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    found = []
    for name in ("theirs", "ours"):
        uri = str(tmp_path / name)
        make(uri, 50, 40, 60, enable_stable_row_ids=True)
        lance.dataset(uri).update({"s": "'new'"}, "a in (5, 15, 16, 70)")
        lance.dataset(uri).delete("a in (3, 60, 61, 62, 99, 149) or a % 7 = 6")
        before = lance.dataset(uri).to_table(columns=["a", "s", *hidden]).sort_by("a")
        opened = lance.dataset(uri) if name == "theirs" else lance_core.dataset(uri)
        opened.optimize.compact_files(target_rows_per_fragment=60)
        latest = lance.dataset(uri)
        latest.validate()
        after = latest.to_table(columns=["a", "s", *hidden])
        assert after.sort_by("a").equals(before)
        found.append((after, [each.metadata.row_id_meta for each in latest.get_fragments()]))
        lance.write_dataset(numbered(1000, 5), uri, mode="append")
        assert lance.dataset(uri).count_rows() == after.num_rows + 5
    assert found[0][0].equals(found[1][0])
    assert found[0][1] == found[1][1]


def test_fragments_with_different_columns_deletions_and_files_are_compacted_into_one(uri: str) -> None:
    """Columns added later, dropped, replaced, missing; deletions; several data files in a fragment."""
    make(uri, 20, 20)
    lance.dataset(uri).add_columns({"b": "a * 2"})
    lance.write_dataset(numbered(40, 20), uri, mode="append")
    lance.dataset(uri).add_columns(pa.field("c", pa.float32()))
    lance.dataset(uri).drop_columns(["s"])
    lance.dataset(uri).alter_columns({"path": "b", "data_type": pa.int32()})
    lance.dataset(uri).add_columns(
        pa.schema([pa.field("n", pa.struct([pa.field("x", pa.int8()), pa.field("y", pa.string())]))])
    )
    nested = pa.table({"a": pa.array([60], pa.int64()), "n": [{"x": 1, "y": "one"}]}, schema=None)
    lance.write_dataset(
        nested.cast(pa.schema([pa.field("a", pa.int64()), lance.dataset(uri).schema.field("n")])), uri, mode="append"
    )
    lance.dataset(uri).delete("a in (3, 41)")
    rows = lance.dataset(uri).to_table()
    dataset = lance_core.dataset(uri)
    assert dataset.optimize.compact_files().fragments_removed == 4
    numbers(uri)
    assert lance.dataset(uri).to_table().equals(rows)
    [fragment] = lance.dataset(uri).get_fragments()
    assert len(fragment.data_files()) == 1
    assert -2 not in fragment.data_files()[0].fields


def test_fragments_of_one_row_each_are_compacted_into_one(uri: str) -> None:
    for number in range(40):
        lance_core.write_dataset(numbered(number, 1), uri, mode="append")
    lance_core.dataset(uri).optimize.compact_files()
    assert (sizes(uri), numbers(uri)) == ([40], list(range(40)))


def test_fragments_that_need_no_compaction_are_kept_and_compacted_fragments_come_last(uri: str) -> None:
    make(uri, 100, 10, 100, 10, 10)
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    assert sizes(uri) == [100, 10, 100, 20]


def test_small_compacted_fragments_that_become_neighbors_are_joined_in_the_same_compaction(uri: str) -> None:
    make(uri, 100, 10, 10, 100, 10)
    dataset = lance_core.dataset(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=100)
    # The reference needs two compactions for the same result: first 10 + 10, then the last 10.
    assert (sizes(uri), dataset.version) == ([100, 100, 30], 7)
    assert numbers(uri)[200:] == [*range(100, 120), *range(220, 230)]


def test_adjacent_fragments_with_many_deletions_are_compacted_into_one(uri: str) -> None:
    make(uri, 30, 30, 30)
    lance.dataset(uri).delete("a % 3 > 0")
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=30)
    assert (sizes(uri), numbers(uri)) == ([30], list(range(0, 90, 3)))


def test_deletions_are_materialized_above_the_threshold(uri: str) -> None:
    make(uri, 100, 100, 100)
    lance.dataset(uri).delete("a < 10 or (a >= 200 and a < 211)")
    dataset = lance_core.dataset(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=50, materialize_deletions=False)
    assert dataset.version == 4
    dataset.optimize.compact_files(target_rows_per_fragment=50)
    assert sizes(uri) == [90, 100, 89]
    dataset.optimize.compact_files(target_rows_per_fragment=50, materialize_deletions_threshold=0.0)
    assert sizes(uri) == [100, 89, 90]


def test_defaults_in_serialized_compaction_tasks_equal_those_of_pylance(uri: str) -> None:
    for library in (lance, lance_core):
        library.write_dataset(pa.table({"a": [1]}), uri, mode="append")
    plans = TheirCompaction.plan(lance.dataset(uri), {}), Compaction.plan(lance_core.dataset(uri), {})
    theirs, ours = (json.loads(plan.tasks[0].json())["options"] for plan in plans)
    assert ours.pop("target_bytes_per_fragment") is None
    assert ours == theirs


def test_byte_target_determines_the_size_of_new_files_and_keeps_files_of_that_size(uri: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(10):
        values = pa.FixedSizeListArray.from_arrays(pa.array(random.random(200 * 128, np.float32)), 128)
        lance.write_dataset(pa.table({"v": values}), uri, mode="append")
    rows = lance.dataset(uri).to_table()
    dataset = lance_core.dataset(uri)
    metrics = dataset.optimize.compact_files(target_bytes_per_fragment=400_000)
    assert (metrics.fragments_removed, metrics.fragments_added) == (10, 3)
    written = [each.data_files()[0].file_size_bytes for each in lance.dataset(uri).get_fragments()]
    assert all(400_000 <= num_bytes < 520_000 for num_bytes in written[:-1])
    assert lance.dataset(uri).to_table().equals(rows)
    assert Compaction.plan(dataset, {"target_bytes_per_fragment": 400_000}).tasks == []


@pytest.mark.parametrize("is_configured", [False, True])
def test_max_bytes_per_file_divides_rows_into_files_that_later_compactions_keep(
    uri: str, *, is_configured: bool
) -> None:
    one_file = make(uri, *[1000] * 8).get_fragments()[0].data_files()[0].file_size_bytes
    dataset = lance_core.dataset(uri)
    options = {"max_bytes_per_file": one_file * 2, "batch_size": 100}
    if is_configured:
        dataset.update_config({f"lance.compaction.{name}": str(value) for name, value in options.items()})
        options = {}
    before = dataset.version
    dataset.optimize.compact_files(**options)
    assert 1 < len(sizes(uri)) < 8
    assert numbers(uri) == list(range(8000))
    assert dataset.version == before + 2
    dataset.optimize.compact_files(**options)
    assert dataset.version == before + 2


@pytest.mark.parametrize("threads", [None, 1, 4])
def test_compaction_gives_the_same_sizes_and_order_of_rows_for_any_number_of_threads(
    uri: str, threads: int | None
) -> None:
    make(uri, *[20] * 12)
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=40, num_threads=threads)
    assert (sizes(uri), numbers(uri)) == ([40] * 6, list(range(240)))


def test_an_unsupported_compaction_is_refused_before_anything_is_written(uri: str, tmp_path) -> None:
    make(uri, 10, 10, data_storage_version="2.3")
    before = data_files(uri)
    with pytest.raises(UnsupportedVersionError, match=r"2\.3"):
        lance_core.dataset(uri).optimize.compact_files()
    deferred = str(tmp_path / "deferred")
    make(deferred, 10, 10).create_scalar_index("a", "BTREE")
    lance.dataset(deferred).optimize.compact_files(defer_index_remap=True)
    lance.write_dataset(numbered(20, 5), deferred, mode="append")
    lance.write_dataset(numbered(25, 5), deferred, mode="append")
    with pytest.raises(NotSupportedError, match="__lance_frag_reuse"):
        lance_core.dataset(deferred).optimize.compact_files()
    assert (data_files(uri), lance.dataset(uri).version) == (before, 2)


def test_repeated_compactions_with_a_fragment_budget_finish_the_work(uri: str) -> None:
    make(uri, *[10] * 8)
    dataset = lance_core.dataset(uri)
    for _ in range(20):
        before = dataset.version
        dataset.optimize.compact_files(target_rows_per_fragment=1000, max_source_fragments=3)
        if dataset.version == before:
            break
    assert sizes(uri) == [80]
    assert sorted(numbers(uri)) == list(range(80))


def test_names_of_all_files_of_a_compaction_job_contain_the_job_token(uri: str) -> None:
    make(uri, 300)
    lance.dataset(uri).delete("a < 50")
    dataset = lance_core.dataset(uri)
    [task] = Compaction.plan(dataset, {"target_rows_per_fragment": 70}).tasks
    result = task.execute(dataset, file_token="0123456789abcdef")
    assert len(result.new_fragments) == 3
    assert all(each.files[0].path.endswith("0123456789abcdef.lance") for each in result.new_fragments)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_file_fails_the_compaction_and_leaves_no_new_files(uri: str, threads: int) -> None:
    make(uri, *[20] * 8)
    last = lance.dataset(uri).get_fragments()[-1].data_files()[0].path
    path = Path(uri, "data", last)
    path.write_bytes(bytes(path.stat().st_size))
    before = data_files(uri)
    with pytest.raises(CorruptDataError):
        lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=40, num_threads=threads)
    assert (data_files(uri), lance.dataset(uri).version) == (before, 8)


def test_fragments_without_a_live_row_are_removed(uri: str) -> None:
    """Other writers may leave such fragments; the reference and this library drop them when the last row goes."""
    make(uri, 10, 10)
    dataset = lance_core.dataset(uri)
    deletion = write_deletion_file(
        dataset.log.store, uri, fragment_id=0, read_version=2, offsets=BitMap(range(10)), as_bitmap=None
    )
    message = pb_table.Manifest()
    message.CopyFrom(dataset.manifest.message)
    message.fragments[0].deletion_file.CopyFrom(deletion)
    message.version = 3
    message.reader_feature_flags |= FeatureFlag.DELETION_FILES
    message.writer_feature_flags |= FeatureFlag.DELETION_FILES
    data = serialize_manifest_file(message, index_section=None, transaction=dataset.manifest.transaction)
    dataset.log.create(ManifestName(3, ManifestNaming.V2), data)
    assert numbers(uri) == list(range(10, 20))
    dataset = lance_core.dataset(uri)
    [task] = Compaction.plan(dataset, {"target_rows_per_fragment": 10}).tasks
    assert [each.id for each in task.fragments] == [0]
    assert Compaction.commit(dataset, [task.execute(dataset)]).fragments_added == 0
    assert (sizes(uri), numbers(uri), dataset.version) == ([10], list(range(10, 20)), 4)


def test_compaction_task_whose_fragments_do_not_match_its_read_version_is_refused(uri: str) -> None:
    make(uri, 10, 10)
    dataset = lance_core.dataset(uri)
    [task] = Compaction.plan(dataset, {}).tasks
    lance.dataset(uri).delete("a = 1")
    with pytest.raises(InvalidInputError, match="fragment 0 of the task does not match version 3"):
        replace(task, read_version=3).execute(dataset)
    with pytest.raises(VersionNotFoundError):
        replace(task, read_version=9).execute(dataset)
    result = task.execute(dataset)
    with pytest.raises(InvalidInputError, match="twice"):
        commit_rewrites(dataset, [result, result])
    with pytest.raises(InvalidInputError, match="no original fragments"):
        commit_rewrites(dataset, [replace(result, original_fragments=[])])
    with pytest.raises(InvalidTypeError):
        commit_rewrites(dataset, [result.json()])
    assert lance.dataset(uri).version == 3


def test_a_compaction_keeps_every_kind_of_column(uri: str) -> None:
    def rows(start: int) -> pa.Table:
        count = range(start, start + 40)
        maybe = [None if number % 5 == 0 else number for number in count]
        return pa.table(
            {
                "a": pa.array(count, pa.int64()),
                "d": pa.array([f"kind {number % 3}" for number in count]).dictionary_encode(),
                "l": pa.array([None if n is None else [{"x": n, "y": [f"{n}"] * (n % 3)}] * (n % 4) for n in maybe]),
                "v": pa.array([[float(number)] * 4 for number in count], pa.list_(pa.float16(), 4)),
                "t": pa.array([datetime.fromtimestamp(number, UTC) for number in count], pa.timestamp("us", "UTC")),
                "n": pa.array([decimal.Decimal(number) / 8 for number in count], pa.decimal128(20, 3)),
                "b": pa.array([bytes([number % 250]) * 3 for number in count], pa.binary(3)),
                "m": pa.array([[(f"k{number}", number)] for number in count], pa.map_(pa.string(), pa.int32())),
                "f": pa.array([number % 2 == 0 for number in count]),
                "z": pa.nulls(40),
                "u": pa.array([bytes(16)] * 40, pa.uuid()),
            }
        )

    for start in (0, 40, 80):
        lance.write_dataset(rows(start), uri, mode="append")
    lance.dataset(uri).delete("a % 7 = 3")
    expected = lance.dataset(uri).to_table()
    lance_core.dataset(uri).optimize.compact_files()
    compacted = lance.dataset(uri).to_table()
    assert compacted.schema.equals(expected.schema)
    # Not equals(), because chunks of a column may have different dictionaries.
    assert compacted.to_pylist() == lance_core.dataset(uri).to_table().to_pylist() == expected.to_pylist()
    assert sizes(uri) == [expected.num_rows]
    lance.dataset(uri).validate()


def test_a_compacted_clone_has_its_own_files(uri: str, tmp_path) -> None:
    make(uri, 10, 10)
    clone = str(tmp_path / "clone")
    lance.dataset(uri).shallow_clone(clone, 2)
    lance.write_dataset(numbered(20, 10), clone, mode="append")
    lance.dataset(clone).delete("a = 5")
    before = data_files(uri)
    dataset = lance_core.dataset(clone)
    dataset.optimize.compact_files()
    assert (sizes(clone), numbers(clone)) == ([29], [*range(5), *range(6, 30)])
    assert data_files(uri) == before
    [fragment] = dataset.get_fragments()
    assert [file.base_id for file in fragment.data_files()] == [None]


@pytest.mark.parametrize("defers", [False, True], ids=["remapped", "deferred"])
@pytest.mark.parametrize(
    "change",
    [
        lambda dataset: dataset.update_config({"a": "1"}),
        lambda dataset: dataset.update_schema_metadata({"a": "1"}),
        lambda dataset: dataset.drop_index("a_idx"),
        lambda dataset: lance_core.write_dataset(pa.table({"a": [7]}), dataset, mode="overwrite"),
        lambda dataset: lance_core.write_dataset(pa.table({"a": [7]}), dataset, mode="append"),
    ],
    ids=["config", "schema metadata", "drop index", "overwrite", "append"],
)
def test_changes_succeed_after_pylance_compactions_that_lance_core_does_not_support(
    change: Callable[[lance_core.LanceDataset], object], defers: bool, tmp_path: Path
) -> None:
    """The reference compacts a table with deferred index remapping once more."""
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(12)}), uri, max_rows_per_file=4)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    for number in (100, 101):
        lance.write_dataset(pa.table({"a": [number]}), uri, mode="append")
    dataset = lance_core.dataset(uri)
    lance.dataset(uri).optimize.compact_files(defer_index_remap=defers)
    change(dataset)
    assert lance.dataset(uri).version == lance_core.dataset(uri).version > dataset.version - 1
    lance.dataset(uri).validate()
