"""Which maintenance is due under a policy, and the reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from lance_pipelines.maintenance.evaluate import (
    Due,
    NotDue,
    evaluate_cleanup,
    evaluate_compaction,
    evaluate_deletions,
    evaluate_indices,
)
from lance_pipelines.maintenance.health import TableHealth
from lance_pipelines.maintenance.index_plan import IndexAction, IndexForecast, IndexOperation, IndexWork
from lance_pipelines.maintenance.old_versions import OldVersions
from lance_pipelines.maintenance.policy import CleanupPolicy, CompactionPolicy, DeletionPolicy, IndexPolicy

HEALTH = TableHealth(
    version=12,
    versions=12,
    fragments=20,
    small_fragments=9,
    mergeable_fragments=9,
    rows=900,
    deleted_rows=100,
    worn_fragments=0,
    worn_rows=0,
    data_files=20,
    deletion_files=3,
    bytes_total=20_000,
    manifest_bytes=900,
)
OLD = OldVersions(versions=25, removable=(), named=0, too_recent=0, next_at=None)


def test_compaction_is_not_due_for_only_a_few_small_fragments() -> None:
    verdict = evaluate_compaction(CompactionPolicy(min_small_fragments=16), HEALTH)
    assert verdict == NotDue("9 small fragments < 16")


def test_compaction_is_due_for_many_small_fragments() -> None:
    verdict = evaluate_compaction(CompactionPolicy(min_small_fragments=9), HEALTH)
    assert verdict == Due("9 small fragments >= 9")


def test_compaction_does_not_count_small_fragments_without_small_neighbors() -> None:
    scattered = replace(HEALTH, mergeable_fragments=2)
    verdict = evaluate_compaction(CompactionPolicy(min_small_fragments=4), scattered)
    assert verdict == NotDue("9 small fragments; with small neighbors: 2 < 4")


def test_materializing_deletions_is_not_due_below_the_allowed_fraction() -> None:
    verdict = evaluate_deletions(DeletionPolicy(max_deleted_fraction=0.25), HEALTH)
    assert verdict == NotDue("no fragment has a fraction of deleted rows above 0.25 (overall: 0.1)")


def test_materializing_deletions_of_one_fragment_is_due_unless_its_deleted_rows_are_below_the_minimum() -> None:
    worn = replace(HEALTH, worn_fragments=1, worn_rows=60)
    assert evaluate_deletions(DeletionPolicy(), worn) == Due(
        "1 fragment with more than 0.1 of the rows deleted, 60 deleted rows >= 1"
    )
    assert evaluate_deletions(DeletionPolicy(min_deleted_rows=61), worn) == NotDue(
        "1 fragment with more than 0.1 of the rows deleted, 60 deleted rows < 61"
    )


def test_disabled_maintenance_is_never_due() -> None:
    worn = replace(HEALTH, worn_fragments=1, worn_rows=60)
    assert evaluate_compaction(None, HEALTH) == NotDue("compaction is disabled")
    assert evaluate_deletions(None, worn) == NotDue("materializing deletions is disabled")


def test_cleanup_is_due_for_removable_versions() -> None:
    verdict = evaluate_cleanup(CleanupPolicy(), replace(OLD, removable=(1, 2, 7)))
    assert verdict == Due("25 versions, 3 removable >= 1", subject="up to 7")


def test_cleanup_that_is_not_due_explains_why_versions_are_kept() -> None:
    old = replace(OLD, named=2, too_recent=13, next_at=1_700_000_000.0)
    verdict = evaluate_cleanup(CleanupPolicy(older_than=timedelta(days=2)), old)
    assert verdict == NotDue(
        "25 versions, 0 removable < 1 (keeping the newest 10 versions; 2 tagged or used by a branch; 13 within the "
        "retention period of 2 days; the next can be removed at 2023-11-14 22:13:20 UTC)"
    )


def test_deletion_ratio_of_a_table_without_rows_is_zero() -> None:
    assert replace(HEALTH, rows=0, deleted_rows=0).deletion_ratio == 0.0
    assert HEALTH.deletion_ratio == 0.1


def _forecast(**unindexed: tuple[int, int]) -> IndexForecast:
    """Return a forecast of updates.

    Args:
        unindexed: the numbers of unindexed rows and fragments of each index.
    """
    works = [
        IndexWork(
            name=name,
            action=IndexAction.UPDATE,
            reason="",
            indexed_rows=100,
            unindexed_rows=rows,
            unindexed_fragments=fragments,
            size_bytes=None,
        )
        for name, (rows, fragments) in unindexed.items()
    ]
    return IndexForecast(
        uri="/data/events.lance",
        operation=IndexOperation.OPTIMIZE,
        version=3,
        rows=200,
        coverage=(),
        works=tuple(works),
        waiting=(),
        digest="",
    )


def test_explanation_of_an_index_update_that_is_not_due_names_the_index_for_each_number() -> None:
    policy = IndexPolicy(min_unindexed_rows=20, min_unindexed_fragments=4)
    assert evaluate_indices(policy, _forecast(a=(9, 1), b=(5, 3))) == NotDue(
        "a: 9 unindexed rows < 20; b: 3 unindexed fragments < 4"
    )
    assert evaluate_indices(policy, _forecast(a=(5, 3), b=(9, 3))) == NotDue(
        "b: 9 unindexed rows < 20, 3 unindexed fragments < 4"
    )
