"""The text of a scan plan: its steps, and what each step reads."""

import pyarrow as pa
import pytest

import lance_core


@pytest.fixture
def dataset(uri: str) -> lance_core.LanceDataset:
    """A dataset of ten rows in fragments of 4, 4, and 2 rows, of which one row is deleted."""
    table = pa.table({"a": range(10), "b": range(10), "c": range(10)})
    dataset = lance_core.write_dataset(table, uri, max_rows_per_file=4)
    dataset.delete("a = 5")
    return dataset


def test_plan_without_a_filter_reads_the_columns(dataset: lance_core.LanceDataset) -> None:
    plan = dataset.scanner(columns=["b", "a"], limit=3).explain_plan()
    assert plan == "Read: columns=[b, a], offset=0, limit=3\n  Fragments: count=3, include_deleted_rows=False\n"


def test_plan_with_a_filter_fetches_the_other_columns_of_matching_rows(dataset: lance_core.LanceDataset) -> None:
    plan = dataset.scanner(columns=["c"], filter="a > 3", offset=1).explain_plan()
    assert plan.splitlines() == [
        "Fetch: columns=[c]",
        "  Filter: columns=[a], predicate=a > 3, offset=1, limit=None",
        "    Fragments: count=3, include_deleted_rows=False",
    ]


def test_plan_with_a_filter_on_all_columns_fetches_nothing(dataset: lance_core.LanceDataset) -> None:
    plan = dataset.scanner(columns=["a"], filter="a > b").explain_plan()
    assert plan.splitlines()[0] == "Filter: columns=[a, b], predicate=a > b, offset=0, limit=None"


def test_plan_lists_computed_columns(dataset: lance_core.LanceDataset) -> None:
    plan = dataset.scanner(columns={"sum": "a + b"}).explain_plan()
    assert plan.splitlines()[:2] == ["Compute: columns=[sum: a + b]", "  Read: columns=[a, b], offset=0, limit=None"]


def test_verbose_plan_lists_the_fragments_and_their_files(dataset: lance_core.LanceDataset) -> None:
    lines = dataset.scanner(with_row_id=True, include_deleted_rows=True).explain_plan(verbose=True).splitlines()
    assert lines[1] == "  Fragments: count=3, include_deleted_rows=True"
    for line, fragment in zip(lines[2:], dataset.get_fragments(), strict=True):
        assert line.startswith(f"    Fragment {fragment.fragment_id}: rows={fragment.physical_rows}, deleted=")
        assert line.endswith(f"files=[{fragment.data_files()[0].path}]")
    assert "deleted=1" in lines[3]


def test_analyzing_a_plan_performs_the_scan(dataset: lance_core.LanceDataset) -> None:
    first, *plan = dataset.scanner(columns=["c"], filter="a > 3").analyze_plan().splitlines()
    assert first.startswith("Result: rows=5, batches=")
    assert plan[0] == "  Fetch: columns=[c]"
    first, *plan = dataset.scanner(columns=["c"], filter="a > 3").analyze_plan(count_rows=True).splitlines()
    assert first == "Count: rows=5"
    assert plan[0].startswith("  Filter: columns=[a]")
