"""Incoming batches: column order, storage types, and nulls."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import SchemaMismatchError
from lance_core.file.batch_alignment import BatchAlignment
from lance_core.schema.convert import schema_from_arrow


def _align(schema: pa.Schema, batch: pa.RecordBatch) -> list[pa.Array]:
    return BatchAlignment(schema_from_arrow(schema)).align(batch)


def test_aligned_columns_are_in_schema_order_without_a_copy() -> None:
    a, b = pa.array([1, 2], pa.int32()), pa.array(["x", None])
    aligned = _align(pa.schema([("a", pa.int32()), ("b", pa.string())]), pa.record_batch({"b": b, "a": a}))
    assert aligned == [a, b]
    assert aligned[0].buffers()[1].address == a.buffers()[1].address


def test_alignment_converts_views_and_extensions_to_their_storage_types() -> None:
    schema = pa.schema([("v", pa.string_view()), ("l", pa.list_(pa.binary_view())), ("u", pa.uuid())])
    batch = pa.record_batch(
        [
            pa.array(["x"], pa.string_view()),
            pa.array([[b"y"]], pa.list_(pa.binary_view())),
            pa.array([b"0" * 16], pa.uuid()),
        ],
        schema=schema,
    )
    types = [array.type for array in _align(schema, batch)]
    assert types == [pa.string(), pa.list_(pa.binary()), pa.binary(16)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pa.record_batch({"b": pa.array([1], pa.int8())}), "'b' is not in the schema"),
        (pa.record_batch({"a": pa.array([1], pa.int64())}), "'a': expected type int32, found int64"),
        (pa.record_batch({"z": pa.array([1], pa.int8())}), "column 'a' of the file is missing"),
    ],
)
def test_batch_that_does_not_match_the_schema_is_refused(batch: pa.RecordBatch, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        _align(pa.schema([("a", pa.int32()), ("z", pa.int8())]), batch)


def test_every_batch_is_checked_against_the_schema() -> None:
    alignment = BatchAlignment(schema_from_arrow(pa.schema([("a", pa.int32())])))
    alignment.align(pa.record_batch({"a": pa.array([1], pa.int32())}))
    with pytest.raises(SchemaMismatchError):
        alignment.align(pa.record_batch({"a": pa.array([1], pa.int64())}))


REQUIRED_ITEM = pa.field("item", pa.int8(), nullable=False)
REQUIRED_MEMBER = pa.struct([pa.field("x", pa.int8(), nullable=False)])


def _nullable(dtype: pa.DataType, values: list[object]) -> pa.Array:
    return pa.array(values, dtype)


def _struct_with_null_child(mask: list[bool]) -> pa.Array:
    return pa.StructArray.from_arrays(
        [pa.array([1, None, 3], pa.int8())], fields=[pa.field("x", pa.int8())], mask=pa.array(mask)
    )


@pytest.mark.parametrize(
    ("dtype", "array", "where"),
    [
        (pa.int8(), pa.array([1, None], pa.int8()), "c"),
        (REQUIRED_MEMBER, _struct_with_null_child([False, False, False]), r"c\.x"),
        (pa.list_(REQUIRED_ITEM), pa.array([[1], [None]], pa.list_(pa.int8())), r"c\.item"),
        (
            pa.map_(pa.string(), REQUIRED_ITEM),
            pa.array([[("k", None)]], pa.map_(pa.string(), pa.int8())),
            r"c\.entries\.item",
        ),
        (
            pa.list_(REQUIRED_MEMBER, 1),
            pa.FixedSizeListArray.from_arrays(_struct_with_null_child([False] * 3), 1),
            r"c\.item\.x",
        ),
    ],
    ids=["primitive", "struct member", "list item", "map value", "fixed-size list of structs"],
)
def test_nulls_in_a_required_field_are_refused_with_the_path_of_the_field(
    dtype: pa.DataType, array: pa.Array, where: str
) -> None:
    schema = pa.schema([pa.field("c", dtype, nullable=not pa.types.is_integer(dtype))])
    with pytest.raises(SchemaMismatchError, match=f"field '{where}' is not nullable"):
        _align(schema, pa.record_batch({"c": array}))


def test_null_member_of_a_null_value_is_accepted() -> None:
    below_struct = _struct_with_null_child([False, True, False])
    assert len(_align(pa.schema([("c", REQUIRED_MEMBER)]), pa.record_batch({"c": below_struct}))[0]) == 3
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array([1, None], pa.int8()), mask=pa.array([False, True]))
    assert len(_align(pa.schema([("c", pa.list_(REQUIRED_ITEM))]), pa.record_batch({"c": lists}))[0]) == 2


def test_alignment_checks_only_the_rows_of_a_slice() -> None:
    array = pa.array([None, 1, 2, None], pa.int8()).slice(1, 2)
    schema = pa.schema([pa.field("c", pa.int8(), nullable=False)])
    assert len(_align(schema, pa.record_batch({"c": array}))[0]) == 2
    nested = pa.array([[None], [1], [None]], pa.list_(pa.int8())).slice(1, 1)
    assert len(_align(pa.schema([("c", pa.list_(REQUIRED_ITEM))]), pa.record_batch({"c": nested}))[0]) == 1
