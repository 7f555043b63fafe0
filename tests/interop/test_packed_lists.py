"""Packed structs with fixed-size lists, and structs within fixed-size lists of structs, exchanged with pylance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader as TheirReader
from lance.file import LanceFileWriter as TheirWriter

from lance_core.errors import NotSupportedError
from lance_core.file.lance_file import LanceFileReader, LanceFileWriter
from lance_core.schema.field import Field
from lance_core.schema.logical_types import arrow_field, arrow_type

_PACKED = {b"lance-encoding:packed": b"true"}


def _packed(item: pa.Array, *more: pa.Array) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(item, len(item) // 3)
    struct = pa.StructArray.from_arrays([lists, *more], names=[f"m{index}" for index in range(1 + len(more))])
    schema = pa.schema([pa.field("p", struct.type, metadata=_PACKED)])
    return pa.Table.from_arrays([struct], schema=schema)


_NUMBERS = pa.array(np.arange(3), pa.int32())
_DEEP = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.int32())]))]), 2)

TABLES = {
    "floats": _packed(pa.array(np.arange(12, dtype=np.float32)), _NUMBERS),
    "bools": _packed(pa.array([True, False, True] * 8), _NUMBERS),
    "text": _packed(pa.array(np.arange(12)), pa.array(["a", "", "ccc"])),
    "structs": pa.table(
        {
            "c": pa.array(
                [
                    [{"x": i, "y": {"z": 1} if i % 3 else None}, None if i % 5 else {"x": 2}] if i % 7 else None
                    for i in range(2000)
                ],
                _DEEP,
            ),
        }
    ),
}


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("writer", [LanceFileWriter, TheirWriter])
def test_packed_structs_with_lists_are_read_by_lance_core_and_pylance(tmp_path: Path, name: str, writer: type) -> None:
    table, path = TABLES[name], str(tmp_path / "f.lance")
    with writer(path, table.schema, version="2.2") as out:
        for batch in table.to_batches():
            out.write_batch(batch)
    for reader in (LanceFileReader, TheirReader):
        assert reader(path).read_all().to_table().to_pylist() == table.to_pylist()


def test_null_items_in_packed_lists_are_refused(tmp_path: Path) -> None:
    table = _packed(pa.array([1, None] * 6), _NUMBERS)
    out = LanceFileWriter(tmp_path / "f", table.schema)
    out.write_batch(table)
    with pytest.raises(NotSupportedError, match="null item"):
        out.close()


def test_fields_of_type_null_are_nullable_even_if_declared_required() -> None:
    null = Field(name="key", logical_type="null", nullable=False)
    assert arrow_field(null).nullable
    entries = Field(name="entries", logical_type="struct", nullable=False, children=(null, null))
    with pytest.raises(NotSupportedError, match="keys of type null"):
        arrow_type(Field(name="m", logical_type="map", nullable=True, children=(entries,)))
