"""Batches are split by the size of their blob values, at any depth of the schema."""

import pyarrow as pa
import pytest

import lance_core
from lance_core import blob_array, blob_field
from lance_core.blobs.batch_splitting import blob_pieces
from lance_core.scan import scanner
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow

INLINE, EXTERNAL = 0, 3


def _value(size: int, kind: int = INLINE) -> dict:
    return {"kind": kind, "position": 0, "size": size, "blob_id": 0, "blob_uri": ""}


def _cut(field: pa.Field, values: list, max_bytes: int, start: int = 0) -> list[tuple[int, int]]:
    stored = stored_schema(schema_from_arrow(pa.schema([field])))
    [column] = schema_to_arrow(stored)
    batch = pa.record_batch([pa.array(values, column.type)], schema=pa.schema([column])).slice(start)
    return list(blob_pieces(batch, stored, max_bytes))


def test_blob_column_is_split_by_the_sizes_of_its_values() -> None:
    values = [_value(4), _value(6), None, _value(1), _value(30), _value(2**60), _value(2**63), _value(0)]
    assert _cut(blob_field("b"), values, 10) == [(0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    assert _cut(blob_field("b"), values, 10, start=1) == [(0, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    assert _cut(blob_field("b"), [], 10) == []


def test_external_references_do_not_count_toward_the_batch_size() -> None:
    assert _cut(blob_field("b"), [_value(100, EXTERNAL)] * 3, 10) == [(0, 3)]


def test_blobs_in_structs_and_lists_count_toward_the_batch_size() -> None:
    struct = pa.field("s", pa.struct([blob_field("b"), pa.field("k", pa.int64())]))
    rows = [{"b": _value(8), "k": 1}, None, {"b": None, "k": 2}, {"b": _value(8), "k": 3}]
    assert _cut(struct, rows, 10) == [(0, 3), (3, 4)]
    many = pa.field("l", pa.list_(blob_field("item")))
    lists = [[_value(3), _value(3)], [], None, [_value(4)], [_value(1)], [_value(9), _value(9)]]
    assert _cut(many, lists, 10) == [(0, 4), (4, 5), (5, 6)]
    assert _cut(many, lists, 10, start=3) == [(0, 2), (2, 3)]


def test_struct_member_named_size_is_not_a_blob() -> None:
    plain = pa.field("s", pa.struct([pa.field("size", pa.uint64())]))
    assert _cut(plain, [{"size": 100}] * 4, 10) == [(0, 4)]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_batches_of_blob_values_end_early_unless_a_batch_size_is_given(tmp_path, monkeypatch, version: str) -> None:
    monkeypatch.setattr(scanner, "_VALUES_BYTES", 25)
    if version == "2.2":
        field, values = blob_field("b"), blob_array([b"0123456789"] * 5)
    else:
        field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        values = pa.array([b"0123456789"] * 5, pa.large_binary())
    rows = pa.table([range(5), values], schema=pa.schema([pa.field("i", pa.int64()), field]))
    dataset = lance_core.write_dataset(rows, str(tmp_path / "t"), data_storage_version=version)

    def sizes(**options) -> list[int]:
        return [batch.num_rows for batch in dataset.scanner(**options).to_batches()]

    assert sizes(blob_handling="all_binary") == [2, 2, 1]
    assert sizes(blob_handling="all_binary", filter="i > 0") == [2, 2]
    assert sizes(blob_handling="all_binary", batch_size=4) == [4, 1]
    assert sizes() == [5]
    assert sizes(blob_handling="all_binary", columns=["i"]) == [5]
    found = dataset.to_table(blob_handling="all_binary", with_row_id=True)
    assert found["_rowid"].to_pylist() == found["i"].to_pylist() == list(range(5))
