"""Every kind of input is stored with the same rows and schema as in pylance, or refused by both libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as arrow_dataset
import pytest

import lance_core
from lance_core.errors import InvalidInputError

ROWS = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
NARROW = pa.schema({"a": pa.int32(), "b": pa.string()})
Given = tuple[Any, ...]


def _batches() -> Iterator[pa.RecordBatch]:
    for row in range(3):
        yield pa.record_batch({"a": [row, row + 1]})


INPUTS: dict[str, Callable[[str], Given]] = {
    "table": lambda uri: (ROWS,),
    "table and schema": lambda uri: (ROWS, NARROW),
    "batch": lambda uri: (ROWS.to_batches()[0],),
    "reader": lambda uri: (ROWS.to_reader(),),
    "generator": lambda uri: (_batches(), pa.schema({"a": pa.int64()})),
    "generator to cast": lambda uri: (_batches(), pa.schema({"a": pa.int32()})),
    "list of batches": lambda uri: (ROWS.to_batches(), ROWS.schema),
    "no batches": lambda uri: ([], ROWS.schema),
    "pandas": lambda uri: (ROWS.to_pandas(),),
    "pandas with an index": lambda uri: (pd.DataFrame({"a": [1]}, index=["r"]),),
    "pandas and schema": lambda uri: (ROWS.to_pandas(), NARROW),
    "polars": lambda uri: (pl.DataFrame({"a": [1, 2], "b": ["x", None]}),),
    "dict": lambda uri: ({"a": [1, 2]},),
    "dict of arrays": lambda uri: ({"a": np.array([1, 2], np.int16)},),
    "dict and schema": lambda uri: ({"a": [1, 2]}, pa.schema({"a": pa.int8()})),
    "list of dicts": lambda uri: ([{"a": 1}, {"a": 2}],),
    "list of dicts and schema": lambda uri: ([{"a": 1}, {"a": 2}], pa.schema({"a": pa.int8()})),
    "Arrow dataset": lambda uri: (arrow_dataset.dataset(ROWS),),
    "Arrow scanner": lambda uri: (arrow_dataset.dataset(ROWS).scanner(columns=["b"]),),
    "dataset of pylance": lambda uri: (lance.dataset(uri),),
    "scanner of pylance": lambda uri: (lance.dataset(uri).scanner(columns=["b"]),),
    "scanner": lambda uri: (lance_core.dataset(uri).scanner(filter="a > 1"),),
}
REFUSED: dict[str, Given] = {
    "no batches": ([],),
    "text": ("x",),
    "tables": ([ROWS, ROWS],),
    "numbers": (pd.Series([1, 2], name="a"),),
    "a value that does not fit": ({"a": [300]}, pa.schema({"a": pa.int8()})),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_supported_inputs_are_stored_as_in_pylance(tmp_path: Path, kind: str) -> None:
    source = str(tmp_path / "source")
    lance.write_dataset(ROWS, source)
    for library in (lance, lance_core):
        data, *schema = INPUTS[kind](source)
        library.write_dataset(data, tmp_path / library.__name__, *schema)
        # The same input is appended through a handle.
        data, *schema = INPUTS[kind](source)
        library.dataset(tmp_path / library.__name__).insert(data, schema=schema[0] if schema else None)
    theirs, ours = (lance.dataset(tmp_path / library.__name__) for library in (lance, lance_core))
    assert ours.schema == theirs.schema
    assert ours.to_table() == theirs.to_table()


@pytest.mark.parametrize("kind", REFUSED)
def test_unsupported_inputs_are_refused_and_leave_no_table(tmp_path: Path, kind: str) -> None:
    for library in (lance, lance_core):
        with pytest.raises(ValueError):  # noqa: PT011  # the messages differ
            library.write_dataset(REFUSED[kind][0], tmp_path / "t", *REFUSED[kind][1:])
        assert not list(tmp_path.rglob("*.lance"))


class _Features:
    arrow_schema = ROWS.schema


class _Selection:
    """A Hugging Face dataset of which two rows were selected."""

    features = _Features
    data = ROWS

    def with_format(self, name: str) -> _Selection:
        assert name == "arrow"
        return self

    def iter(self, batch_size: int) -> Iterator[pa.Table]:
        assert batch_size > 1
        yield ROWS.take([2, 0])


class _Stream:
    features = _Features

    def iter(self, batch_size: int) -> Iterator[dict[str, list[Any]]]:
        assert batch_size > 1
        yield from (batch.to_pydict() for batch in ROWS.to_batches(max_chunksize=2))


class _Dictionary(dict[str, _Selection]):
    pass


@pytest.fixture
def _hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes like those of ``datasets``, whose release 5.2.0 gave the same results; it is not installed."""
    library = SimpleNamespace(Dataset=_Selection, IterableDataset=_Stream, DatasetDict=_Dictionary)
    monkeypatch.setitem(sys.modules, "datasets", library)


@pytest.mark.usefixtures("_hugging_face")
def test_hugging_face_datasets_are_written_with_their_selected_rows_and_columns(tmp_path: Path) -> None:
    assert lance_core.write_dataset(_Selection(), tmp_path / "rows").to_table() == ROWS.take([2, 0])
    assert lance_core.write_dataset(_Stream(), tmp_path / "stream").to_table() == ROWS
    with pytest.raises(InvalidInputError, match="one by one"):
        lance_core.write_dataset(_Dictionary(train=_Selection()), tmp_path / "t")


def test_batches_of_an_iterator_are_written_before_the_iterator_ends(tmp_path: Path) -> None:
    started: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(6):
            started.append(len(list((tmp_path / "data").glob("*.lance"))))
            yield pa.record_batch({"a": range(number * 10, number * 10 + 10)})

    lance_core.write_dataset(batches(), tmp_path, pa.schema({"a": pa.int64()}), max_rows_per_file=10)
    assert started[-1] >= 4
    assert lance.dataset(tmp_path).count_rows() == 60
