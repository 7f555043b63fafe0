"""The files that a column change reads and writes, as recorded by a store."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lance_core
from lance_core import LanceOperation
from tests.support.counting_store import CountingStore

NUM_ROWS = 4_000
WIDE = pa.table({"a": range(NUM_ROWS), "b": range(NUM_ROWS), "wide": [f"{number:0100}" for number in range(NUM_ROWS)]})


@pytest.fixture
def dataset(uri: str, store: CountingStore) -> lance_core.LanceDataset:
    """A dataset of four fragments, in which each column has a separate file."""
    dataset = lance_core.write_dataset(WIDE.select(["a"]), uri, max_rows_per_file=NUM_ROWS // 4)
    dataset.add_columns(WIDE.select(["b"]))
    dataset.add_columns(WIDE.select(["wide"]))
    store.reset()
    return dataset


def files_of(dataset: lance_core.LanceDataset, column: str) -> set[str]:
    """Return the data files with the current values of a column."""
    field_id = dataset.lance_schema.field(column).id
    return {
        file.path for fragment in dataset.get_fragments() for file in fragment.data_files() if field_id in file.fields
    }


def touched(store: CountingStore) -> dict[str, set[str]]:
    """Return the names of the data files that were read and of those that were written."""
    found: dict[str, set[str]] = {"read": set(), "written": set()}
    for call in store.calls:
        if "/data/" in call.path:
            kind = {"get": "read", "get_ranges": "read", "get_tail": "read", "create": "written"}.get(
                call.method, "other"
            )
            found.setdefault(kind, set()).add(call.path.rpartition("/")[2])
    return found


CHANGES: dict[str, Callable[[lance_core.LanceDataset], Any]] = {
    "cast": lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}),
    "add": lambda dataset: dataset.add_columns({"c": "a * 2"}),
    "join": lambda dataset: dataset.merge(pa.table({"a": [1], "c": [2]}), "a"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_column_change_reads_and_writes_only_files_of_the_changed_columns(
    dataset: lance_core.LanceDataset, store: CountingStore, change: str
) -> None:
    sources, others = files_of(dataset, "a"), files_of(dataset, "b") | files_of(dataset, "wide")
    CHANGES[change](dataset)
    calls = touched(store)
    new = files_of(dataset, "a" if change == "cast" else "c")
    assert calls["read"] == sources
    assert calls["written"] == new
    assert len(new) == 4
    assert files_of(dataset, "b") | files_of(dataset, "wide") == others
    # One manifest and one transaction file, regardless of the number of fragments.
    assert Counter(call.method for call in store.calls if "put" in call.method) == {"put": 1, "put_if_absent": 1}
    assert dataset.to_table(columns=["wide"])["wide"].to_pylist() == WIDE["wide"].to_pylist()


@pytest.mark.parametrize("change", ["rename", "drop", "nullable", "nulls"])
def test_metadata_changes_read_and_write_no_data_file(
    dataset: lance_core.LanceDataset, store: CountingStore, change: str
) -> None:
    {
        "rename": lambda: dataset.alter_columns({"path": "a", "name": "z"}),
        "drop": lambda: dataset.drop_columns(["a"]),
        "nullable": lambda: dataset.alter_columns({"path": "a", "nullable": True}),
        "nulls": lambda: dataset.add_columns(pa.field("z", pa.int8())),
    }[change]()
    assert touched(store) == {"read": set(), "written": set()}


def test_an_updated_column_is_written_once_and_its_old_file_is_no_longer_used(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    fragment = dataset.get_fragments()[1]
    number = fragment.to_table(columns=["a"])["a"][7].as_py()
    old = files_of(dataset, "b") & {file.path for file in fragment.data_files()}
    store.reset()
    changed, field_ids = fragment.update_columns(pa.table({"a": [number], "b": [-1]}), "a")
    calls = touched(store)
    assert len(calls["read"]) == 2
    assert calls["read"] <= files_of(dataset, "a") | files_of(dataset, "b")
    operation = LanceOperation.Update(updated_fragments=[changed], fields_modified=field_ids)
    dataset = lance_core.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    assert calls["written"] < files_of(dataset, "b")
    assert not old & files_of(dataset, "b")
    assert dataset.to_table()["b"].to_pylist() == [-1 if each == number else each for each in range(NUM_ROWS)]


def test_columns_are_added_to_one_fragment_without_reading_other_fragments(
    dataset: lance_core.LanceDataset, store: CountingStore
) -> None:
    fragment = dataset.get_fragments()[2]
    mine = {file.path for file in fragment.data_files()}
    for change in (
        lambda: fragment.merge_columns({"c": "a + b"}),
        lambda: fragment.merge(pa.table({"a": [1], "c": [1]}), "a"),
    ):
        store.reset()
        added, _ = change()
        assert touched(store)["read"] <= mine
        assert touched(store)["written"] == {file.path for file in added.files} - mine
