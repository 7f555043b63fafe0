"""Random tables: compaction plans equal those of pylance, and a second compaction has nothing to do.

A table is a list of fragments with some deleted rows each; indices are created between the appends, so that they cover
different fragments. Both planners get the same options.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lance.optimize import Compaction as TheirCompaction

import lance_core
from lance_core.compaction.grouping import plan_bins, plan_tasks, within_budget
from lance_core.compaction.options import CompactionSettings
from lance_core.compaction.plan import survey
from lance_core.optimize import Compaction, CompactionMetrics

FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
MANY = settings(FEW, max_examples=300)


@dataclass(frozen=True)
class Drawn:
    """A random table and options.

    Attributes:
        fragments: (rows, deleted rows) of each.
        indexed: after how many fragments each index is made.
        options: of the compaction.
    """

    fragments: tuple[tuple[int, int], ...]
    indexed: tuple[int, ...] = ()
    options: dict = field(default_factory=dict)


def fragments_of(rows: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, int]]:
    kept = st.sampled_from([0.0, 0.0, 0.0, 0.09, 0.1, 0.11, 0.5, 0.9])
    return st.tuples(rows, kept).map(lambda drawn: (drawn[0], min(int(drawn[0] * drawn[1]), drawn[0] - 1)))


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    rows = st.sampled_from([1, 5, 10, 20, 29, 30, 31, 40, 60, 99, 100, 101, 250])
    fragments = tuple(draw(st.lists(fragments_of(rows), min_size=1, max_size=12)))
    indexed = tuple(draw(st.lists(st.integers(1, len(fragments)), max_size=2)))
    options = {"target_rows_per_fragment": draw(st.sampled_from([1, 20, 30, 60, 100, 150, 1000]))}
    if draw(st.booleans()):
        options["materialize_deletions"] = draw(st.booleans())
    if draw(st.booleans()):
        options["materialize_deletions_threshold"] = draw(st.sampled_from([0.0, 0.1, 0.5, 0.89, 1.0, 2.0]))
    if draw(st.booleans()):
        options["excluded_fragment_ids"] = draw(st.lists(st.integers(0, 14), max_size=4))
    for name, limits in {
        "max_source_fragments": [1, 2, 3, 5, 8],
        "max_source_rows": [1, 30, 100, 250],
        "max_source_bytes": [1, 1500, 4000, 10_000],
    }.items():
        if draw(st.integers(0, 3)) == 0:
            options[name] = draw(st.sampled_from(limits))
    return Drawn(fragments, indexed, options)


def make(uri: str, drawn: Drawn) -> lance.LanceDataset:
    """Create the table with the reference."""
    shutil.rmtree(uri, ignore_errors=True)
    start, doomed = 0, []
    for position, (rows, deleted) in enumerate(drawn.fragments):
        for number, made_at in enumerate(drawn.indexed):
            if made_at == position:
                lance.dataset(uri).create_scalar_index("ab"[number], "BTREE", name=f"index {number}")
        numbers = pa.array(range(start, start + rows))
        lance.write_dataset(pa.table({"a": numbers, "b": numbers}), uri, mode="append")
        doomed += range(start, start + deleted)
        start += rows
    dataset = lance.dataset(uri)
    if doomed:
        dataset.delete(f"a in ({', '.join(map(str, doomed))})")
    return lance.dataset(uri)


def ids(tasks) -> list[list[int]]:
    return [[fragment.id for fragment in task] for task in tasks]


def check_plan(uri: str, drawn: Drawn) -> None:
    theirs = make(uri, drawn)
    ours = lance_core.dataset(uri)
    expected = TheirCompaction.plan(theirs, drawn.options)
    chosen = CompactionSettings.of(drawn.options, {})
    table = survey(ours.manifest, ours.locator)
    found = within_budget(plan_bins(table, chosen), chosen)
    assert ids(found) == [[each["id"] for each in task["fragments"]] for task in json.loads(expected.json())["tasks"]]
    indices = {fragment.id: fragment.indices for fragment in table}
    # Tasks that the reference does not plan join entire tasks, or are part of a task that exceeds the limits.
    planned = Compaction.plan(ours, drawn.options)
    rewritten = {fragment.id for task in planned.tasks for fragment in task.fragments}
    assert len(rewritten) == sum(len(task.fragments) for task in planned.tasks)
    assert rewritten >= {fragment_id for task in ids(found) for fragment_id in task}
    assert all(len({indices[each.id] for each in task.fragments}) == 1 for task in planned.tasks)
    assert rewritten.isdisjoint(chosen.excluded_fragment_ids)
    assert not (found and not planned.tasks)
    totals = (
        (chosen.max_source_fragments, planned.figures.rewritten_fragments),
        (chosen.max_source_rows, planned.figures.rewritten_rows),
        (chosen.max_source_bytes, planned.figures.rewritten_bytes),
    )
    assert all(limit is None or total <= limit for limit, total in totals)


BORDERS = Drawn(
    tuple((rows, 0) for rows in (100, 400, 200, 200, 400, 300, 300, 100)), options={"target_rows_per_fragment": 500}
)
THRESHOLD = Drawn(((100, 10), (1000, 0), (100, 11)), options={"target_rows_per_fragment": 100})
EQUAL = Drawn(((100, 0), (100, 0), (99, 0), (99, 0)), options={"target_rows_per_fragment": 100})
BUDGET = Drawn(((10, 0),) * 8, options={"target_rows_per_fragment": 20, "max_source_fragments": 3})
INDEXED = Drawn(((10, 0),) * 6, indexed=(2, 4), options={"target_rows_per_fragment": 20})


@FEW
@example(BORDERS)
@example(THRESHOLD)
@example(EQUAL)
@example(BUDGET)
@example(INDEXED)
@given(tables())
def test_compaction_plans_equal_those_of_pylance(tmp_path: Path, drawn: Drawn) -> None:
    check_plan(str(tmp_path / "t"), drawn)


@pytest.mark.soak
@MANY
@given(tables())
def test_many_compaction_plans_equal_those_of_pylance(tmp_path: Path, drawn: Drawn) -> None:
    check_plan(str(tmp_path / "t"), drawn)


def check_idempotence(uri: str, drawn: Drawn) -> None:
    """Compact once, and check that both planners have nothing left to do and that the rows are the same."""
    options = {name: value for name, value in drawn.options.items() if not name.startswith("max_source")}
    rows = make(uri, drawn).to_table()
    dataset = lance_core.dataset(uri)
    plan = Compaction.plan(dataset, options)
    before = dataset.version
    if drawn.indexed:
        # New fragments have no index, so that fragments with different indices are joined in a second step.
        dataset.optimize.compact_files(**options)
    else:
        Compaction.commit(dataset, [task.execute(dataset) for task in plan.tasks])
        assert dataset.version == before + (2 if plan.tasks else 0)
        assert len(dataset.get_fragments()) == plan.figures.fragments_after
    assert dataset.count_rows() == plan.figures.rows == rows.num_rows
    theirs = lance.dataset(uri)
    theirs.validate()
    assert theirs.to_table().sort_by("a").equals(rows.sort_by("a"))
    assert Compaction.plan(dataset, options).tasks == []
    assert TheirCompaction.plan(theirs, options).num_tasks() == 0


@FEW
@example(BORDERS)
@example(THRESHOLD)
@example(INDEXED)
@given(tables())
def test_a_second_compaction_has_nothing_to_do(tmp_path: Path, drawn: Drawn) -> None:
    check_idempotence(str(tmp_path / "t"), drawn)


@pytest.mark.soak
@MANY
@given(tables())
def test_second_compactions_of_many_tables_have_nothing_to_do(tmp_path: Path, drawn: Drawn) -> None:
    check_idempotence(str(tmp_path / "t"), drawn)


BYTE_OPTIONS = ("target_bytes_per_fragment", "max_bytes_per_file")


@st.composite
def tables_with_bytes(draw: st.DrawFn) -> Drawn:
    rows = st.sampled_from([1, 10, 100, 300, 1000, 3000])
    fragments = tuple(draw(st.lists(fragments_of(rows), min_size=1, max_size=10)))
    options = {
        "target_rows_per_fragment": draw(st.sampled_from([500, 2000, 10**6])),
    }
    sizes = st.sampled_from([1, 700, 2000, 5000, 20_000, 10**6])
    for name in draw(st.sampled_from([("target_bytes_per_fragment",), ("max_bytes_per_file",), BYTE_OPTIONS])):
        options[name] = draw(sizes)
    return Drawn(fragments, options=options)


@FEW
@given(tables_with_bytes())
def test_a_second_compaction_with_a_byte_target_has_nothing_to_do(tmp_path: Path, drawn: Drawn) -> None:
    uri = str(tmp_path / "t")
    rows = make(uri, drawn).to_table()
    dataset = lance_core.dataset(uri)
    before = dataset.version
    metrics = dataset.optimize.compact_files(**drawn.options)
    # Ids are reserved first. The size of rows is known only after writing, so that more may be joined then.
    assert dataset.version <= before + 4
    assert (dataset.version == before) == (metrics == CompactionMetrics())
    lance.dataset(uri).validate()
    assert dataset.to_table().sort_by("a").equals(rows.sort_by("a"))
    version = dataset.version
    dataset.optimize.compact_files(**drawn.options)
    assert dataset.version == version
    assert Compaction.plan(dataset, drawn.options).tasks == []


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 300), st.integers(1, 5000)), min_size=1, max_size=40),
    st.sampled_from([1, 50, 100, 1000]),
    st.one_of(st.none(), st.sampled_from([1, 1000, 5000, 20_000])),
)
@settings(deadline=None)
def test_compaction_plans_are_disjoint_and_repeated_compaction_terminates(
    drawn: list[tuple[int, int, int]], target_rows: int, target_bytes: int | None
) -> None:
    from lance_core.compaction.grouping import FragmentFigures

    table = [
        FragmentFigures(id=3 * number, physical_rows=rows, deleted_rows=min(deleted, rows - 1), num_bytes=num_bytes)
        for number, (rows, deleted, num_bytes) in enumerate(drawn)
    ]
    chosen = CompactionSettings(target_rows_per_fragment=target_rows, target_bytes_per_fragment=target_bytes)
    tasks = plan_tasks(table, chosen)
    members = [fragment_id for task in tasks for fragment_id in task]
    assert len(members) == len(set(members))
    assert all(list(task) == sorted(task) for task in tasks)
    assert {fragment.id for task in plan_bins(table, chosen) for fragment in task} <= set(members)
