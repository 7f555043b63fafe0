"""Searches for nearest vectors return the rows and distances that pylance returns without an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.dataset import ColumnOrdering

import lance_core
from lance_core.dataset import serialize_row_addrs
from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError

NUM_ROWS = 300
DIMENSION = 12
FLOATS = (pa.float16(), pa.float32(), pa.float64())


def _vectors(dtype: pa.DataType, count: int, rng: np.random.Generator) -> pa.Array:
    is_bits = pa.types.is_uint8(dtype)
    numbers = rng.integers(0, 256, count * DIMENSION) if is_bits else rng.standard_normal(count * DIMENSION)
    flat = pa.array(numbers.astype(dtype.to_pandas_dtype()), dtype)
    nulls = None if is_bits else pa.array(rng.random(count) < 0.1)
    return pa.FixedSizeListArray.from_arrays(flat, DIMENSION, mask=nulls)


def _write(path: Path, vectors: pa.Array, **arguments: Any) -> str:
    numbers = pa.array(range(len(vectors)))
    rows = pa.table(
        {
            "number": numbers,
            "text": numbers.cast(pa.string()),
            "half": pc.equal(pc.bit_wise_and(numbers, 1), 0),
            "s": pa.StructArray.from_arrays([numbers], ["number"]),
            "v": vectors,
        }
    )
    lance.write_dataset(rows, str(path), max_rows_per_file=70, **arguments)
    return str(path)


def _assert_same(uri: str, **arguments: Any) -> pa.Table:
    ours = lance_core.dataset(uri).scanner(**arguments).to_table()
    theirs = lance.dataset(uri).scanner(**arguments).to_table()
    assert ours.schema.names == theirs.schema.names
    assert ours.schema.types == theirs.schema.types
    for name in theirs.schema.names:
        if name == "_distance":
            np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy(), rtol=1e-4, atol=1e-4)
        else:
            assert ours[name].to_pylist() == theirs[name].to_pylist(), name
    return ours


@pytest.fixture
def uri(tmp_path: Path) -> str:
    path = _write(tmp_path / "table", _vectors(pa.float32(), NUM_ROWS, np.random.default_rng(3)))
    lance.dataset(path).delete("number % 7 = 3")
    return path


SOME_ROWS = serialize_row_addrs([fragment << 32 | row for fragment in (0, 1, 3) for row in range(0, 70, 3)])
QUERY = np.random.default_rng(4).standard_normal(DIMENSION)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nearest_float_vectors_equal_those_of_pylance(tmp_path: Path, dtype: pa.DataType, metric: str) -> None:
    path = _write(tmp_path / "table", _vectors(dtype, NUM_ROWS, np.random.default_rng(1)))
    _assert_same(path, columns=["number", "text"], nearest={"column": "v", "q": QUERY, "k": 7, "metric": metric})


def test_nearest_binary_vectors_equal_those_of_pylance(tmp_path: Path) -> None:
    path = _write(tmp_path / "table", _vectors(pa.uint8(), NUM_ROWS, np.random.default_rng(1)))
    query = np.arange(DIMENSION) * 20
    for metric in (None, "hamming"):
        found = _assert_same(path, nearest={"column": "v", "q": query, "k": 40, "metric": metric})
        assert len(found) == 40


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nearest_multivectors_equal_those_of_pylance(tmp_path: Path, dtype: pa.DataType, metric: str) -> None:
    rng = np.random.default_rng(5)
    offsets = np.concatenate([[0], rng.integers(0, 5, NUM_ROWS)]).cumsum()
    items = _vectors(dtype, int(offsets[-1]), rng)
    items = pa.FixedSizeListArray.from_arrays(items.values, DIMENSION)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=pa.array(rng.random(NUM_ROWS) < 0.1))
    path = _write(tmp_path / "table", lists)
    for query in (QUERY, [QUERY, -QUERY]):
        _assert_same(path, columns=["number"], nearest={"column": "v", "q": query, "k": 20, "metric": metric})


@pytest.mark.parametrize("query", [QUERY, [QUERY, -QUERY, QUERY * 2]], ids=["one query", "several queries"])
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"columns": ["number"]},
        {"columns": []},
        {"columns": ["_distance", "_rowid", "number"]},
        {"columns": ["number"], "disable_scoring_autoprojection": True},
        {"columns": {"next": "number + 1"}},
        {"with_row_id": True, "with_row_address": True},
        {"filter": "number > 100"},
        {"filter": "number > 100", "prefilter": True},
        {"filter": "_distance > 12"},
        {"filter": "number < 0"},
        {"limit": 4, "offset": 2},
        {"filter": "number > 100", "limit": 4, "offset": 1, "prefilter": True},
        {"order_by": ["number"], "columns": ["text"]},
        {"order_by": [ColumnOrdering("number", ascending=False)], "filter": "number > 100", "columns": []},
        {"order_by": ["s.number"], "filter": "_distance > 12", "with_row_id": True},
        {"order_by": []},
        {"row_addr_allowlist": SOME_ROWS},
        {"row_addr_blocklist": SOME_ROWS, "filter": "number % 2 = 1"},
        {"row_addr_allowlist": SOME_ROWS, "filter": "_distance < 12", "limit": 4},
        {"row_addr_allowlist": SOME_ROWS, "filter": "number % 2 = 1", "prefilter": True, "order_by": ["number"]},
    ],
    ids=lambda arguments: str({name: str(value)[:20] for name, value in arguments.items()}),
)
def test_scan_arguments_combine_with_nearest_as_in_pylance(uri: str, query: Any, arguments: dict[str, Any]) -> None:
    _assert_same(uri, **arguments, nearest={"column": "v", "q": query, "k": 9})
    _assert_same(uri, **arguments, nearest={"column": "v", "q": query, "k": 9, "distance_range": (8.0, 20.0)})
    _assert_same(uri, **arguments, nearest={"column": "v", "q": query})


@pytest.mark.parametrize("stable", [False, True])
def test_rows_at_equal_distances_are_ordered_by_row_id(tmp_path: Path, stable: bool) -> None:
    flat = pa.array(np.arange(NUM_ROWS * DIMENSION) // DIMENSION % 3, pa.float32())
    vectors = pa.FixedSizeListArray.from_arrays(flat, DIMENSION)
    path = _write(tmp_path / "table", vectors, enable_stable_row_ids=stable)
    lance.dataset(path).update({"text": "'changed'"}, where="number < 40")
    for count in (5, 120, 250):
        nearest = {"column": "v", "q": [0] * DIMENSION, "k": count}
        assert len(_assert_same(path, nearest=nearest, with_row_id=True)) == count


def test_vectors_whose_distance_is_undefined_are_never_found(tmp_path: Path) -> None:
    numbers = np.ones((6, DIMENSION), np.float32)
    numbers[1], numbers[2, 3], numbers[3], numbers[4] = np.nan, np.nan, np.inf, 0
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(numbers.reshape(-1)), DIMENSION, mask=pa.array([True] + [False] * 5)
    )
    path = _write(tmp_path / "table", vectors)
    for metric in ("l2", "cosine", "dot"):
        _assert_same(path, nearest={"column": "v", "q": np.arange(DIMENSION), "metric": metric})


def test_count_rows_and_head_apply_to_the_nearest_rows(uri: str) -> None:
    scanner = lance_core.dataset(uri).scanner(nearest={"column": "v", "q": QUERY, "k": 6}, filter="number > 100")
    assert scanner.count_rows() == scanner.to_table().num_rows
    assert 0 < scanner.count_rows() < 6
    assert scanner.head(1) == scanner.to_table().slice(0, 1)


def test_given_fragments_restrict_the_search(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    scanner = dataset.scanner(nearest={"column": "v", "q": QUERY}, fragments=dataset.get_fragments()[1:2])
    assert all(70 <= number < 140 for number in scanner.to_table()["number"].to_pylist())


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"column": "nope"}, InvalidInputError),
        ({"column": "text"}, InvalidTypeError),
        ({"q": [1, 2, 3]}, InvalidInputError),
        ({"q": [QUERY, [1.0, 2.0]]}, InvalidInputError),
        ({"q": "abc"}, InvalidTypeError),
        ({"q": None}, InvalidTypeError),
        ({"k": 0}, InvalidInputError),
        ({"k": 1.5}, InvalidTypeError),
        ({"metric": "nope"}, InvalidInputError),
        ({"metric": "hamming"}, InvalidInputError),
        ({"distance_range": (1, 2, 3)}, InvalidInputError),
        ({"distance_range": ("a", 1)}, InvalidTypeError),
        ({"nprobes": 0}, InvalidInputError),
        ({"minimum_nprobes": 3, "maximum_nprobes": 2}, InvalidInputError),
        ({"approx_mode": "x"}, InvalidInputError),
        ({"search_effort": 2}, InvalidInputError),
        ({"unknown": 1}, InvalidTypeError),
    ],
    ids=str,
)
def test_invalid_nearest_searches_are_refused_with_the_same_error_classes_as_in_pylance(
    uri: str, changes: dict[str, Any], error: type[Exception]
) -> None:
    nearest = {"column": "v", "q": QUERY, **changes}
    with pytest.raises(error):
        lance_core.dataset(uri).to_table(nearest=nearest)
    with pytest.raises((ValueError, TypeError)) as theirs:
        lance.dataset(uri).to_table(nearest=nearest)
    assert issubclass(error, type(theirs.value))


@pytest.mark.parametrize(
    "arguments", [{"include_deleted_rows": True, "with_row_id": True}, {"fast_search": True}], ids=str
)
def test_arguments_that_a_search_does_not_support_are_refused(uri: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(NotSupportedError):
        lance_core.dataset(uri).scanner(nearest={"column": "v", "q": QUERY}, **arguments)


@pytest.mark.parametrize("order_by", [["_distance"], ["_rowid"], ["nope"]], ids=str)
def test_rows_of_a_search_can_only_be_sorted_by_columns_of_the_table(uri: str, order_by: list[str]) -> None:
    with pytest.raises(InvalidInputError):
        lance_core.dataset(uri).scanner(nearest={"column": "v", "q": QUERY}, order_by=order_by)
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri).scanner(nearest={"column": "v", "q": QUERY}, order_by=order_by).to_table()


def test_limit_and_offset_apply_to_the_sorted_rows_of_a_search(uri: str) -> None:
    _assert_same(uri, nearest={"column": "v", "q": QUERY}, order_by=["half", "text"], limit=4, offset=2)


def test_rows_with_equal_sort_keys_stay_ordered_by_distance(uri: str) -> None:
    dataset = lance_core.dataset(uri)
    for query in (QUERY, [QUERY, -QUERY]):
        nearest = {"column": "v", "q": query, "k": 50}
        expected = dataset.to_table(nearest=nearest).to_pylist()
        found = dataset.to_table(nearest=nearest, order_by=["half"]).to_pylist()
        assert found == sorted(expected, key=lambda row: row["half"])
