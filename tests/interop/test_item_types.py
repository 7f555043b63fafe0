"""List items without their own field: bfloat16 is stored at any depth; other extension types and views are refused."""

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.arrow import bfloat16_array

import lance_core
from lance_core.errors import NotSupportedError
from lance_core.schema.convert import bfloat16_list_name, schema_from_arrow

VERSIONS = ["0.1", "2.0", "2.1", "2.2"]


def lists(items, *sizes):
    for size in sizes:
        items = pa.FixedSizeListArray.from_arrays(items, size)
    return items


VECTORS = lists(bfloat16_array([1.5, 2.5, -0.0, 2.0, 7.0, float("inf")] * 4), 3, 2)
WITH_NULLS = lists(bfloat16_array([1.5, None, -0.0, 2.0] * 6), 3, 2)
COLUMNS = {
    "two": VECTORS,
    "two with nulls": WITH_NULLS,
    "three": lists(bfloat16_array([1.5, 2.5, -0.0, 2.0] * 6), 3, 2, 2),
    "sliced": VECTORS.slice(1, 2),
    "in lists": pa.ListArray.from_arrays(pa.array([0, 1, 1, 4], pa.int32()), VECTORS),
    "in structs": pa.StructArray.from_arrays([VECTORS, pa.array(range(4))], ["v", "i"]),
}


def legacy(version):
    return "legacy" if version == "0.1" else version


def words(array):
    """Return the column with bfloat16 values as integers, which are compared bit by bit."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return array.storage.to_pylist()
    if isinstance(array, pa.StructArray):
        return [words(array.field(index)) for index in range(array.type.num_fields)]
    if isinstance(array, (pa.FixedSizeListArray, pa.ListArray)):
        return [len(array), array.value_lengths().to_pylist(), words(array.flatten())]
    return array.to_pylist()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.sampled(12)
def test_bfloat16_in_nested_vectors_is_read_by_lance_core_and_pylance(tmp_path, name, version):
    if (name, version) == ("two with nulls", "0.1"):
        pytest.skip("0.1 has no nulls of items")
    table = pa.table({"x": COLUMNS[name]})
    lance_core.write_dataset(table, tmp_path / "ours", data_storage_version=version)
    lance.write_dataset(table, tmp_path / "theirs", data_storage_version=legacy(version))
    for path in ("ours", "theirs"):
        for library in (lance_core, lance):
            found = library.dataset(str(tmp_path / path)).to_table()
            assert found.schema.field("x").type == table.schema.field("x").type
            assert words(found["x"]) == words(table["x"])
    if version in ("0.1", "2.0"):
        ours, theirs = (next(Path(tmp_path, path, "data").iterdir()).read_bytes() for path in ("ours", "theirs"))
        assert ours == theirs


def test_only_nested_bfloat16_lists_have_a_logical_type_name():
    assert bfloat16_list_name(VECTORS.type) == "fixed_size_list:fixed_size_list:lance.bfloat16:3:2"
    assert bfloat16_list_name(pa.list_(pa.binary(2), 2)) is None
    assert bfloat16_list_name(pa.int8()) is None
    assert bfloat16_list_name(bfloat16_array([1.0]).type) is None


def deep(depth):
    dtype = bfloat16_array([1.0]).type
    for _ in range(depth):
        dtype = pa.list_(dtype, 1)
    return pa.schema([("x", dtype)])


def test_nested_vectors_deeper_than_64_levels_are_refused():
    assert schema_from_arrow(deep(64)).fields[0].logical_type.startswith("fixed_size_list:" * 64 + "lance.bfloat16:1:")
    with pytest.raises(NotSupportedError):
        schema_from_arrow(deep(65))


UNREGISTERED = pa.field("item", pa.int8(), metadata={"ARROW:extension:name": "some.where"})
LOST = {
    "uuid": (lists(pa.array([b"a" * 16] * 4, pa.uuid()), 2), "arrow.uuid.*cast.*fixed_size_binary"),
    "bool8": (
        lists(pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0] * 4, pa.int8())), 2, 2),
        "arrow.bool8.*cast.*int8",
    ),
    "unregistered": (pa.array([[1, 2]], pa.list_(UNREGISTERED, 2)), "some.where.*cast.*int8"),
    "string_view": (
        pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a"], pa.string_view())),
        "dictionary.*string_view.*cast.*string",
    ),
    "binary_view": (
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([b"a"], pa.binary_view())),
        "dictionary.*binary_view.*cast.*binary",
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", LOST)
def test_extension_types_that_would_be_lost_are_refused(tmp_path, name, nested, version):
    array, match = LOST[name]
    column = pa.StructArray.from_arrays([array], ["a"]) if nested else array
    where = "x.a" if nested else "x"
    with pytest.raises(NotSupportedError, match=f"column '{where}'.*{match}"):
        lance_core.write_dataset(pa.table({"x": column}), tmp_path / "x", data_storage_version=version)
    assert not os.listdir(tmp_path)
    if version != "0.1":
        with pytest.raises(OSError, match="does not match the file schema"):
            lance.write_dataset(pa.table({"x": column}), tmp_path / "y", data_storage_version=version)


def test_structs_in_vectors_keep_their_extension_types(tmp_path):
    structs = pa.StructArray.from_arrays([pa.array([b"a" * 16] * 4, pa.uuid())], ["u"])
    table = pa.table({"x": lists(structs, 2)})
    lance_core.write_dataset(table, tmp_path / "x", data_storage_version="2.2")
    assert lance.dataset(str(tmp_path / "x")).to_table().equals(table)


def test_nested_vectors_of_other_types_keep_their_logical_type():
    schema = pa.schema([("x", pa.list_(pa.list_(pa.float32(), 2), 3)), ("d", pa.dictionary(pa.int8(), pa.string()))])
    assert [top.logical_type for top in schema_from_arrow(schema).fields] == [
        "fixed_size_list:fixed_size_list:float:2:3",
        "dict:string:int8:false",
    ]
