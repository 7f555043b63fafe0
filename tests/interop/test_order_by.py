"""Scans with ``order_by`` return the rows in the same order as in pylance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import ColumnOrdering as TheirOrdering

import lance_core
from lance_core.dataset import ScannerBuilder
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.scan import row_order

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table(
    {
        "i": pa.array([3, 1, None, 2, 2, -5], pa.int64()),
        "f": pa.array([1.5, -0.0, None, float("nan"), 0.0, -1.0], pa.float32()),
        "text": pa.array(["a", "B", None, "", "b", "ab"]),
        "l": pa.array([[1, 2], [], None, [3], [1], [None]]),
        "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 4}, {"x": 5}, {"x": 0}]),
        "d": pa.array(["a", "b", None, "b", "a", "c"]).dictionary_encode(),
        "day": pa.array([3, 2, 1, None, 0, 9], pa.date32()),
        "n": pa.array(range(6)),
    }
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("order") / "t.lance")
    lance.write_dataset(ROWS, path, max_rows_per_file=2)
    return path


@pytest.mark.parametrize("column", ROWS.schema.names)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_rows_are_sorted_as_in_pylance(uri: str, column: str, ascending: bool, nulls_first: bool) -> None:
    ours, theirs = (
        dataset.to_table(order_by=[ordering(column, ascending, nulls_first), ordering("n")])
        for dataset, ordering in (
            (lance_core.dataset(uri), lance_core.ColumnOrdering),
            (lance.dataset(uri), TheirOrdering),
        )
    )
    assert ours.schema == theirs.schema
    assert repr(ours.to_pydict()) == repr(theirs.to_pydict())


@pytest.mark.parametrize(
    "arguments",
    [
        {"order_by": ["i", "n"], "limit": 2},
        {"order_by": ["i", "n"], "limit": 2, "offset": 1},
        {"order_by": ["i", "n"], "offset": 4},
        {"order_by": ["i", "n"], "offset": 40},
        {"order_by": ["i", "n"], "limit": 40},
        {"order_by": ("f", "n"), "filter": "i is not null", "limit": 3},
        {"order_by": "n", "columns": ["n", "text"]},
        {"order_by": ["n"], "columns": []},
        {"order_by": []},
        {"order_by": ["st.x"], "columns": ["st.x"]},
        {"order_by": ["`i`", "n"], "columns": {"negative": "-i", "n": "n"}},
        {"order_by": ["i", "i", "n"], "with_row_id": True, "with_row_address": True},
        {"order_by": [TheirOrdering("i", ascending=False), "n"]},
    ],
    ids=repr,
)
def test_other_arguments_apply_to_sorted_rows_as_in_pylance(uri: str, arguments: dict[str, Any]) -> None:
    ours, theirs = (dataset.to_table(**arguments) for dataset in (lance_core.dataset(uri), lance.dataset(uri)))
    assert ours.schema == theirs.schema
    assert (ours.num_rows, repr(ours.to_pydict())) == (theirs.num_rows, repr(theirs.to_pydict()))


def test_rows_can_be_sorted_by_columns_that_are_not_returned(uri: str) -> None:
    found = lance_core.dataset(uri).to_table(columns=["n", "_rowoffset"], order_by=["st.x"])
    assert found["n"].to_pylist() == found["_rowoffset"].to_pylist() == [5, 0, 3, 4, 1, 2]


def test_a_limit_of_zero_returns_no_rows(uri: str) -> None:
    assert lance_core.dataset(uri).to_table(order_by=["i"], limit=0).num_rows == 0


def test_rows_with_equal_sort_keys_keep_the_stored_order(tmp_path: Path) -> None:
    rows = pa.table({"k": np.arange(5000) % 3, "n": np.arange(5000)})
    dataset = lance_core.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=700)
    found = dataset.to_table(order_by=["k"], columns=["n"])["n"].to_numpy()
    assert found.tolist() == np.argsort(rows["k"].to_numpy(), kind="stable").tolist()
    assert dataset.to_table(order_by=["k"], columns=["n"], limit=20)["n"].to_numpy().tolist() == found[:20].tolist()


def test_every_kind_of_scan_is_sorted_in_a_table_with_deleted_rows(tmp_path: Path) -> None:
    dataset = lance_core.write_dataset(ROWS, tmp_path / "t.lance", max_rows_per_file=3)
    dataset.delete("n = 5")
    dataset = lance_core.dataset(tmp_path / "t.lance")
    assert dataset.head(2, order_by=["i"], columns=["n"])["n"].to_pylist() == [1, 3]
    assert dataset.get_fragments()[1].to_table(order_by=["text"], columns=["n"])["n"].to_pylist() == [3, 4]
    built = ScannerBuilder(dataset).order_by(["f"]).columns(["n"]).to_scanner().to_table()
    assert built["n"].to_pylist() == [1, 4, 0, 3, 2]
    assert [batch.num_rows for batch in dataset.to_batches(order_by=["i"], batch_size=2)] == [2, 2, 1]
    assert dataset.scanner(order_by=["i"], filter="i > 1").count_rows() == 3


def test_sorting_in_several_passes_returns_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    rows = pa.table({"k": rng.permutation(4000), "text": [f"row {number}" for number in range(4000)]})
    dataset = lance_core.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=500)
    for name, value in (("_FIRST_ROWS", 10), ("_PIECE_BYTES", 5000), ("_HELD_ROWS", 300)):
        monkeypatch.setattr(row_order, name, value)
    assert dataset.to_table(order_by=["k"]) == rows.sort_by("k")
    assert dataset.to_table(order_by=["k"], limit=30, offset=7) == rows.sort_by("k").slice(7, 30)


@pytest.mark.parametrize("name", ["nope", "I", "i + 1", "_rowid", "_rowaddr"])
def test_sort_columns_that_pylance_refuses_are_refused(uri: str, name: str) -> None:
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri).to_table(order_by=[name])
    with pytest.raises(InvalidInputError, match="does not exist"):
        lance_core.dataset(uri).to_table(order_by=[name])


@pytest.mark.parametrize("order_by", [3, [3], [None], lance_core.ColumnOrdering("i")])
def test_orderings_of_the_wrong_type_are_refused(uri: str, order_by: Any) -> None:
    with pytest.raises(InvalidTypeError, match="order_by must"):
        lance_core.dataset(uri).to_table(order_by=order_by)


def test_a_scan_that_includes_deleted_rows_cannot_be_sorted(uri: str) -> None:
    with pytest.raises(NotSupportedError, match="include_deleted_rows"):
        lance_core.dataset(uri).to_table(order_by=["i"], with_row_id=True, include_deleted_rows=True)


def test_a_forked_process_sorts_a_dataset_that_its_parent_has_sorted(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    expected = dataset.to_table(order_by=["i"])["n"].to_pylist()
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset.to_table(order_by=["i"])["n"].to_pylist() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
