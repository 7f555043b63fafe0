"""The search for repeated keys: which rows count as equal, and how memory is limited."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, NotFoundError
from lance_pipelines.checks import unique_keys
from lance_pipelines.checks.unique_keys import find_duplicates
from lance_pipelines.progress import Progress


def table(uri: str, *parts: pa.Table) -> lance_core.LanceDataset:
    for part in parts:
        lance_core.write_dataset(part, uri, mode="append")
    return lance_core.dataset(uri)


def test_a_repeated_key_is_found_with_its_first_and_last_row(uri) -> None:
    dataset = table(uri, pa.table({"id": [1, 2, 3]}), pa.table({"id": [4, 2, 5, 2]}))
    found = find_duplicates(dataset, ["id"])
    assert (found.rows_examined, found.surplus_rows, found.is_exact) == (7, 2, True)
    (example,) = found.examples
    assert (example.values, example.num_rows, example.addresses) == ({"id": 2}, 3, ((0, 1), (1, 3)))


def test_a_key_of_several_columns_repeats_only_if_all_values_are_equal(uri) -> None:
    dataset = table(uri, pa.table({"a": [1, 1, 2, 2], "b": ["x", "y", "x", "x"]}))
    (example,) = find_duplicates(dataset, ["a", "b"]).examples
    assert (example.values, example.num_rows) == ({"a": 2, "b": "x"}, 2)


def test_swapped_values_of_two_columns_are_different_keys(uri) -> None:
    assert find_duplicates(table(uri, pa.table({"a": [1, 2], "b": [2, 1]})), ["a", "b"]).surplus_rows == 0


def test_rows_with_a_null_in_the_key_and_deleted_rows_are_ignored(uri) -> None:
    dataset = table(uri, pa.table({"id": [1, None, None, 7, 7]}))
    dataset.delete("id = 7")
    found = find_duplicates(lance_core.dataset(uri), ["id"])
    assert (found.rows_examined, found.surplus_rows) == (1, 0)


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "", "a"]),
        pa.array([b"a", b"\x00", b"a"], pa.large_binary()),
        pa.array([b"ab", b"cd", b"ab"], pa.binary(2)),
        pa.array([True, False, True]),
        pa.array([1, 2, 1], pa.uint64()),
        pa.array([1.5, 2.5, 1.5], pa.float32()),
        pa.array(np.array([1.5, 2.5, 1.5], np.float16)),
        pa.array([MOMENT.date(), dt.date(1969, 1, 1), MOMENT.date()]),
        pa.array([MOMENT, dt.datetime(1969, 1, 1), MOMENT], pa.timestamp("us", "Europe/Berlin")),
        pa.array([MOMENT.time(), dt.time(0), MOMENT.time()], pa.time64("us")),
        pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.00"), decimal.Decimal("1.10")]),
        pa.array(["x", "y", "x"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_every_comparable_type_can_be_a_key(uri, values) -> None:
    found = find_duplicates(table(uri, pa.table({"key": values})), ["key"])
    assert (found.surplus_rows, found.examples[0].addresses) == (1, ((0, 0), (0, 2)))


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
def test_all_forms_of_nan_and_of_zero_are_equal_as_keys(uri, type_) -> None:
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    keys = pa.array(np.array([np.nan, odd, -np.nan, 0.0, -0.0, 1.0])).cast(type_)
    assert find_duplicates(table(uri, pa.table({"key": keys})), ["key"]).surplus_rows == 3


def test_columns_may_have_the_same_names_as_internal_columns_of_the_search(uri) -> None:
    rows = pa.table({"first": [1, 1, 2], "last": [1, 1, 2], "count": [1, 1, 2], "0": [5, 5, 5]})
    found = find_duplicates(table(uri, rows), rows.column_names[::-1])
    assert found.examples[0].values == {"0": 5, "count": 1, "last": 1, "first": 1}


def test_a_list_column_cannot_be_a_key(uri) -> None:
    with pytest.raises(
        InvalidInputError, match=r"column 'v' has type list<.*>; nested and extension types cannot be part of a key"
    ):
        find_duplicates(table(uri, pa.table({"v": [[1]]})), ["v"])


def test_error_about_a_missing_key_column_lists_the_existing_columns(uri) -> None:
    with pytest.raises(NotFoundError, match=r"key column 'x' does not exist; the columns are: id"):
        find_duplicates(table(uri, pa.table({"id": [1]})), ["x"])


def test_different_keys_with_equal_hashes_are_not_reported(uri, monkeypatch) -> None:
    monkeypatch.setattr(unique_keys, "_hash", lambda arrays: np.zeros(len(arrays[0]), np.uint64))
    found = find_duplicates(table(uri, pa.table({"id": [1, 2, 3, 2]})), ["id"])
    assert (found.surplus_rows, [example.values for example in found.examples]) == (1, [{"id": 2}])


def test_hashes_that_do_not_fit_into_memory_are_spilled_to_files(uri, monkeypatch) -> None:
    monkeypatch.setattr(unique_keys, "_BUFFERED_ROWS", 64)
    ids = np.random.default_rng(1).permutation(1000)
    ids[[17, 900]] = ids[3]
    dataset = table(uri, *[pa.table({"id": part}) for part in np.array_split(ids, 10)])
    largest, real = [], np.fromfile
    monkeypatch.setattr(np, "fromfile", lambda *args: largest.append(real(*args)) or largest[-1])
    found = find_duplicates(dataset, ["id"], max_bytes=3000)
    assert found.surplus_rows == 2
    assert len(largest) == 8
    assert max(map(len, largest)) < 250


def test_duplicates_are_counted_by_their_hashes_if_there_are_too_many_candidates(uri) -> None:
    dataset = table(uri, pa.table({"id": [1, 1, 2, 2, 3, 3, 3]}))
    found = find_duplicates(dataset, ["id"], max_candidates=2)
    assert (found.surplus_rows, found.is_exact, len(found.examples)) == (4, False, 2)


def test_progress_of_the_key_search_counts_the_rows(uri) -> None:
    reports: list[Progress] = []
    find_duplicates(table(uri, pa.table({"id": [1, 1]}), pa.table({"id": [2]})), ["id"], reports.append)
    assert [(each.stage, each.rows, each.tasks) for each in reports] == [
        ("hashing keys", 2, None),
        ("hashing keys", 3, None),
        ("sorting keys", None, 1),
        ("comparing repeated keys", 2, None),
        ("comparing repeated keys", 3, None),
    ]
