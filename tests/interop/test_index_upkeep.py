"""Indices that pylance builds and updates on a branch, and that are committed to the dataset."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

import lance_core
from lance_core import LanceOperation
from lance_core.errors import (
    IncompatibleTransactionError,
    InvalidInputError,
    NotSupportedError,
    SchemaMismatchError,
    StorageError,
    TooMuchWriteContentionError,
)
from lance_core.metadata import branch_indices, index_coverage
from lance_pipelines.maintenance import index_commit, pylance_indices
from lance_pipelines.maintenance.index_commit import commit_staged_indices, remove_leftover_branches, stage_indices
from lance_pipelines.maintenance.index_declaration import IndexDeclaration, IndexType
from lance_pipelines.maintenance.index_plan import IndexForecast, IndexOperation, PlannedIndices, StagedIndices
from lance_pipelines.maintenance.index_report import IndexReport
from tests.support.indexed_rows import DECLARED, check_searches, rows, search

BTREE = DECLARED[:1]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Three fragments of 100 rows; row 5 is deleted."""
    return make(tmp_path / "table", stable=request.param)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    return make(tmp_path / "table", stable=False)


def make(path: Path, *, stable: bool) -> str:
    for number in range(3):
        part = rows(number * 100, (number + 1) * 100)
        lance_core.write_dataset(part, path, mode="append" if number else "create", enable_stable_row_ids=stable)
    lance_core.dataset(path).delete("id = 5")
    return str(path)


def plan(uri: str, declared: tuple[IndexDeclaration, ...] = DECLARED, **options: Any) -> PlannedIndices:
    operation = options.pop("operation", IndexOperation.OPTIMIZE)
    forecast = IndexForecast.of(lance_core.dataset(uri), declared, operation, **options)
    return PlannedIndices(
        update_id=str(uuid.uuid4()),
        dataset="events",
        uri=uri,
        op=operation,
        version=forecast.version,
        works=forecast.works,
        run_id="run",
        step_key="plan_indices",
    )


def update(uri: str, declared: tuple[IndexDeclaration, ...] = DECLARED, **options: Any) -> IndexReport:
    return commit_staged_indices(stage_indices(plan(uri, declared, **options), declared), declared)


def unindexed(uri: str) -> dict[str, int]:
    return {index.name: index.unindexed_rows for index in index_coverage(lance_core.dataset(uri))}


def segments(uri: str) -> dict[str, tuple[str, ...]]:
    return {index.name: index.uuids for index in index_coverage(lance_core.dataset(uri))}


def check_no_branch(uri: str) -> None:
    assert lance_core.dataset(uri).branches.list() == {}


@pytest.mark.slow
def test_indices_of_every_kind_are_built_and_updated_and_searches_stay_correct(uri) -> None:
    check_searches(uri, 0, 150, 299, absent=(5,), kinds=("btree", "bitmap", "vector"))
    report = update(uri)
    assert (report.rows_before, report.rows_after, report.unindexed_rows) == (0, 4 * 299, 0)
    assert report.bytes_written > 0
    check_searches(uri, 0, 150, 299, absent=(5,))

    lance_core.write_dataset(rows(300, 350), uri, mode="append")
    lance.write_dataset(rows(350, 400), uri, mode="append")
    lance_core.dataset(uri).delete("id = 7 OR id = 307")
    assert set(unindexed(uri).values()) == {99}
    check_searches(uri, 0, 299, 300, 399, absent=(5, 7, 307))
    report = update(uri)
    assert (report.rows_before, report.rows_after) == (4 * 298, 4 * 397)
    assert set(unindexed(uri).values()) == {0}
    check_searches(uri, 0, 299, 300, 399, absent=(5, 7, 307))

    lance_core.dataset(uri).optimize.compact_files()
    check_searches(uri, 0, 299, 300, 399, absent=(5, 7, 307))
    update(uri)
    assert set(unindexed(uri).values()) == {0}
    check_searches(uri, 0, 299, 300, 399, absent=(5, 7, 307))
    lance.dataset(uri).optimize.compact_files()
    check_searches(uri, 0, 299, 300, 399, absent=(5, 7, 307))
    check_no_branch(uri)
    assert not plan(uri).works


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in IndexType if kind not in (IndexType.LABEL_LIST, IndexType.NGRAM)])
def test_index_of_every_declared_type_is_built_as_declared(plain, kind) -> None:
    parameters = {"num_sub_vectors": 4} if kind.name.endswith("_PQ") else {}
    column = "vector" if kind.is_vector else "text" if kind is IndexType.INVERTED else "id"
    declared = (IndexDeclaration(column=column, type=kind, parameters=parameters),)
    report = update(plain, declared)
    assert report.rows_after == 299
    assert not plan(plain, declared).works  # not taken for an index of another type
    assert lance.dataset(plain).count_rows("id < 10") == 9


