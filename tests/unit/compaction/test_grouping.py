"""Grouping and sizing of compaction tasks. The property tests compare the plans with those of pylance."""

import pytest

from lance_core.compaction.grouping import FragmentFigures, estimate_outputs, next_file_rows, plan_tasks
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan_figures import PlanFigures


def table(*rows: int, num_bytes: int = 0, deleted: dict[int, int] | None = None) -> list[FragmentFigures]:
    return [
        FragmentFigures(
            id=number, physical_rows=each, num_bytes=num_bytes or each, deleted_rows=(deleted or {}).get(number, 0)
        )
        for number, each in enumerate(rows)
    ]


def even_split(rows: int, target: int) -> list[int]:
    sizes = []
    while rows:
        sizes.append(next_file_rows(rows, target))
        rows -= sizes[-1]
    return sizes


@pytest.mark.parametrize(
    ("rows", "target", "expected"),
    [
        (250, 70, [84, 83, 83]),
        (297, 100, [149, 148]),
        (198, 100, [198]),
        (99, 100, [99]),
        (100, 100, [100]),
        (0, 100, []),
        (5, 1, [1] * 5),
    ],
)
def test_even_split_returns_sizes_near_the_target(rows: int, target: int, expected: list[int]) -> None:
    assert even_split(rows, target) == expected


