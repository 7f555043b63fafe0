"""``serialized`` omits empty keys and values of map entries; everything else is written as by protobuf."""

import pytest

from lance_core.file.map_entries import serialized
from lance_core.proto import pb_file, pb_table


def field(**metadata):
    return pb_file.Field(name="x", id=3, parent_id=-1, logical_type="int8", nullable=True, metadata=metadata)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"k": b"v"}, "5206 0a016b 120176"),
        ({"k": b""}, "5203 0a016b"),
        ({"": b"v"}, "5203 120176"),
        ({"": b""}, "5200"),
        ({"b": b"", "a": b"x", "": b"y"}, "5203 120179 5206 0a0161 120178 5203 0a0162"),
    ],
)
def test_map_entries_are_serialized_without_empty_values(entries, expected):
    message = pb_file.Field(metadata=entries)
    assert serialized(message) == bytes.fromhex(expected)
    assert pb_file.Field.FromString(serialized(message)) == message


def test_map_entry_serialization_changes_no_other_bytes():
    schema = pb_file.Schema(fields=[field(), field(k=b""), field(z=b"1" * 300, a=b"")], metadata={"m": b"n"})
    schema.fields[1].dictionary.SetInParent()
    message = pb_file.FileDescriptor(schema=schema, length=1 << 40)
    halves = serialized(message)
    assert pb_file.FileDescriptor.FromString(halves) == message
    assert len(message.SerializeToString()) - len(halves) == 2 * 2
    for part in message.schema.fields:
        part.metadata.clear()
    assert serialized(message) == message.SerializeToString(deterministic=True)


def test_map_entry_serialization_keeps_repeated_and_nested_fields():
    message = pb_table.Manifest(fields=[field(k=b"")], version=7, reader_feature_flags=1, config={"a": "é", "b": ""})
    message.fragments.add(id=5).files.add(path="p", fields=[1, 2, 300])
    message.writer_version.library = "lance"
    assert pb_table.Manifest.FromString(serialized(message)) == message
    assert len(message.SerializeToString()) - len(serialized(message)) == 2 * 2