def test_a_declared_index_is_built_in_one_commit_that_names_the_run(plain) -> None:
    planned = plan(plain, BTREE)
    report = commit_staged_indices(stage_indices(planned, BTREE), BTREE)
    dataset = lance_core.dataset(plain)
    assert (report.version, report.names, report.repeated) == (dataset.version, ("id_idx",), False)
    assert dataset.version == planned.version + 1
    transaction = dataset.read_transaction(dataset.version)
    assert isinstance(transaction.operation, LanceOperation.CreateIndex)
    assert transaction.transaction_properties == {
        "dagster.run_id": "run",
        "dagster.step_key": "plan_indices",
        "lance_pipelines.dataset": "events",
        "lance_pipelines.op": "optimize_indices",
        "lance_pipelines.update_id": planned.update_id,
    }
    assert "ScalarIndexQuery" in lance.dataset(plain).scanner(filter="id = 150").explain_plan()
    assert lance.dataset(plain).to_table(filter="id IN (5, 150)")["id"].to_pylist() == [150]
    check_no_branch(plain)


def test_a_repeated_index_commit_finds_the_version_of_the_first_commit(plain) -> None:
    staged = stage_indices(plan(plain, BTREE), BTREE)
    first = commit_staged_indices(staged, BTREE)
    again = commit_staged_indices(staged, BTREE)
    assert again.repeated
    assert replace(again, repeated=False) == first
    assert lance_core.dataset(plain).version == first.version


def test_messages_between_the_steps_of_an_index_update_survive_a_round_trip(plain) -> None:
    planned = plan(plain, BTREE)
    assert PlannedIndices.from_json(planned.to_json()) == planned
    staged = StagedIndices(plan=planned, branch="b", seconds=1.5)
    assert StagedIndices.from_json(staged.to_json()) == staged


def test_index_built_from_a_changed_declaration_replaces_the_existing_index(plain) -> None:
    update(plain, BTREE)
    declared = (IndexDeclaration(column="id", type=IndexType.BITMAP),)
    (work,) = plan(plain, declared).works
    assert work.reason == "BITMAP on id is declared, but the existing index is BTree on id"
    update(plain, declared)
    (index,) = index_coverage(lance_core.dataset(plain))
    assert (index.index_type, index.unindexed_rows) == ("Bitmap", 0)


def test_rebuilt_and_retrained_indices_have_new_files(plain) -> None:
    declared = DECLARED[3:]
    update(plain, declared)
    seen = {segments(plain)["vector_idx"]}
    update(plain, declared, operation=IndexOperation.BUILD, anew=True)
    seen.add(segments(plain)["vector_idx"])
    update(plain, declared, anew=True)
    seen.add(segments(plain)["vector_idx"])
    assert len(seen) == 3
    assert search(plain, "vector", 150) == [150]


def test_complete_scalar_indices_are_not_retrained(plain) -> None:
    update(plain, BTREE)
    assert not plan(plain, BTREE, anew=True).works


