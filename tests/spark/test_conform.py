"""Conversion of batches to a target schema: shared buffers, list lengths, nulls, slices, copies of small columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import SchemaMismatchError
from lance_pipelines.spark.conform import conform_batch, detach_small_columns

VECTOR = pa.schema([pa.field("v", pa.list_(pa.float32(), 2))])


def lists(values: list[list[float | None] | None]) -> pa.RecordBatch:
    # Spark names the items "element".
    return pa.RecordBatch.from_arrays([pa.array(values, pa.list_(pa.field("element", pa.float32())))], names=["v"])


def address(values: pa.Array) -> int:
    return values.buffers()[-1].address


def test_converted_vectors_share_their_value_buffers() -> None:
    batch = lists([[1, 2], [3, 4], [5, 6]])
    (vectors,) = conform_batch(batch, VECTOR).columns
    assert vectors.type == pa.list_(pa.float32(), 2)
    assert address(vectors.values) == address(batch.column(0).values)
    assert conform_batch(batch.slice(1), VECTOR).column(0).to_pylist() == [[3, 4], [5, 6]]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [None, None],
        [[1, 2], None, [3, 4]],
        [None, [1, 2], [3, 4], None],
        [[1, None], None, [None, None], [3, 4]],
    ],
)
def test_every_slice_with_null_lists_and_null_items_keeps_its_values(values: list[list[float | None] | None]) -> None:
    batch = lists(values)
    for start in range(len(values) + 1):
        for stop in range(start, len(values) + 1):
            conformed = conform_batch(batch.slice(start, stop - start), VECTOR)
            conformed.validate(full=True)
            assert conformed.column(0).to_pylist() == values[start:stop]


def test_null_lists_that_occupy_values_are_not_copied() -> None:
    values = pa.array([1, 2, 3, 4], pa.float32())
    column = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), values, mask=pa.array([False, True]))
    (vectors,) = conform_batch(pa.RecordBatch.from_arrays([column], names=["v"]), VECTOR).columns
    assert vectors.to_pylist() == [[1, 2], None]
    assert address(vectors.values) == address(values)


@pytest.mark.parametrize(
    ("values", "row", "length"),
    [([[1, 2], [3]], 1, 1), ([[1, 2, 3]], 0, 3), ([None, [1, 2], []], 2, 0), ([[1], [2, 3, 4]], 0, 1)],
)
def test_a_list_of_the_wrong_length_raises_an_error_with_column_row_and_lengths(
    values: list[list[float | None] | None], row: int, length: int
) -> None:
    with pytest.raises(
        SchemaMismatchError, match=f"'v': row {100 + row} has a list of length {length}, expected 2"
    ) as raised:
        conform_batch(lists(values), VECTOR, first_row=100)
    assert raised.value.context["found"] == length


def test_list_items_are_widened_to_the_type_of_the_dataset() -> None:
    wide = pa.schema([pa.field("v", pa.list_(pa.float64(), 2))])
    assert conform_batch(lists([[1, 2], None]), wide).column(0).to_pylist() == [[1, 2], None]


def test_columns_have_the_order_and_types_of_the_target_schema() -> None:
    batch = pa.RecordBatch.from_pydict({"b": ["x", None], "unused": [1, 2], "a": pa.array([1, 2], pa.int32())})
    target = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.large_string())])
    conformed = conform_batch(batch, target)
    assert conformed.schema == target
    assert conformed.to_pydict() == {"a": [1, 2], "b": ["x", None]}


def test_nested_columns_are_reordered_and_widened_and_keep_their_nulls() -> None:
    inner = pa.struct({"y": pa.int32(), "x": pa.list_(pa.field("element", pa.float32()))})
    rows = [{"y": 1, "x": [1, 2]}, None, {"y": None, "x": None}]
    target = pa.schema(
        [
            pa.field("s", pa.struct({"x": pa.list_(pa.float32(), 2), "y": pa.int64()})),
            pa.field("l", pa.large_list(pa.struct({"x": pa.list_(pa.float32(), 2), "y": pa.int64()}))),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    columns = {
        "s": pa.array(rows, inner),
        "l": pa.array([rows, None, []], pa.list_(inner)),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    for start in range(3):
        conformed = conform_batch(batch.slice(start), target)
        conformed.validate(full=True)
        assert (
            conformed.to_pylist()
            == [
                {"s": row, "l": items, "m": pairs}
                for row, items, pairs in zip(rows, [rows, None, []], [[("k", 1)], None, []], strict=True)
            ][start:]
        )


def test_a_null_is_refused_in_a_required_column() -> None:
    target = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="'a': row 8 is null"):
        conform_batch(pa.RecordBatch.from_pydict({"a": [1, None]}), target, first_row=7)


def test_a_nested_null_is_refused_unless_its_parent_is_null() -> None:
    target = pa.schema([pa.field("s", pa.struct([pa.field("x", pa.int64(), nullable=False)]))])
    fits = pa.RecordBatch.from_pydict({"s": [{"x": 1}, None]})
    assert conform_batch(fits, target).to_pydict() == {"s": [{"x": 1}, None]}
    for rows in ([{"x": None}], [{"x": None}, None]):
        with pytest.raises(SchemaMismatchError, match=r"'s\.x'"):
            conform_batch(pa.RecordBatch.from_pydict({"s": rows}), target)


def test_a_column_that_cannot_be_converted_is_named_in_the_error() -> None:
    with pytest.raises(SchemaMismatchError, match="'a': string cannot be converted to int64"):
        conform_batch(pa.RecordBatch.from_pydict({"a": ["x"]}), pa.schema([("a", pa.int64())]))
    with pytest.raises(SchemaMismatchError, match="'b' is missing"):
        conform_batch(pa.RecordBatch.from_pydict({"a": ["x"]}), pa.schema([("b", pa.int64())]))


def streamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch as a worker receives it, with all columns in one block of memory."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def test_detach_small_columns_copies_small_columns_next_to_a_large_one() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(3200), pa.float32()), 32)
    batch = streamed(pa.RecordBatch.from_arrays([pa.array(range(100)), vectors], names=["id", "v"]))
    detached = detach_small_columns(batch)
    assert detached.equals(batch)
    assert detached.schema == batch.schema
    assert address(detached["id"]) != address(batch["id"])
    assert address(detached["v"]) == address(batch["v"])


def test_detach_small_columns_does_not_copy_columns_of_similar_size() -> None:
    batch = streamed(pa.RecordBatch.from_pydict({name: list(range(100)) for name in "abc"}))
    assert [address(column) for column in detach_small_columns(batch)] == [address(column) for column in batch]


def test_detach_small_columns_copies_every_kind_of_column() -> None:
    columns = {
        "text": ["a", None],
        "flag": [True, None],
        "nothing": pa.nulls(2),
        "list": [[1], None],
        "struct": [{"x": 1}, None],
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "large": ["x" * 10_000, "y"],
    }
    batch = pa.RecordBatch.from_pydict(columns)
    assert detach_small_columns(batch).equals(batch)
    assert detach_small_columns(batch.slice(1)).equals(batch.slice(1))
    assert detach_small_columns(batch.slice(0, 0)).num_rows == 0
