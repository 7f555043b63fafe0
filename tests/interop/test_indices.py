"""A table indexed by pylance and changed by lance_core gives pylance the correct result of every query.

Every kind of index is queried for every value, with and without stable row ids, after each kind of change.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_core
from lance_core import LanceOperation
from lance_core.errors import SchemaMismatchError
from tests.support.matrix_operations import to_ours

INDICES = {"a": "BTREE", "c": "BITMAP", "s": "INVERTED", "l": "LABEL_LIST"}
VALUES = 25


def _rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "c": pa.array([n % VALUES for n in numbers], pa.int64()),
            "s": pa.array([f"w{n % VALUES}" for n in numbers]),
            "l": pa.array([[f"t{n % 3}"] for n in numbers]),
            "v": pa.array([[float(n)] * 4 for n in numbers], pa.list_(pa.float32(), 4)),
        }
    )


@pytest.fixture(scope="module", params=["addresses", "stable"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param) / "table"
    dataset = lance.write_dataset(
        _rows(0, 80), str(path), max_rows_per_file=20, enable_stable_row_ids=request.param == "stable"
    )
    for column, kind in INDICES.items():
        dataset.create_scalar_index(column, kind)
    dataset.create_index("v", "IVF_FLAT", num_partitions=1)
    return path


@pytest.fixture
def uri(base: Path, tmp_path: Path) -> str:
    shutil.copytree(base, tmp_path / "table")
    return str(tmp_path / "table")


def _append(uri: str) -> None:
    lance_core.write_dataset(_rows(80, 100), uri, mode="append")


def _delete(uri: str) -> None:
    lance_core.dataset(uri).delete("a % 10 = 3 or a < 20")


def _compact(uri: str) -> None:
    lance_core.dataset(uri).delete("a % 10 = 3")
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=40)


def _update_rows(uri: str) -> None:
    """Update column c of rows 25 and 45, which are moved."""
    from lance.fragment import LanceFragment, RowIdSequence

    dataset = lance.dataset(uri)
    moved = dataset.to_table(filter="a in (25, 45)").sort_by("a").set_column(1, "c", pa.array([4, 9], pa.int64()))
    new = LanceFragment.create(uri, moved)
    if dataset.has_stable_row_ids:
        new.row_id_meta = RowIdSequence([25, 45]).to_inline_metadata()
    update = lance.LanceOperation.Update(
        updated_fragments=[dataset.get_fragment(1).delete("a = 25"), dataset.get_fragment(2).delete("a = 45")],
        new_fragments=[new],
        fields_for_preserving_frag_bitmap=[1],
        update_mode="rewrite_rows",
    )
    lance_core.LanceDataset.commit(uri, to_ours(update), read_version=dataset.version)


def _update_columns(uri: str) -> None:
    """Rewrite column c of fragment 1."""
    dataset = lance.dataset(uri)
    change = pa.table({"a": pa.array([25, 30], pa.int64()), "c": pa.array([24, 1], pa.int64())})
    updated, fields = dataset.get_fragment(1).update_columns(change, left_on="a", right_on="a")
    update = lance.LanceOperation.Update(
        updated_fragments=[updated],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={1: BitMap([5, 10]).serialize()},
    )
    lance_core.LanceDataset.commit(uri, to_ours(update), read_version=dataset.version)


def _rewrite_two_of_three(uri: str) -> None:
    """Compact two of the three fragments; the index does not cover the rewritten rows."""
    lance_core.dataset(uri).optimize.compact_files(target_rows_per_fragment=30)


def _merge(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    schema = dataset.lance_schema
    wide = lance_core.Schema(
        fields=(*schema.fields, lance_core.Field(id=dataset.max_field_id + 1, name="z", logical_type="int32"))
    )
    fragments = [each.metadata for each in dataset.get_fragments()]
    lance_core.LanceDataset.commit(uri, LanceOperation.Merge(fragments, wide, True), read_version=dataset.version)


def _restore(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    _delete(uri)
    dataset.restore()


CHANGES: dict[str, Callable[[str], None]] = {
    "append": _append,
    "delete": _delete,
    "compact": _compact,
    "update rows": _update_rows,
    "t14 update columns": _update_columns,
    "t12 rewrite": _rewrite_two_of_three,
    "merge": _merge,
    "restore": _restore,
}


def _check_queries(uri: str) -> None:
    dataset = lance.dataset(uri)
    dataset.validate()
    expected = dataset.to_table(columns=["a", "c", "s", "l", "v"]).to_pylist()
    assert lance_core.dataset(uri).to_table(columns=["a", "c", "s", "l", "v"]).to_pylist() == expected

    def found(**query: object) -> list[int]:
        return sorted(dataset.to_table(columns=["a"], **query)["a"].to_pylist())

    for number in range(0, 100, 3):
        assert found(filter=f"a = {number}") == [row["a"] for row in expected if row["a"] == number]
    for value in range(0, VALUES, 2):
        assert found(filter=f"c = {value}") == sorted(row["a"] for row in expected if row["c"] == value)
    for value in (0, 4, 5, 9, 20, 24):
        matches = sorted(row["a"] for row in expected if row["s"] == f"w{value}")
        assert found(full_text_query=f"w{value}") == matches
    for tag in range(3):
        matches = sorted(row["a"] for row in expected if f"t{tag}" in row["l"])
        assert found(filter=f"array_has_any(l, ['t{tag}'])") == matches
    for number in (0, 25, 45, 79):
        query = np.full(4, number, np.float32)
        nearest = dataset.to_table(columns=["a"], nearest={"column": "v", "q": query, "k": 1})["a"].to_pylist()
        best = min(abs(row["v"][0] - number) for row in expected)
        assert abs(nearest[0] - number) == best


@pytest.mark.parametrize("first", CHANGES)
@pytest.mark.sampled(5)
def test_indexed_queries_return_correct_rows_after_a_change(first: str, uri: str) -> None:
    CHANGES[first](uri)
    _check_queries(uri)


# Only pairs whose second change finds the rows that it expects.
PAIRS = [
    (first, second)
    for first in ("append", "t14 update columns", "merge", "restore", "compact")
    for second in CHANGES
    if first != second and not (first == "compact" and "update" in second) and second != "update rows"
]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_indexed_queries_return_correct_rows_after_two_changes(first: str, second: str, uri: str) -> None:
    CHANGES[first](uri)
    CHANGES[second](uri)
    _check_queries(uri)


def test_pylance_changes_indexed_tables_after_lance_core(uri: str) -> None:
    _delete(uri)
    _append(uri)
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices()
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    _check_queries(uri)


def test_ids_of_removed_fragments_in_an_index_bitmap_are_never_assigned_again(uri: str) -> None:
    lance_core.dataset(uri).delete("a >= 20")
    for start in (100, 110, 120):
        lance_core.write_dataset(_rows(start, start + 10), uri, mode="append")
    assert [each.fragment_id for each in lance_core.dataset(uri).get_fragments()] == [0, 4, 5, 6]
    assert lance.dataset(uri).to_table(filter="a = 105").num_rows == 1
    assert lance.dataset(uri).to_table(filter="a = 25").num_rows == 0


def test_an_index_on_a_field_that_was_dropped_in_the_meantime_is_refused(uri: str) -> None:
    read_version = lance_core.dataset(uri).version
    index = lance_core.dataset(uri).read_transaction(3).operation.new_indices[0]
    index.uuid, index.name = "767a1125-4d7a-4dce-b606-fa1f77c2725a", "again"
    lance.dataset(uri).drop_columns(["c"])
    operation = LanceOperation.CreateIndex([index], [])
    with pytest.raises(SchemaMismatchError, match="'again' covers field id 1"):
        lance_core.LanceDataset.commit(uri, operation, read_version=read_version)
    assert lance.dataset(uri).to_table(filter="a = 7").num_rows == 1


def test_an_index_built_while_values_changed_does_not_cover_the_changed_fragments(uri: str) -> None:
    """One writer built the index, and another changed the values, so that the rows are scanned."""
    dataset = lance.dataset(uri)
    read_version = dataset.version
    operation = lance_core.dataset(uri).read_transaction(3).operation
    operation.removed_indices = list(operation.new_indices)
    lance_core.dataset(uri).drop_index("c_idx")
    read_version += 1
    _update_columns(uri)
    operation.removed_indices = []
    lance_core.LanceDataset.commit(uri, operation, read_version=read_version)
    described = {each.name: each.segments[0].fragment_ids for each in lance_core.dataset(uri).describe_indices()}
    assert described["c_idx"] == {0, 2, 3}
    _check_queries(uri)
