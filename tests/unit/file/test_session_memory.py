"""The size that a session reports is close to the memory that it uses."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lance_core
from lance_core.file.families import open_writer
from lance_core.file.session import Session
from lance_core.file.write_config import WriteConfig
from lance_core.io.local_store import LocalStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

STORE = LocalStore()


@dataclass(frozen=True)
class Shape:
    """Files with the same rows, and the number of reads."""

    num_columns: int
    num_rows: int
    num_files: int = 1
    max_page_bytes: int = 1 << 20
    num_projections: int = 1
    num_takes: int = 0
    is_nested: bool = False


SHAPES = {
    "wide": Shape(300, 20),
    "wide, some projections": Shape(300, 20, num_projections=4),
    "wide, more projections than are kept": Shape(100, 20, num_projections=9),
    "wide, nested": Shape(60, 20, num_projections=2, is_nested=True),
    "wide, single rows": Shape(200, 20, num_takes=2),
    "many small files": Shape(2, 50, 20),
    "many small files, single rows": Shape(2, 50, 20, num_takes=3),
    "many pages": Shape(2, 10_000, max_page_bytes=1024),
    "many pages, some projections": Shape(40, 2_000, max_page_bytes=1024, num_projections=3),
    "many pages, single rows": Shape(2, 10_000, max_page_bytes=1024, num_takes=2),
    "large pages, single rows": Shape(2, 200_000, num_takes=2),
}


def _rows(shape: Shape) -> pa.RecordBatch:
    values = np.random.default_rng(7).integers(0, 1 << 60, shape.num_rows)
    column: pa.Array = pa.array(values)
    if shape.is_nested:
        names = pa.array([f"text {value}" for value in values])
        column = pa.StructArray.from_arrays([column, pa.array([[value] for value in values]), names], ["a", "b", "c"])
    return pa.record_batch({f"column {number}": column for number in range(shape.num_columns)})


def _read(session: Session, folder: Path, shape: Shape) -> None:
    for path in sorted(map(str, folder.iterdir())):
        num_bytes = STORE.head(path).num_bytes
        reader = session.open_file(STORE, path, num_bytes=num_bytes)
        fields = reader.schema.fields
        for number in range(shape.num_projections):
            reader.read_table(fields[number * len(fields) // 20 :])
        for number in range(shape.num_takes):
            again = session.open_file(STORE, path, num_bytes=num_bytes)
            again.take(fields[number:], list(range(number, shape.num_rows, 37)))


def _kept(folder: Path, shape: Shape) -> tuple[int, int]:
    """Return the size that a session reports, and the size of the memory that becomes free with it."""
    session = Session()
    _read(session, folder, shape)
    reported = session.size_bytes()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    del session
    gc.collect()
    return reported, before - tracemalloc.get_traced_memory()[0]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.1", "2.0", "2.2"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_reported_size_of_a_session_is_close_to_the_memory_it_uses(tmp_path: Path, shape: Shape, version: str) -> None:
    rows = _rows(shape)
    config = WriteConfig(version=LanceFileVersion(version), max_page_bytes=shape.max_page_bytes)
    for file in range(shape.num_files):
        with open_writer(STORE.create(f"{tmp_path}/{file}"), schema_from_arrow(rows.schema), config) as writer:
            writer.write_batch(rows)
            writer.finish()
    # First, fill the process-wide caches, which outlive a session.
    _read(Session(), tmp_path, shape)
    tracemalloc.start()
    try:
        reported, kept = _kept(tmp_path, shape)
    finally:
        tracemalloc.stop()
    assert kept / 1.5 < reported < kept * 1.5


@pytest.mark.slow
def test_memory_of_a_session_stays_within_its_budget_for_every_kind_of_read(tmp_path: Path) -> None:
    """Together, files, pages, row ids in random order, and deletion files would exceed the budget several times."""
    num_rows, max_bytes = 400_000, 1 << 20
    numbers = np.random.default_rng(3).permutation(num_rows)
    rows = pa.table({"a": numbers, "b": pa.array(numbers).cast(pa.string())})
    lance_core.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=num_rows // 80)
    lance_core.dataset(tmp_path / "t").delete("a % 3 = 0")

    def read(session: Session) -> None:
        dataset = lance_core.dataset(tmp_path / "t", session=session)
        ids = dataset.to_table(columns=["a"], with_row_id=True)
        for start in range(0, 50_000, 1_000):
            part = ids.slice(start * 5, 20)
            assert dataset._take_rows(part["_rowid"].to_pylist())["a"].equals(part["a"])
            assert dataset.take([start])["a"].equals(ids["a"].slice(start, 1))

    unlimited = Session()
    read(unlimited)
    assert unlimited.size_bytes() > 2 * max_bytes
    tracemalloc.start()
    try:
        session = Session(metadata_cache_size_bytes=max_bytes)
        read(session)
        assert max_bytes / 2 < session.size_bytes() <= max_bytes
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        del session
        gc.collect()
        assert before - tracemalloc.get_traced_memory()[0] < 1.5 * max_bytes
    finally:
        tracemalloc.stop()
