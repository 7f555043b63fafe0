"""Columns used by both the filter and the result are read once."""

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.scan import matching

NUM_ROWS = 4_000
NUMBERS = np.random.default_rng(28).permutation(NUM_ROWS)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    texts = [None if number % 7 == 0 else f"text {number % 50}" for number in NUMBERS]
    return pa.table(
        {
            "k": NUMBERS,
            "text": texts,
            "kind": pa.array([f"kind {number % 300}" for number in NUMBERS]).dictionary_encode(),
            "pair": pa.array([{"a": number, "b": number % 3} for number in NUMBERS.tolist()]),
            "other": np.arange(NUM_ROWS) * 2,
        }
    )


@pytest.fixture(scope="module")
def dataset(rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> lance_core.LanceDataset:
    place = tmp_path_factory.mktemp("table") / "t.lance"
    dataset = lance_core.write_dataset(rows, str(place), max_rows_per_file=900)
    dataset.delete("other % 22 = 0")
    return dataset


def _bytes_read(dataset: lance_core.LanceDataset, columns: list[str], condition: str) -> int:
    # The first scan fills the session cache.
    for _ in range(2):
        dataset.io_stats_incremental()
        dataset.to_table(columns=columns, filter=condition)
    return int(dataset.io_stats_incremental().read_bytes)


@pytest.mark.parametrize("condition", ["k < 40", "k < 3000"])
def test_column_of_the_filter_is_not_read_again_for_the_result(
    dataset: lance_core.LanceDataset, condition: str
) -> None:
    assert _bytes_read(dataset, ["other", "k"], condition) == _bytes_read(dataset, ["other"], condition)


@pytest.mark.parametrize(("offset", "limit"), [(None, None), (3, 500), (700, None)])
@pytest.mark.parametrize("columns", [["other", "text", "k"], ["kind", "k", "other"], ["pair", "text", "kind", "other"]])
@pytest.mark.parametrize("most", [64, 2**19], ids=["many pieces", "one piece"])
def test_scan_returns_correct_rows_regardless_of_columns_shared_by_filter_and_result(
    dataset: lance_core.LanceDataset,
    rows: pa.Table,
    monkeypatch: pytest.MonkeyPatch,
    columns: list[str],
    offset: int | None,
    limit: int | None,
    most: int,
) -> None:
    monkeypatch.setattr(matching, "_MOST_HELD", most)
    condition = "k < 3000 and text != 'text 3' and pair.b < 2 and kind != 'kind 5'"
    matches = [
        each["k"] < 3000
        and each["text"] not in (None, "text 3")
        and each["pair"]["b"] < 2
        and each["kind"] != "kind 5"
        and each["other"] % 22 != 0
        for each in rows.to_pylist()
    ]
    expected = rows.filter(pa.array(matches)).slice(offset or 0, limit).select(columns)
    found = dataset.to_table(columns=columns, filter=condition, offset=offset, limit=limit)
    assert found.schema == dataset.to_table(columns=columns).schema
    assert found.to_pylist() == expected.to_pylist()


def test_plan_fetches_only_the_columns_that_the_filter_has_not_read(dataset: lance_core.LanceDataset) -> None:
    plan = dataset.scanner(columns=["k", "other", "kind"], filter="k > 3 and kind = 'kind 1'").explain_plan()
    assert plan.splitlines()[0] == "Fetch: columns=[other, kind]"