def during_the_work(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], object]) -> None:
    """Perform an action after each time that the indices were built, before they are committed."""
    real, left = index_commit._commit, list(actions)

    def commit(*arguments: Any) -> int:
        if left:
            left.pop(0)()
        return real(*arguments)

    monkeypatch.setattr(index_commit, "_commit", commit)


def test_searches_are_correct_after_rows_were_appended_and_deleted_during_an_index_build(plain, monkeypatch) -> None:
    def change() -> None:
        lance_core.write_dataset(rows(300, 310), plain, mode="append")
        lance_core.dataset(plain).delete("id = 9")

    during_the_work(monkeypatch, change)
    report = update(plain, BTREE)
    assert (report.conflicts, report.rows_after, report.unindexed_rows) == (0, 298, 10)
    found = lance.dataset(plain).to_table(filter="id IN (5, 9, 299, 305)")["id"].to_pylist()
    assert sorted(found) == [299, 305]


def test_an_index_build_that_conflicts_with_a_compaction_is_repeated(plain, monkeypatch) -> None:
    during_the_work(monkeypatch, lambda: lance_core.dataset(plain).optimize.compact_files())
    report = update(plain, BTREE)
    assert (report.conflicts, report.rows_after, report.unindexed_rows) == (1, 299, 0)
    assert lance.dataset(plain).to_table(filter="id IN (5, 299)")["id"].to_pylist() == [299]
    check_no_branch(plain)


def test_an_index_build_that_conflicts_in_every_attempt_changes_no_index(plain, monkeypatch) -> None:
    def compact() -> None:
        lance_core.write_dataset(rows(300, 301), plain, mode="append")
        lance_core.dataset(plain).optimize.compact_files()

    during_the_work(monkeypatch, *[compact] * 4)
    with pytest.raises(TooMuchWriteContentionError, match="4 times in a row; no index was changed"):
        update(plain, BTREE)
    assert segments(plain) == {}
    check_no_branch(plain)


def test_an_index_build_has_nothing_to_do_if_another_writer_built_the_index_meanwhile(plain, monkeypatch) -> None:
    during_the_work(monkeypatch, lambda: lance.dataset(plain).create_scalar_index("id", "BTREE"))
    report = update(plain, BTREE)
    assert not report.has_changed
    assert "nothing left to do" in report.summary()
    check_no_branch(plain)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda uri: lance_core.dataset(uri).drop_columns(["kind"]), SchemaMismatchError),
        (lambda uri: lance_core.write_dataset(rows(0, 3), uri, mode="overwrite"), IncompatibleTransactionError),
    ],
    ids=["drop the column", "overwrite"],
)
def test_an_index_build_invalidated_by_a_concurrent_change_fails_and_leaves_no_index(
    plain, monkeypatch, action, error
) -> None:
    during_the_work(monkeypatch, lambda: action(plain))
    with pytest.raises(error):
        update(plain, DECLARED[1:2])
    assert segments(plain) == {}
    assert lance.dataset(plain).count_rows("id = 1") == 1
    check_no_branch(plain)


def test_an_index_parameter_that_pylance_rejects_raises_a_one_line_error_and_leaves_no_branch(plain) -> None:
    declared = (IndexDeclaration(column="text", type=IndexType.INVERTED, parameters={"base_tokenizer": "none"}),)
    with pytest.raises(InvalidInputError, match=r"'text_idx'.*unknown base tokenizer none$") as raised:
        update(plain, declared)
    assert "\n" not in str(raised.value)
    check_no_branch(plain)


def test_an_index_on_a_column_that_does_not_exist_raises_invalid_input(plain) -> None:
    with pytest.raises(InvalidInputError, match="cannot build index 'nowhere_idx': nowhere not found in schema"):
        update(plain, (IndexDeclaration(column="nowhere", type=IndexType.BTREE),))
    check_no_branch(plain)


