"""Converting schemas to and from Arrow schemas and protobuf messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_file
from lance_core.schema.convert import (
    RESERVED_NAMES,
    fields_from_proto,
    fields_to_proto,
    schema_from_arrow,
    schema_from_proto,
    schema_to_arrow,
    schema_to_proto,
)

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("a", pa.int8(), metadata={"k": "v"}), ("b", pa.list_(pa.string()))])),
        pa.field("m", pa.map_(pa.string(), pa.struct([("q", pa.float64())]))),
        pa.field("fs", pa.list_(pa.struct([("u", pa.int8())]), 2)),
        pa.field("d", pa.dictionary(pa.int16(), pa.string())),
        pa.field("n", pa.null()),
    ],
    metadata={"owner": "me"},
)


def test_schema_of_one_field_has_the_same_bytes_as_in_pylance() -> None:
    # The schema in the descriptor of pa.table({"x": pa.array([1, 2, 3], pa.int32())}), pylance 14.0.2.
    expected = "0a19 1201 78 20ffffffffffffffffff01 2a05 696e743332 3001 3801"
    message = schema_to_proto(schema_from_arrow(pa.schema([("x", pa.int32())])))
    assert message.SerializeToString() == bytes.fromhex(expected)


def test_schema_messages_have_encoding_hints_by_type() -> None:
    schema = pa.schema(
        [
            ("struct", pa.struct([])),
            ("null", pa.null()),
            ("binary", pa.large_binary()),
            ("dictionary", pa.dictionary(pa.int8(), pa.string())),
            ("list", pa.list_(pa.int8())),
            ("fsl", pa.list_(pa.int8(), 2)),
        ]
    )
    hints = {message.name: message.encoding for message in fields_to_proto(schema_from_arrow(schema))}
    assert hints == {"struct": 0, "null": 0, "binary": 2, "dictionary": 3, "list": 1, "item": 1, "fsl": 1}


def test_schema_round_trips_through_arrow_and_proto() -> None:
    schema = schema_from_arrow(NESTED)
    assert schema_to_arrow(schema).equals(NESTED, check_metadata=True)
    assert schema_from_proto(schema_to_proto(schema)) == schema
    assert schema_from_proto(schema_to_proto(schema)).metadata == {"owner": b"me"}


def test_top_level_fields_have_parent_minus_one_and_parents_precede_children() -> None:
    messages = fields_to_proto(schema_from_arrow(NESTED))
    assert [message.parent_id for message in messages[:5]] == [-1, -1, 1, 1, 3]
    assert all(message.type == 0 for message in messages)


def test_schema_messages_contain_the_keys_declared_in_metadata() -> None:
    key = "lance-schema:unenforced-primary-key"
    schema = pa.schema(
        [
            pa.field("a", pa.int32(), nullable=False, metadata={key: "Yes"}),
            pa.field("b", pa.int32(), nullable=False, metadata={f"{key}:position": "3"}),
            pa.field("c", pa.int32(), metadata={"lance-schema:unenforced-clustering-key:position": "2"}),
        ]
    )
    a, b, c = fields_to_proto(schema_from_arrow(schema))
    assert (a.unenforced_primary_key, a.unenforced_primary_key_position) == (True, 0)
    assert (b.unenforced_primary_key, b.unenforced_primary_key_position) == (True, 3)
    assert (c.unenforced_clustering_key, c.unenforced_clustering_key_position) == (False, 2)
    assert fields_from_proto([a, b, c]) == schema_from_arrow(schema)


def test_a_nullable_primary_key_is_refused() -> None:
    field = pa.field("a", pa.int32(), metadata={"lance-schema:unenforced-primary-key": "1"})
    with pytest.raises(InvalidInputError, match="primary key field 'a'"):
        schema_from_arrow(pa.schema([field]))


def test_extension_types_keep_name_and_parameters() -> None:
    schema = schema_from_arrow(pa.schema([("u", pa.uuid())]))
    [message] = fields_to_proto(schema)
    assert message.extension_name == "arrow.uuid"
    assert dict(message.metadata) == {"ARROW:extension:name": b"arrow.uuid", "ARROW:extension:metadata": b""}
    assert schema_to_arrow(schema).field("u").type == pa.uuid()


def test_extension_type_is_restored_from_its_name_alone() -> None:
    message = pb_file.Field(
        name="u", id=0, parent_id=-1, logical_type="fixed_size_binary:16", extension_name="arrow.uuid"
    )
    assert schema_to_arrow(fields_from_proto([message])).field("u").type == pa.uuid()


def test_extension_on_an_incompatible_type_is_read_as_its_storage_type() -> None:
    message = pb_file.Field(name="u", id=0, parent_id=-1, logical_type="int32", extension_name="arrow.uuid")
    assert schema_to_arrow(fields_from_proto([message])).field("u").type == pa.int32()


@pytest.mark.parametrize("name", ["a.b", "a"])
def test_column_names_with_dots_or_duplicates_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        schema_from_arrow(pa.schema([("a", pa.int8()), (name, pa.int8())]))


def test_json_text_is_stored_as_binary_json() -> None:
    plain = pa.field("j", pa.utf8(), metadata={"ARROW:extension:name": "arrow.json", "k": "v"})
    for given in (pa.field("j", pa.json_(), metadata={"k": "v"}), plain):
        [field] = schema_from_arrow(pa.schema([given])).fields
        assert (field.logical_type, field.extension_name) == ("json", "lance.json")
        expected = {"ARROW:extension:name": b"lance.json", "ARROW:extension:metadata": b"", "k": b"v"}
        assert dict(field.metadata) == expected


def test_parameters_of_builtin_arrow_extension_types_are_kept() -> None:
    tensor = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
    schema = schema_from_arrow(pa.schema([("t", tensor)]))
    assert schema.field("t").extension_name == "arrow.fixed_shape_tensor"
    assert schema_to_arrow(schema).field("t").type == tensor


def _message(name: str, field_id: int, parent_id: int) -> pb_file.Field:
    return pb_file.Field(name=name, id=field_id, parent_id=parent_id, logical_type="struct")


@pytest.mark.parametrize(
    "messages",
    [
        [_message("a", 0, 1), _message("b", 1, -1)],
        [_message("a", 0, 0)],
        [_message("a", 0, -1), _message("b", 0, -1)],
        [_message("a", -5, -1)],
    ],
    ids=["parent after child", "own parent", "same id", "negative id"],
)
def test_field_messages_that_do_not_form_a_tree_raise_corrupt_data(messages: list[pb_file.Field]) -> None:
    with pytest.raises(CorruptDataError):
        fields_from_proto(messages)


def test_fields_without_an_id_and_very_deep_fields_are_not_supported() -> None:
    with pytest.raises(NotSupportedError, match="no id"):
        fields_from_proto([_message("kind", -1, -1)])
    with pytest.raises(NotSupportedError, match="nested"):
        fields_from_proto([_message("a", index, index - 1) for index in range(5000)])


def _descriptor_members() -> list[pb_file.Field]:
    return [pb_file.Field(name=name, id=-1, parent_id=-1, logical_type="uint64") for name in ("kind", "position")]


def test_members_of_a_blob_descriptor_follow_their_blob_without_ids() -> None:
    blob = pb_file.Field(
        name="b", id=0, parent_id=-1, logical_type="struct", nullable=True, metadata={"lance-encoding:blob": b"true"}
    )
    other = pb_file.Field(name="i", id=3, parent_id=-1, logical_type="int64")
    messages = [blob, *_descriptor_members(), other]
    schema = fields_from_proto(messages)
    assert schema.names == ["b", "i"]
    assert [leaf.name for leaf in schema.leaves()] == ["b", "i"]
    assert [child.name for child in schema.fields[0].children] == ["kind", "position"]
    again = fields_to_proto(schema)
    assert [(m.name, m.id, m.parent_id) for m in again] == [(m.name, m.id, m.parent_id) for m in messages]


@pytest.mark.parametrize("parent_id", [-1, 0])
def test_fields_without_an_id_outside_blobs_are_not_supported(parent_id: int) -> None:
    plain = pb_file.Field(name="i", id=0, parent_id=-1, logical_type="int64")
    orphan = pb_file.Field(name="kind", id=-1, parent_id=parent_id, logical_type="uint8")
    with pytest.raises(NotSupportedError, match="no id"):
        fields_from_proto([plain, orphan])


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_reserved_names_are_refused_only_at_the_top_level(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"'{name}' has a reserved name"):
        schema_from_arrow(pa.schema([("a", pa.int8()), (name, pa.int64())]))
    member = schema_from_arrow(pa.schema([("s", pa.struct([(name, pa.int64())]))]))
    assert member.find(f"s.{name}") is not None


def test_tables_with_a_reserved_column_name_remain_readable() -> None:
    message = pb_file.Field(name="_rowid", id=0, parent_id=-1, logical_type="int64")
    assert fields_from_proto([message]).names == ["_rowid"]
