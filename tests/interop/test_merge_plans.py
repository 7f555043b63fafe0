"""Merge plans: the first line equals that of pylance, and the others describe the steps of this library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, InvalidMergeError, SchemaMismatchError

TABLE = pa.table({"a": range(10), "b": [str(number) for number in range(10)], "c": range(10)})
SOURCE = pa.table({"a": [3, 4, 20], "b": ["x", "y", "z"], "c": [1, 2, 3]})

MERGES: dict[str, Callable[[Any], Any]] = {
    "upsert": lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
    "insert": lambda merge: merge.when_not_matched_insert_all(),
    "fail": lambda merge: merge.when_matched_fail(),
    "delete": lambda merge: merge.when_matched_delete(),
    "replace": lambda merge: merge.when_matched_update_all().when_not_matched_by_source_delete(),
    "replace if": lambda merge: merge.when_matched_update_all().when_not_matched_by_source_delete("a > 4"),
}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    lance.write_dataset(TABLE, uri, max_rows_per_file=4)
    return uri


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("on", ["a", ["b", "a"]])
def test_the_first_line_of_a_merge_plan_equals_that_of_pylance(uri: str, merge: str, on: Any) -> None:
    theirs, ours = (MERGES[merge](library.dataset(uri).merge_insert(on)) for library in (lance, lance_core))
    assert ours.explain_plan().splitlines()[0] == theirs.explain_plan().splitlines()[0]
    given = SOURCE.schema
    assert ours.explain_plan(given).splitlines()[0] == theirs.explain_plan(given).splitlines()[0]
    assert lance_core.dataset(uri).version == 1


def test_a_merge_plan_lists_the_columns_that_are_read_and_written(uri: str) -> None:
    merge = lance_core.dataset(uri).merge_insert("a").when_matched_update_all("source.b > target.c")
    assert merge.explain_plan().splitlines() == [
        "MergeInsert: on=[a], when_matched=UpdateIf, when_not_matched=DoNothing, when_not_matched_by_source=Keep",
        "  Write: mode=rewrite_rows, columns=[a, b, c]",
        "    Conditions: update_if=source.b > target.c",
        "      Join: on=[a], columns=[a, c]",
        "        Fragments: count=3",
        "        Source: columns=[a, b, c]",
    ]
    merge = lance_core.dataset(uri).merge_insert("a").when_matched_update_all().write_mode("rewrite_columns")
    plan = merge.explain_plan(SOURCE.select(["a", "b"]).schema, verbose=True).splitlines()
    assert plan[1] == "  Write: mode=rewrite_columns, columns=[b]"
    assert plan[4].startswith("        Fragment 0: rows=4, deleted=0, files=[")
    assert plan[-1] == "      Source: columns=[a, b]"


def test_a_merge_that_only_deletes_uses_only_the_keys_of_the_source(uri: str) -> None:
    merge = lance_core.dataset(uri).merge_insert("a").when_matched_delete()
    assert merge.explain_plan().splitlines()[1:] == [
        "  Join: on=[a], columns=[a]",
        "    Fragments: count=3",
        "    Source: columns=[a]",
    ]


def test_a_merge_that_cannot_succeed_has_no_plan(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    with pytest.raises(InvalidInputError, match="would not change any row"):
        dataset.merge_insert("a").explain_plan()
    with pytest.raises(SchemaMismatchError, match="no key column"):
        MERGES["upsert"](dataset.merge_insert("a")).explain_plan(SOURCE.select(["b"]).schema)
    with pytest.raises(InvalidMergeError, match="does not exist"):
        dataset.merge_insert("a").when_matched_update_all("source.z > 1").explain_plan()


def test_analyzing_a_merge_plan_counts_rows_and_leaves_the_table_unchanged(uri: str) -> None:
    before = sorted(Path(uri).rglob("*"))
    merge = MERGES["upsert"](lance_core.dataset(uri).merge_insert("a"))
    first, write, join, *_ = merge.analyze_plan(SOURCE).splitlines()
    assert first.startswith("MergeInsert: elapsed=")
    assert first.endswith("num_inserted_rows=1, num_updated_rows=2, num_deleted_rows=0")
    assert "iops=1, bytes_written=" in write
    assert "bytes_read=" in join
    delete = lance_core.dataset(uri).merge_insert("a").when_matched_delete()
    assert "num_deleted_rows=2" in delete.analyze_plan(SOURCE)
    assert sorted(Path(uri).rglob("*")) == before
    assert merge.execute(SOURCE)["num_updated_rows"] == 2
