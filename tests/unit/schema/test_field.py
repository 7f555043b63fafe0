"""Field and Schema: ids, traversal, columns, lookups, and pickling."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Field, Schema

NESTED = pa.schema(
    [
        pa.field("x", pa.int32()),
        pa.field("s", pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])),
        pa.field("l", pa.list_(pa.struct([("p", pa.int64())]))),
        pa.field("m", pa.map_(pa.string(), pa.float32())),
        pa.field("f", pa.list_(pa.float32(), 4)),
        pa.field("fs", pa.list_(pa.struct([("u", pa.int8()), ("v", pa.int8())]), 2)),
        pa.field("e", pa.struct([])),
    ]
)


def test_field_ids_are_assigned_depth_first_from_zero() -> None:
    schema = schema_from_arrow(NESTED)
    ids = {node.name: node.id for node in schema.walk()}
    assert schema.field_ids() == list(range(len(schema.field_ids())))
    assert (ids["x"], ids["s"], ids["a"], ids["b"], ids["c"], ids["l"]) == (0, 1, 2, 3, 4, 5)
    assert schema.max_field_id() == len(schema.field_ids()) - 1
    assert Schema(fields=()).max_field_id() == -1


def test_first_field_id_shifts_every_id() -> None:
    assert schema_from_arrow(NESTED, first_field_id=7).field_ids()[:3] == [7, 8, 9]


def test_leaves_are_the_fields_that_have_a_column() -> None:
    names = [leaf.name for leaf in schema_from_arrow(NESTED).leaves()]
    assert names == ["x", "a", "c", "p", "key", "value", "f", "u", "v", "e"]


def test_a_packed_struct_is_one_column() -> None:
    members = pa.struct([("a", pa.int32()), ("b", pa.int8())])
    packed = pa.field("p", members, metadata={"lance-encoding:packed": "true"})
    [leaf] = schema_from_arrow(pa.schema([packed])).leaves()
    assert leaf.name == "p"
    assert leaf.is_packed
    assert len(leaf.children) == 2


@pytest.mark.parametrize("key", ["lance-encoding:packed", "packed"])
@pytest.mark.parametrize("value", [b"true", b"TRUE", b"True", b"1", b"yes", b"on", b"y"])
def test_either_metadata_key_packs_a_struct(key: str, value: bytes) -> None:
    other = "packed" if key != "packed" else "lance-encoding:packed"
    assert Field(name="s", logical_type="struct", metadata={key: value}).is_packed
    assert Field(name="s", logical_type="struct", metadata={key: value, other: b"false"}).is_packed


@pytest.mark.parametrize(
    "metadata",
    [{"packed": b"false"}, {"packed": b""}, {"packed": b"t"}, {"packed": b" true"}, {"Packed": b"true"}, {}],
)
def test_other_metadata_keys_and_values_do_not_pack_a_struct(metadata: dict[str, bytes]) -> None:
    assert not Field(name="s", logical_type="struct", metadata=metadata).is_packed


def test_blob_field_is_recognized_by_metadata_or_extension_type() -> None:
    for value in (b"true", b"false", b""):
        assert Field(name="b", logical_type="large_binary", metadata={"lance-encoding:blob": value}).is_blob
    members = (Field(name="data", logical_type="large_binary"), Field(name="uri", logical_type="string"))
    blob = Field(name="b", logical_type="struct", children=members, extension_name="lance.blob.v2")
    assert blob.is_blob
    assert blob.leaves() == [blob]
    assert Field(name="b", logical_type="struct", metadata={"ARROW:extension:name": b"lance.blob.v2"}).is_blob
    assert not Field(name="b", logical_type="large_binary").is_blob


def test_schema_find_accepts_a_field_id_or_a_path() -> None:
    schema = schema_from_arrow(NESTED)
    assert schema.find("s.b.c") is schema.find(4)
    assert schema.find("l.item.p") is not None
    assert schema.find("s.zzz") is None
    assert schema.find(99) is None
    with pytest.raises(InvalidInputError, match="no field 'zzz'"):
        schema.field("zzz")


def test_schema_find_tries_the_exact_name_before_the_path() -> None:
    schema = schema_from_arrow(
        pa.schema([("s", pa.struct([("a.b", pa.int8()), ("a", pa.struct([("b", pa.int8())]))]))])
    )
    assert schema.field("s.a.b").name == "a.b"


def test_fields_are_frozen_and_their_metadata_is_read_only() -> None:
    source = {"k": b"v"}
    field = Field(name="a", logical_type="int32", metadata=source)
    source["k"] = b"other"
    assert field.metadata["k"] == b"v"
    with pytest.raises(TypeError):
        field.metadata["k"] = b"w"  # type: ignore[index]
    with pytest.raises(AttributeError):
        field.name = "b"  # type: ignore[misc]


def test_schemas_can_be_pickled_and_hashed() -> None:
    schema = schema_from_arrow(NESTED.with_metadata({"k": "v"}))
    again = pickle.loads(pickle.dumps(schema))
    assert again == schema
    assert hash(again) == hash(schema)
    assert again.metadata == {"k": b"v"}
