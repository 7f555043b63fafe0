"""String and binary views, as DuckDB returns them: each operation stores the same values as pylance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_core

KEYS = pa.array([1, 2], pa.int64())
TEXT = pa.array(["x", "y"], pa.string_view())
NESTED = pa.table(
    {
        "k": KEYS,
        "s": TEXT,
        "b": pa.array([b"p", None], pa.binary_view()),
        "l": pa.array([["a"], None], pa.list_(pa.string_view())),
        "m": pa.array([{"q": "z"}, None], pa.struct([("q", pa.string_view())])),
    }
)
ROWS = pa.table(
    {"k": pa.array(range(5), pa.int64()), "s": list("vwxyz"), "b": [b"r"] * 5, "l": [["q"]] * 5, "m": [{"q": "w"}] * 5}
)


def _upsert(merge: Any) -> Any:
    return merge.when_matched_update_all().when_not_matched_insert_all()


CHANGES: dict[str, Callable[[ModuleType, Any], object]] = {
    "insert": lambda library, dataset: dataset.insert(NESTED),
    "upsert": lambda library, dataset: _upsert(dataset.merge_insert("k")).execute(NESTED),
    "upsert of some columns": lambda library, dataset: _upsert(dataset.merge_insert("k")).execute(
        NESTED.select(["k", "s"])
    ),
    "upsert by text": lambda library, dataset: _upsert(dataset.merge_insert("s")).execute(NESTED),
    "condition": lambda library, dataset: (
        dataset.merge_insert("k").when_matched_update_all("source.s > target.s").execute(NESTED)
    ),
    "delete": lambda library, dataset: dataset.merge_insert("s").when_matched_delete().execute(NESTED.select(["s"])),
    "join": lambda library, dataset: dataset.merge(pa.table({"k": KEYS, "n": TEXT}), "k"),
    "add from a stream": lambda library, dataset: dataset.add_columns(
        pa.table({"n": pa.array(list("abcde"), pa.string_view())}).to_reader()
    ),
    "add from a function": lambda library, dataset: dataset.add_columns(
        library.batch_udf(pa.schema([("n", pa.string_view())]))(
            lambda batch: pa.record_batch({"n": pa.array(["r"] * batch.num_rows, pa.string_view())})
        )
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_writes_of_view_types_change_a_table_as_in_pylance(tmp_path: Path, change: str) -> None:
    found = []
    for library in (lance, lance_core):
        uri = str(tmp_path / library.__name__)
        lance.write_dataset(ROWS, uri, max_rows_per_file=3)
        CHANGES[change](library, library.dataset(uri))
        found.append(lance.dataset(uri).to_table())
    assert found[0].schema == found[1].schema
    assert sorted(map(repr, found[0].to_pylist())) == sorted(map(repr, found[1].to_pylist()))


def test_columns_of_a_fragment_are_updated_from_views(tmp_path: Path) -> None:
    """Pylance refuses views here."""
    lance_core.write_dataset(ROWS, tmp_path)
    merge = lance_core.dataset(tmp_path).merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(NESTED.select(["k", "s", "l"]))
    found = lance.dataset(tmp_path).to_table(columns=["s", "l"]).to_pydict()
    assert found == {"s": ["v", "x", "y", "y", "z"], "l": [["q"], ["a"], None, ["q"], ["q"]]}


def test_json_in_string_view_arrays_is_stored_as_json(tmp_path: Path) -> None:
    def rows(keys: list[int], values: list[str], storage: pa.DataType) -> pa.Table:
        values = pa.ExtensionArray.from_storage(pa.json_(storage), pa.array(values, storage))
        return pa.table({"k": keys, "j": values})

    lance_core.write_dataset(rows([1], ["7"], pa.string()), tmp_path)
    _upsert(lance_core.dataset(tmp_path).merge_insert("k")).execute(rows([1, 2], ['{"a":1}', "2"], pa.string_view()))
    assert lance.dataset(tmp_path).to_table()["j"].to_pylist() == ['{"a":1}', "2"]
    assert lance.dataset(tmp_path).count_rows("json_get_int(j, 'a') = 1") == 1
