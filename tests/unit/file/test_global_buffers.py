"""The global buffer table and the file descriptor."""

from __future__ import annotations

import struct
from dataclasses import replace

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError
from lance_core.file import global_buffers
from lance_core.file.footer import Footer
from lance_core.file.global_buffers import FileDescriptor, parse_global_buffer_table, parse_table, serialize_table
from lance_core.io.byte_range import ByteRange
from lance_core.proto import pb_file
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

FOOTER = Footer(
    column_metadata_offset=159,
    column_table_offset=270,
    global_buffer_table_offset=286,
    num_global_buffers=1,
    num_columns=1,
    version=LanceFileVersion.V2_2,
)


def _table(*pairs: tuple[int, int]) -> pa.Buffer:
    return pa.py_buffer(b"".join(struct.pack("<QQ", *pair) for pair in pairs))


def test_file_descriptor_has_the_same_bytes_as_in_pylance() -> None:
    descriptor = FileDescriptor(schema=schema_from_arrow(pa.schema([("x", pa.int32())])), num_rows=3)
    expected = bytes.fromhex("0a1b 0a19 1201 78 20ffffffffffffffffff01 2a05 696e743332 3001 3801 1003")
    assert descriptor.serialize() == expected
    assert FileDescriptor.parse(expected, "f") == descriptor


def test_global_buffer_tables_survive_a_round_trip() -> None:
    ranges = [ByteRange(128, 159), ByteRange(64, 70)]
    assert serialize_table(ranges) == bytes(_table((128, 31), (64, 6)))
    assert parse_table(_table((128, 31), (64, 6)), 2, "f", "test") == ranges
    assert serialize_table([]) == b""


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((128, 32), r"global buffer 0 is at \[128, 160\), but the data ends at 159"),
        ((127, 31), "not at a multiple of 64"),
        ((2**63, 1), r"position or size of at least 2\^62"),
        ((1, 2**63), r"position or size of at least 2\^62"),
    ],
)
def test_misplaced_global_buffers_raise_corrupt_data(pair: tuple[int, int], message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        parse_global_buffer_table(_table(pair), FOOTER, "f", 159)


def test_global_buffer_table_of_the_wrong_size_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="expected 32 for 2 entries"):
        parse_global_buffer_table(_table((128, 31)), replace(FOOTER, num_global_buffers=2), "f", 159)


def test_malformed_file_descriptor_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="not a FileDescriptor"):
        FileDescriptor.parse(b"\x0a\xff", "f")
    with pytest.raises(CorruptDataError, match="expected at most"):
        FileDescriptor.parse(b"\x10" + b"\xff" * 9 + b"\x01", "f")


def _fields(*rows: tuple[int, int, str], **metadata: dict[str, bytes]) -> pb_file.FileDescriptor:
    message = pb_file.FileDescriptor(length=1)
    for number, parent, logical_type in rows:
        name = f"f{number}"
        message.schema.fields.add(
            id=number, parent_id=parent, name=name, logical_type=logical_type, metadata=metadata.get(name, {})
        )
    return message


@pytest.mark.parametrize("parent", [-1, 0], ids=["columns", "members"])
def test_schema_with_more_leaves_than_columns_is_refused_before_building(
    parent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(global_buffers, "schema_from_proto", lambda _: pytest.fail("was built"))
    message = _fields((0, -1, "struct"), *((number, parent, "int64") for number in range(1, 1001)))
    with pytest.raises(CorruptDataError, match=r"100[01] leaves, but the file has 1 column"):
        FileDescriptor.parse(message.SerializeToString(), "f.lance", 1)


def test_fields_without_their_own_columns_do_not_count_as_leaves() -> None:
    packed = _fields((0, -1, "struct"), *((number, 0, "int64") for number in range(1, 9)), f0={"packed": b"true"})
    assert len(FileDescriptor.parse(packed.SerializeToString(), "f.lance", 1).schema.fields) == 1
    nested = _fields((0, -1, "list.struct"), (1, 0, "struct"), (2, 1, "list"), (3, 2, "int8"))
    assert FileDescriptor.parse(nested.SerializeToString(), "f.lance", 1).schema.field_ids() == [0, 1, 2, 3]
    marked = _fields((0, -1, "struct"), (1, 0, "struct"), (2, 1, "int8"), (3, 1, "int8"), f0={"structural": b"fullzip"})
    assert FileDescriptor.parse(marked.SerializeToString(), "f.lance", 2).schema.field_ids() == [0, 1, 2, 3]
