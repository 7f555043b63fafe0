"""Replacing the items of lists and the members of structs, slices included."""

import pyarrow as pa
import pytest

from lance_core.encodings.nested_arrays import list_items, with_items, with_members

VALUES = [[9], None, [1, 2], [], [3, 4], None]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize(("start", "length"), [(0, 6), (1, 4), (2, 1), (6, 0)])
def test_items_of_a_sliced_list_array_are_replaced(make: object, start: int, length: int) -> None:
    lists = pa.array(VALUES, make(pa.int8())).slice(start, length)
    items = list_items(lists)
    assert items.to_pylist() == [item for value in VALUES[start : start + length] for item in value or []]
    replaced = with_items(lists, items.cast(pa.string()), make(pa.string()))
    replaced.validate(full=True)
    expected = [value and [str(item) for item in value] for value in VALUES[start : start + length]]
    assert replaced.to_pylist() == expected


def test_items_of_fixed_size_lists_include_values_hidden_by_nulls() -> None:
    lists = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)).slice(1)
    items = list_items(lists)
    assert len(items) == 4
    assert with_items(lists, items, lists.type).equals(lists)


def test_struct_arrays_that_need_no_change_are_returned_unchanged() -> None:
    array = pa.array([{"x": 1}], pa.struct([("x", pa.int8())]))
    assert with_members(array, pa.struct([pa.field("x", pa.int8(), nullable=False)])) is array


def test_matching_struct_members_to_a_type_copies_no_values() -> None:
    array = pa.array([[{"y": 1, "x": 2}], None], pa.list_(pa.struct([("y", pa.int8()), ("x", pa.int8())])))
    expected = pa.list_(pa.struct([("x", pa.int8()), ("z", pa.string()), ("y", pa.int8())]))
    aligned = with_members(array, expected)
    aligned.validate(full=True)
    assert aligned.equals(pa.array([[{"x": 2, "z": None, "y": 1}], None], expected))
    assert aligned.values.field("y").buffers()[1].address == array.values.field("y").buffers()[1].address
