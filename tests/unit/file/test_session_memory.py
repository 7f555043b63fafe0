"""Session: the size that it reports is about the memory that it keeps."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_core.file.families import open_writer
from lance_core.file.session import Session
from lance_core.file.write_config import WriteConfig
from lance_core.io.local_store import LocalStore
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

STORE = LocalStore()


@dataclass(frozen=True)
class Shape:
    """Files with the same rows, and how often they are read."""

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
def test_reported_size_is_about_the_memory_that_a_session_keeps(tmp_path: Path, shape: Shape, version: str) -> None:
    rows = _rows(shape)
    config = WriteConfig(version=LanceFileVersion(version), max_page_bytes=shape.max_page_bytes)
    for file in range(shape.num_files):
        with open_writer(STORE.create(f"{tmp_path}/{file}"), schema_from_arrow(rows.schema), config) as writer:
            writer.write_batch(rows)
            writer.finish()
    # Caches of the process, which outlive a session, are filled first.
    _read(Session(), tmp_path, shape)
    tracemalloc.start()
    try:
        reported, kept = _kept(tmp_path, shape)
    finally:
        tracemalloc.stop()
    assert kept / 1.5 < reported < kept * 1.5
