"""Committing rewritten fragments: concurrent changes, repeated commits, and failures."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import DatasetNotFoundError, StorageError, TooMuchWriteContentionError
from lance_core.optimize import RewriteResult
from lance_pipelines.maintenance import rewrite_commit as module
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.policy import MaintenancePolicy
from lance_pipelines.maintenance.rewrite_commit import RewriteOutcome, Rewritten, RowsLostError, commit_staged_rewrite
from lance_pipelines.maintenance.rewrite_plan import RewriteOperation, plan_rewrite, task_documents
from lance_pipelines.maintenance.rewrite_report import report_rewrite
from lance_pipelines.maintenance.staged_rewrite import PlannedRewrite, StagedRewrite
from lance_pipelines.spark.leftovers import discard_files
from tests.support.local_rewriting import ids, rewrite_locally, write_fragments

OPTIONS = {"target_rows_per_fragment": 20, "materialize_deletions": True, "materialize_deletions_threshold": 0.1}


def plan(uri: str, operation: RewriteOperation = RewriteOperation.COMPACT, **options: Any) -> PlannedRewrite:
    dataset = lance_core.dataset(uri)
    chosen = {**OPTIONS, **options}
    return PlannedRewrite(
        rewrite_id=str(uuid.uuid4()),
        dataset="t",
        uri=uri,
        op=operation.value,
        options=chosen,
        tasks=task_documents(plan_rewrite(dataset, operation, chosen).tasks),
        before=TableHealth.of(dataset, MaintenancePolicy()),
        run_id="run",
        step_key="step",
    )


def stage(planned: PlannedRewrite) -> StagedRewrite:
    written = rewrite_locally(planned.uri, planned.tasks)
    return StagedRewrite.of(planned, written.file_token, written.results)


def commit(staged: StagedRewrite, rewrite=rewrite_locally) -> RewriteOutcome:
    return commit_staged_rewrite(staged, rewrite=rewrite, discard=discard_files)


def unused(uri: str) -> set[str]:
    """Return the data files that no version references."""
    named = {
        file.path
        for ref in lance_core.dataset(uri).version_refs()
        for fragment in lance_core.dataset(uri, version=ref["version"]).get_fragments()
        for file in fragment.metadata.files
    }
    return {path.name for path in Path(uri, "data").iterdir()} - named


def check(uri: str, rows: list[int]) -> None:
    assert ids(uri) == rows
    reference = lance.dataset(uri)
    reference.validate()
    assert sorted(reference.to_table()["id"].to_pylist()) == rows


def test_planned_and_staged_rewrites_round_trip_through_json(uri) -> None:
    write_fragments(uri, 4)
    planned = plan(uri)
    assert PlannedRewrite.from_json(planned.to_json()) == planned
    staged = stage(planned)
    assert StagedRewrite.from_json(staged.to_json()) == staged
    assert staged.plan.tasks == ()


def test_rewrite_commits_every_group_in_one_version(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    assert len(staged.results) == 2
    outcome = commit(staged)
    assert (len(outcome.committed), outcome.conflicts, outcome.attempts, outcome.rounds) == (2, 0, 1, 1)
    dataset = lance_core.dataset(uri)
    assert dataset.version == outcome.version
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [20, 20]
    properties = dataset.read_transaction(dataset.version).transaction_properties
    assert properties["dagster.run_id"] == "run"
    assert properties["lance_pipelines.op"] == "compact"
    check(uri, list(range(40)))


def test_repeated_rewrite_commit_finds_the_first_commit_and_removes_nothing(uri) -> None:
    write_fragments(uri, 4)
    planned = plan(uri)
    staged = stage(planned)
    first, second = commit(staged), commit(staged)
    assert second.version == first.version == lance_core.dataset(uri).version
    assert len(second.committed) == 2
    report = report_rewrite(planned, second, MaintenancePolicy())
    assert report.repeated
    assert (report.fragments_removed, report.fragments_added) == (4, 2)
    check(uri, list(range(40)))


def test_repeated_rewrite_commit_after_further_compaction_removes_nothing(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    commit(staged)
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=100)
    assert len(commit(staged).committed) == 2
    check(uri, list(range(40)))
    assert unused(uri) == set()
    assert ids(uri, version=6) == list(range(40))


def test_only_the_rewrite_group_with_a_conflict_is_written_again(uri) -> None:
    write_fragments(uri, 4)
    planned = plan(uri)
    staged = stage(planned)
    lance.dataset(uri).delete("id = 35")
    rewritten: list[str] = []

    def rewrite(uri: str, tasks: Sequence[str]) -> Rewritten:
        rewritten.extend(tasks)
        return rewrite_locally(uri, tasks)

    outcome = commit(staged, rewrite)
    assert len(rewritten) == 1
    assert (len(outcome.committed), outcome.conflicts, outcome.rounds, outcome.unfinished) == (2, 1, 2, 0)
    check(uri, [number for number in range(40) if number != 35])
    assert unused(uri) == set()
    report = report_rewrite(planned, outcome, MaintenancePolicy())
    assert (report.fragments_removed, report.fragments_added, report.deleted_rows_removed) == (4, 2, 1)
    assert report.metadata()["lance/conflicts"] == 1
    assert report.bytes_superseded > 0
    assert f"{uri} version {outcome.version}: 4 fragments" in report.summary()


def test_rewrite_keeps_concurrently_appended_rows(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    lance.write_dataset(pa.table({"id": [100]}), uri, mode="append")
    assert commit(staged).conflicts == 0
    check(uri, [*range(40), 100])


def test_rewrite_of_a_table_overwritten_concurrently_commits_nothing(uri) -> None:
    write_fragments(uri, 4)
    planned = plan(uri)
    staged = stage(planned)
    lance_core.write_dataset(pa.table({"id": pa.array(range(1000, 1030), pa.int64())}), uri, mode="overwrite")
    outcome = commit(staged)
    assert (outcome.committed, outcome.conflicts, outcome.unfinished) == ([], 2, 0)
    assert unused(uri) == set()
    report = report_rewrite(planned, outcome, MaintenancePolicy())
    assert not report.has_changed
    assert "nothing left to do" in report.summary()
    check(uri, list(range(1000, 1030)))


def interfere_each_time(first_id: int):
    """Return a rewrite during which another writer deletes one of the rewritten rows."""
    victims = iter(range(first_id, first_id + 20))

    def rewrite(uri: str, tasks: Sequence[str]) -> Rewritten:
        written = rewrite_locally(uri, tasks)
        lance_core.dataset(uri).delete(f"id = {next(victims)}")
        return written

    return rewrite


def test_rewrite_group_that_keeps_conflicting_is_left_unfinished(uri, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MAX_ROUNDS", 3)
    write_fragments(uri, 4)
    planned = plan(uri)
    staged = stage(planned)
    lance_core.dataset(uri).delete("id = 20")
    outcome = commit(staged, interfere_each_time(21))
    assert (len(outcome.committed), outcome.conflicts, outcome.rounds, outcome.unfinished) == (1, 3, 3, 1)
    assert (
        "1 group could not be committed because of conflicts"
        in report_rewrite(planned, outcome, MaintenancePolicy()).summary()
    )
    check(uri, [*range(20), *range(23, 40)])
    assert unused(uri) == set()


def test_rewrite_that_commits_nothing_raises_too_much_contention(uri, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MAX_ROUNDS", 2)
    write_fragments(uri, 2)
    staged = stage(plan(uri))
    lance_core.dataset(uri).delete("id = 0")
    with pytest.raises(TooMuchWriteContentionError, match="giving up after 2 rounds"):
        commit(staged, interfere_each_time(1))
    assert unused(uri) == set()


def test_failed_second_rewrite_round_keeps_the_result_of_the_first(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    lance_core.dataset(uri).delete("id = 35")

    def fail(uri: str, tasks: Sequence[str]) -> Rewritten:
        raise StorageError("a worker is gone", retryable=True)

    with pytest.raises(StorageError, match="a worker is gone"):
        commit(staged, fail)
    assert len(lance_core.dataset(uri).get_fragments()) == 3
    # The step is repeated with the same message.
    outcome = commit(staged)
    assert len(outcome.committed) == 2
    check(uri, [number for number in range(40) if number != 35])
    assert unused(uri) == set()


def test_rewrite_result_with_too_few_rows_is_refused_and_its_files_are_removed(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    before = lance_core.dataset(uri).version
    result = RewriteResult.from_json(staged.results[1])
    result.new_fragments[0].physical_rows -= 1
    forged = StagedRewrite(plan=staged.plan, file_token=staged.file_token, results=(staged.results[0], result.json()))
    with pytest.raises(RowsLostError, match=r"fragments \[2, 3\] contain 20 rows, but .* contain 19"):
        commit(forged)
    assert lance_core.dataset(uri).version == before
    assert unused(uri) == set()
    check(uri, list(range(40)))


def test_rewrite_commit_of_a_missing_dataset_raises_dataset_not_found(uri, tmp_path) -> None:
    write_fragments(uri, 2)
    staged = stage(plan(uri))
    Path(uri).rename(tmp_path / "elsewhere")
    with pytest.raises(DatasetNotFoundError):
        commit(staged)


def write_fragments_whose_large_rows_are_deleted(uri: str, count: int) -> int:
    """Write fragments of ten rows, delete the row with most of the bytes in each, and return the size of a file."""
    for number in range(count):
        keys = range(number * 10, number * 10 + 10)
        rows = pa.table({"id": pa.array(keys, pa.int64()), "payload": [os.urandom(4000), *[b"x"] * 9]})
        lance_core.write_dataset(rows, uri, mode="append" if number else "create")
    lance_core.dataset(uri).delete("id % 10 = 0")
    return lance_core.dataset(uri).get_fragments()[0].metadata.files[0].file_size_bytes


def test_rewrite_outputs_far_below_the_byte_target_are_joined_in_the_second_round(uri) -> None:
    """The planner estimates the size of new files from the old ones, which is far too large here."""
    target = 2 * write_fragments_whose_large_rows_are_deleted(uri, 30)
    options = {"target_rows_per_fragment": 10_000, "target_bytes_per_fragment": target}
    planned = plan(uri, **options)
    staged = stage(planned)
    assert len(staged.results) == 3
    outcome = commit(staged)
    assert (outcome.rounds, outcome.conflicts, outcome.unfinished) == (2, 0, 0)
    check(uri, [number for number in range(300) if number % 10])
    assert plan(uri, **options).tasks == ()
    report = report_rewrite(planned, outcome, MaintenancePolicy())
    assert (report.fragments_removed, report.fragments_added, report.after.fragments) == (30, 1, 1)


def test_rewrite_that_exceeds_its_maximum_duration_commits_one_group_and_reports_the_others(uri) -> None:
    write_fragments(uri, 6)
    planned = replace(plan(uri), stop_at=0.0)
    written = rewrite_locally(uri, planned.tasks, stop_at=planned.stop_at)
    staged = StagedRewrite.of(planned, written.file_token, written.results)
    assert staged.left == 2
    outcome = commit(staged)
    assert (len(outcome.committed), outcome.left, outcome.unfinished) == (1, 2, 0)
    report = report_rewrite(planned, outcome, MaintenancePolicy())
    assert report.metadata()["lance/groups_left"] == 2
    assert report.headline().startswith("compact: 2 → 1 fragment, 2 groups left, v")
    assert report.summary().endswith("; max_duration was reached, so the next run must rewrite 2 groups of fragments")
    assert len(plan(uri).tasks) == 2
    check(uri, list(range(60)))


def test_groups_with_a_conflict_are_left_to_the_next_run_when_no_time_is_left(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(replace(plan(uri), stop_at=0.0))
    lance_core.dataset(uri).delete("id = 3")
    outcome = commit(staged)
    assert (len(outcome.committed), outcome.conflicts, outcome.left, outcome.rounds) == (1, 1, 1, 1)
    check(uri, [number for number in range(40) if number != 3])
    assert unused(uri) == set()


def test_group_with_a_conflict_is_rewritten_although_no_time_is_left_if_no_other_group_was_committed(uri) -> None:
    write_fragments(uri, 2)
    staged = stage(replace(plan(uri), stop_at=0.0))
    lance_core.dataset(uri).delete("id = 3")
    outcome = commit(staged)
    assert (len(outcome.committed), outcome.conflicts, outcome.left, outcome.rounds) == (1, 1, 0, 2)


def test_group_with_a_conflict_is_rewritten_although_it_exceeds_the_budget(uri) -> None:
    write_fragments(uri, 4)
    staged = stage(plan(uri, max_source_bytes=1))
    lance_core.dataset(uri).delete("id = 3")
    outcome = commit(staged)
    assert (len(outcome.committed), outcome.conflicts, outcome.rounds) == (1, 1, 2)
    assert [fragment.count_rows() for fragment in lance_core.dataset(uri).get_fragments()] == [10, 10, 19]
    check(uri, [number for number in range(40) if number != 3])


@pytest.mark.parametrize("limit", [{"max_source_bytes": 10**9}, {"target_bytes_per_fragment": None}])
def test_rewrite_with_a_source_limit_or_without_a_byte_target_has_one_round(uri, limit) -> None:
    target = 2 * write_fragments_whose_large_rows_are_deleted(uri, 30)
    options = {"target_rows_per_fragment": 90, "target_bytes_per_fragment": target, **limit}
    outcome = commit(stage(plan(uri, **{name: value for name, value in options.items() if value is not None})))
    assert outcome.rounds == 1
    assert len(lance_core.dataset(uri).get_fragments()) == 3


def test_repeated_rewrite_commit_without_a_byte_target_plans_no_second_round(uri) -> None:
    """This holds even if its new fragments should be rewritten by then."""
    write_fragments(uri, 4)
    staged = stage(plan(uri))
    commit(staged)
    lance_core.dataset(uri).delete("id < 10")
    assert plan(uri).tasks != ()
    outcome = commit(staged)
    assert (outcome.rounds, len(outcome.committed)) == (1, 2)
    check(uri, list(range(10, 40)))


def test_second_rewrite_round_does_not_change_concurrently_appended_fragments(uri) -> None:
    target = 2 * write_fragments_whose_large_rows_are_deleted(uri, 30)
    options = {"target_rows_per_fragment": 10_000, "target_bytes_per_fragment": target}
    staged = stage(plan(uri, **options))
    for number in (1000, 1001):
        rows = pa.table({"id": pa.array([number], pa.int64()), "payload": [b"x"]})
        lance_core.write_dataset(rows, uri, mode="append")
    outcome = commit(staged)
    assert outcome.rounds == 1
    assert len(lance_core.dataset(uri).get_fragments()) == 5
    check(uri, [*(number for number in range(300) if number % 10), 1000, 1001])


def test_materializing_deletions_does_not_change_other_fragments(uri) -> None:
    write_fragments(uri, 6)
    lance_core.dataset(uri).delete("id IN (10, 11, 30, 50)")
    planned = plan(uri, RewriteOperation.MATERIALIZE_DELETIONS, target_rows_per_fragment=1000)
    assert all('"excluded_fragment_ids": []' in task for task in planned.tasks)
    commit(stage(planned))
    left = {
        fragment.fragment_id: fragment.metadata.num_deletions for fragment in lance_core.dataset(uri).get_fragments()
    }
    # One deleted row of ten does not exceed a threshold of one tenth.
    assert {0: 0, 2: 0, 3: 1, 4: 0, 5: 1}.items() <= left.items()
    assert 1 not in left
    check(uri, [number for number in range(60) if number not in (10, 11, 30, 50)])


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1"])
def test_tables_of_every_format_version_are_maintained(uri, version) -> None:
    rows = pa.table(
        {
            "id": pa.array(range(10), pa.int64()),
            "word": pa.array(["p", "q"] * 5).dictionary_encode(),
            "pair": pa.array([{"x": [number]} for number in range(10)]),
        }
    )
    lance_core.write_dataset(rows, uri, data_storage_version=version)
    for start in (10, 20):
        shifted = rows.set_column(0, "id", pa.array(range(start, start + 10), pa.int64()))
        lance_core.write_dataset(shifted, uri, mode="append")
    lance_core.dataset(uri).delete("id = 3")
    expected = lance_core.dataset(uri).to_table()
    commit(stage(plan(uri, target_rows_per_fragment=1000)))
    table = lance_core.dataset(uri)
    assert (table.data_storage_version, len(table.get_fragments())) == (version, 1)
    assert table.to_table().to_pylist() == expected.to_pylist() == lance.dataset(uri).to_table().to_pylist()
