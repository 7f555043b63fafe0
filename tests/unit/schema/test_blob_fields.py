"""The types and fields of blob columns."""

import pyarrow as pa

from lance_core.schema.blob_fields import (
    bytes_schema,
    complete_schema,
    file_schema,
    has_blobs,
    is_described,
    stored_schema,
)
from lance_core.schema.blob_types import blob_field
from lance_core.schema.convert import fields_to_proto, schema_from_arrow
from lance_core.schema.logical_types import arrow_type

V1 = pa.field("one", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
SCHEMA = schema_from_arrow(
    pa.schema([V1, blob_field("two"), pa.field("s", pa.struct([blob_field("in"), ("k", pa.int8())]))])
)
PLAIN = schema_from_arrow(pa.schema([("a", pa.int32())]))


def test_stored_blob_fields_keep_their_ids() -> None:
    stored = stored_schema(SCHEMA)
    assert [leaf.id for leaf in stored.leaves()] == [leaf.id for leaf in SCHEMA.leaves()]
    one, two, inner = stored.field("one"), stored.field("two"), stored.field("s.in")
    assert [child.name for child in one.children] == ["position", "size"]
    assert [child.name for child in two.children] == ["kind", "position", "size", "blob_id", "blob_uri"]
    assert two.children == inner.children
    assert dict(two.metadata) == {"lance-encoding:blob": b"true", "lance-encoding:packed": b"true"}
    assert all(is_described(field) for field in (one, two, inner))
    assert stored_schema(stored) == stored


def test_file_schema_describes_only_second_generation_blobs() -> None:
    schema = file_schema(SCHEMA)
    assert schema.field("one") == SCHEMA.field("one")
    assert is_described(schema.field("two"))
    messages = fields_to_proto(schema)
    members = [message for message in messages if message.id == -1]
    assert [message.name for message in members] == ["kind", "position", "size", "blob_id", "blob_uri"] * 2
    assert {message.parent_id for message in members} == {-1}


def test_blob_values_read_as_large_binary() -> None:
    shown = bytes_schema(SCHEMA)
    assert [arrow_type(shown.field(name)) for name in ("one", "two", "s.in")] == [pa.large_binary()] * 3
    assert shown.field("two").extension_name == ""
    assert shown.field("one") == SCHEMA.field("one")


def test_blob_type_may_contain_only_data_and_uri() -> None:
    storage = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
    short = pa.field("b", storage, metadata={"ARROW:extension:name": "lance.blob.v2"})
    complete = complete_schema(schema_from_arrow(pa.schema([short])))
    assert [child.name for child in complete.field("b").children] == ["data", "uri", "position", "size"]


def test_schemas_without_blobs_remain_unchanged() -> None:
    assert not has_blobs(PLAIN)
    for change in (stored_schema, file_schema, bytes_schema, complete_schema):
        assert change(PLAIN) is PLAIN