def test_even_split_sizes_add_up_to_all_rows_and_differ_by_at_most_one() -> None:
    for target in range(1, 40):
        for rows in range(1, 400):
            sizes = even_split(rows, target)
            assert sum(sizes) == rows
            assert len(sizes) == max(1, rows // target)
            assert sizes == sorted(sizes, reverse=True)
            assert max(sizes) - min(sizes) <= 1


def test_estimated_output_files_end_at_the_byte_target() -> None:
    settings = CompactionSettings(target_rows_per_fragment=1000, target_bytes_per_fragment=100)
    outputs = estimate_outputs(50, 250, settings)
    assert [each.rows for each in outputs] == [20, 20, 10]
    assert [each.num_bytes for each in outputs] == [100, 100, 50]
    assert estimate_outputs(0, 0, settings) == []
    assert [each.rows for each in estimate_outputs(5, 10**6, settings)] == [1] * 5
    assert [each.rows for each in estimate_outputs(3000, 0, settings)] == [1000] * 3


def test_byte_target_determines_which_fragments_are_small() -> None:
    settings = CompactionSettings(target_bytes_per_fragment=100)
    small = FragmentFigures(id=0, physical_rows=5, num_bytes=30)
    large = FragmentFigures(id=2, physical_rows=5, num_bytes=100)
    assert plan_tasks([small, FragmentFigures(id=1, physical_rows=1, num_bytes=99), large], settings) == []
    assert plan_tasks([small, FragmentFigures(id=1, physical_rows=1, num_bytes=70), large], settings) == [(0, 1)]


def test_max_bytes_per_file_acts_as_a_byte_target() -> None:
    files = table(10, 10, 10, num_bytes=60)
    assert plan_tasks(files, CompactionSettings(max_bytes_per_file=60)) == []
    assert plan_tasks(files, CompactionSettings(max_bytes_per_file=90, target_bytes_per_fragment=1000)) == [(0, 1, 2)]
    assert plan_tasks(files, CompactionSettings(max_bytes_per_file=1000, target_bytes_per_fragment=60)) == []


def test_byte_target_divides_the_plan_into_tasks_of_several_fragments() -> None:
    settings = CompactionSettings(target_bytes_per_fragment=100)
    tasks = plan_tasks(table(*[1] * 100, num_bytes=25), settings)
    assert [len(task) for task in tasks] == [16, 16, 16, 16, 16, 20]


@pytest.mark.parametrize(
    ("num_fragments", "expected"), [(15, [15]), (31, [31]), (32, [16, 16]), (33, [16, 17]), (47, [16, 31])]
)
def test_compaction_task_ends_at_the_byte_target_if_enough_bytes_remain_for_another_task(
    num_fragments: int, expected: list[int]
) -> None:
    """Sixteen fragments of 25 bytes are exactly four times the byte target, which is one task."""
    tasks = plan_tasks(table(*[1] * num_fragments, num_bytes=25), CompactionSettings(target_bytes_per_fragment=100))
    assert [len(task) for task in tasks] == expected


@pytest.mark.parametrize(("num_fragments", "expected"), [(7, [7]), (8, [4, 4]), (9, [4, 5]), (11, [4, 7])])
def test_compaction_task_ends_at_the_row_target_if_enough_rows_remain_for_another_task(
    num_fragments: int, expected: list[int]
) -> None:
    tasks = plan_tasks(table(*[25] * num_fragments), CompactionSettings(target_rows_per_fragment=100))
    assert [len(task) for task in tasks] == expected


def test_fragments_that_compaction_would_not_merge_are_not_rewritten() -> None:
    settings = CompactionSettings(target_bytes_per_fragment=100)
    assert plan_tasks(table(10, 10, 10, num_bytes=90), settings) == []
    assert plan_tasks(table(10, 10, 10, num_bytes=60), settings) == [(0, 1, 2)]


def test_compaction_task_over_budget_is_reduced_to_the_fragments_that_fit() -> None:
    rows = table(*[10] * 8)
    whole = CompactionSettings(target_rows_per_fragment=1000)
    assert plan_tasks(rows, whole) == [tuple(range(8))]
    for limits, expected in (
        ({"max_source_fragments": 3}, [(0, 1, 2)]),
        ({"max_source_rows": 45}, [(0, 1, 2, 3)]),
        ({"max_source_bytes": 20}, [(0, 1)]),
        ({"max_source_bytes": 19}, []),
        ({"max_source_fragments": 1}, []),
        ({"max_source_fragments": 8}, [tuple(range(8))]),
    ):
        assert plan_tasks(rows, CompactionSettings(target_rows_per_fragment=1000, **limits)) == expected


def test_first_fragment_over_budget_does_not_block_the_others() -> None:
    settings = CompactionSettings(target_rows_per_fragment=1000, max_source_rows=25)
    assert plan_tasks(table(500, 10, 10, 10), settings) == [(1, 2)]


def test_single_fragment_with_deletions_is_planned_within_its_budget() -> None:
    settings = CompactionSettings(target_rows_per_fragment=1000, max_source_fragments=1)
    assert plan_tasks(table(10, 10, 10, deleted={1: 5}), settings) == [(1,)]


def test_fragments_that_become_neighbors_are_planned_together() -> None:
    settings = CompactionSettings(target_rows_per_fragment=100)
    # New fragments are added at the end, so that the results of different tasks become neighbors.
    assert plan_tasks(table(100, 10, 10, 100, 10), settings) == [(1, 2, 4)]
    assert plan_tasks(table(100, 100, 100, 100, 100, deleted={1: 60, 3: 60}), settings) == [(1, 3)]
    assert plan_tasks(table(100, 100, 100, deleted={1: 60}), settings) == [(1,)]


def test_excluded_fragments_separate_compaction_tasks() -> None:
    settings = CompactionSettings(target_rows_per_fragment=100, excluded_fragment_ids=(1, 77))
    assert plan_tasks(table(10, 10, 10), settings) == []
    assert plan_tasks(table(10, 10, 10, 10), settings) == [(2, 3)]


def test_compaction_does_not_mix_fragments_that_are_covered_by_different_indices() -> None:
    indices = [frozenset(), frozenset({0}), frozenset({0}), frozenset({0, 1}), frozenset({0, 1})]
    fragments = [FragmentFigures(id=number, physical_rows=1, indices=each) for number, each in enumerate(indices)]
    assert plan_tasks(fragments, CompactionSettings()) == [(1, 2), (3, 4)]


def test_table_without_fragments_has_no_compaction_tasks() -> None:
    assert plan_tasks([], CompactionSettings()) == []


def test_compaction_plan_statistics_count_tasks_fragments_and_rows() -> None:
    fragments = table(100, 10, 20, 1000, num_bytes=300, deleted={2: 5, 3: 1})
    settings = CompactionSettings(target_rows_per_fragment=100)
    tasks = plan_tasks(fragments, settings)
    assert tasks == [(1, 2)]
    figures = PlanFigures.of(fragments, tasks, settings)
    assert (figures.tasks, figures.fragments_before, figures.fragments_after) == (1, 4, 3)
    assert (figures.rows, figures.deleted_rows, figures.deleted_rows_after) == (1124, 6, 1)
    assert (figures.bytes_before, figures.bytes_after_estimate) == (1200, 1125)
    assert (figures.rewritten_fragments, figures.rewritten_rows, figures.rewritten_deleted_rows) == (2, 25, 5)
    assert (figures.rewritten_bytes, figures.new_fragments, figures.new_bytes_estimate) == (600, 1, 525)
    nothing = PlanFigures.of(fragments, [], settings)
    assert (nothing.fragments_after, nothing.bytes_after_estimate, nothing.files_after) == (4, 1200, 4)