def test_an_index_with_missing_files_is_reported_and_not_committed(plain) -> None:
    update(plain, BTREE)
    (directory,) = (Path(plain) / "_indices").iterdir()
    for file in directory.iterdir():
        file.unlink()
    lance_core.write_dataset(rows(300, 310), plain, mode="append")
    before = segments(plain)
    with pytest.raises(StorageError, match=r"pylance did not update index 'id_idx' \(1 fragment not indexed\)"):
        update(plain, BTREE)
    assert segments(plain) == before
    check_no_branch(plain)
    update(plain, BTREE, operation=IndexOperation.BUILD, anew=True)
    assert lance.dataset(plain).to_table(filter="id = 305")["id"].to_pylist() == [305]


def test_an_index_build_without_pylance_fails_before_anything_is_written(plain, monkeypatch) -> None:
    monkeypatch.setattr(pylance_indices, "_MODULE", "no_such_module")
    planned = plan(plain, BTREE)
    with pytest.raises(NotSupportedError, match=r"pip install 'lance-pipelines\[pylance\]'"):
        stage_indices(planned, BTREE)
    check_no_branch(plain)


def test_branches_of_ended_runs_are_deleted_and_others_are_kept(plain) -> None:
    stage_indices(plan(plain, BTREE), BTREE)
    lance_core.dataset(plain).create_branch("mine")
    assert remove_leftover_branches(plain, lambda run_id, created_at: run_id != "run") == []
    assert remove_leftover_branches(plain, lambda run_id, created_at: run_id == "run") == [
        "lance-pipelines-index-run.0"
    ]
    assert list(lance_core.dataset(plain).branches.list()) == ["mine"]


def test_indices_built_on_a_branch_whose_rows_changed_are_refused(plain) -> None:
    dataset = lance_core.dataset(plain)
    branch = dataset.create_branch("changed")
    branch.insert(rows(300, 301))
    with pytest.raises(InvalidInputError, match="the fragments of branch 'changed' differ from those of version 4"):
        branch_indices(dataset, branch)


def test_rows_of_compacted_fragments_count_as_indexed_if_the_original_fragments_were_indexed(plain) -> None:
    update(plain, BTREE)
    lance.dataset(plain).optimize.compact_files(defer_index_remap=True)
    assert unindexed(plain) == {"id_idx": 0}
    lance_core.write_dataset(rows(300, 310), plain, mode="append")
    assert unindexed(plain) == {"id_idx": 10}
    update(plain, BTREE)
    assert unindexed(plain) == {"id_idx": 0}
    assert lance.dataset(plain).to_table(filter="id IN (5, 150, 305)")["id"].to_pylist() == [150, 305]


def test_indices_that_store_stable_row_ids_cover_compacted_fragments_and_other_indices_do_not(tmp_path) -> None:
    uri = make(tmp_path / "table", stable=True)
    declared = (DECLARED[0], DECLARED[1], DECLARED[3])
    update(uri, declared)
    lance_core.dataset(uri).delete("id = 7 OR id = 200")
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=150)
    assert unindexed(uri) == {"id_idx": 297, "kind_idx": 0, "vector_idx": 0}
    check_searches(uri, 0, 150, 299, absent=(5, 7, 200), kinds=("btree", "bitmap", "vector"))
    nearest = {"column": "vector", "q": [5.0] * 8, "k": 4, "nprobes": 2}
    found = lance.dataset(uri).to_table(columns=["id", "_distance"], nearest=nearest)["id"].to_pylist()
    assert sorted(found) == [3, 4, 6, 8] or sorted(found) == [2, 3, 4, 6]


def test_indices_with_row_addresses_are_updated_after_a_compaction(plain) -> None:
    update(plain, BTREE)
    lance_core.dataset(plain).optimize.compact_files()
    assert unindexed(plain) == {"id_idx": 299}
    assert lance.dataset(plain).to_table(filter="id IN (5, 150)")["id"].to_pylist() == [150]
    update(plain, BTREE)
    assert unindexed(plain) == {"id_idx": 0}
    assert lance.dataset(plain).to_table(filter="id IN (5, 150)")["id"].to_pylist() == [150]
