"""Values of dictionary columns in manifests of tables in format 0.1: bytes, positions, and damage."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.proto import pb_file, pb_table
from lance_core.table.manifest_file import parse_manifest_file, serialize_manifest_file

FORMAT = pb_table.Manifest.DataStorageFormat(file_format="lance", version="0.1")


def manifest(*types: str, version: str = "0.1") -> pb_table.Manifest:
    fields = [
        pb_file.Field(name=f"c{index}", id=index, parent_id=-1, logical_type=name, nullable=True)
        for index, name in enumerate(types)
    ]
    data_format = pb_table.Manifest.DataStorageFormat(file_format="lance", version=version)
    return pb_table.Manifest(version=1, fields=fields, data_format=data_format)


def written(message: pb_table.Manifest, *dictionaries: pa.Array, transaction: bytes | None = b"txn") -> bytes:
    return serialize_manifest_file(
        message, index_section=None, transaction=transaction, dictionaries=dict(enumerate(dictionaries))
    )


def test_manifest_dictionaries_precede_the_manifest_with_their_positions() -> None:
    data = written(
        manifest("dict:string:int32:false", "dict:int16:int8:false"),
        pa.array(["ab", None, "c"]),
        pa.array([7, -1], pa.int16()),
    )
    assert data[:3] == b"abc"
    assert struct.unpack_from("<4q", data, 3) == (0, 2, 2, 3)
    assert struct.unpack_from("<2h", data, 35) == (7, -1)
    parsed = parse_manifest_file(data, "m")
    assert [(field.dictionary.offset, field.dictionary.length) for field in parsed.message.fields] == [(3, 3), (35, 2)]
    assert parsed.message.transaction_section == 39
    assert parsed.transaction == b"txn"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("string", pa.array(["a", "ü", None])),
        ("large_string", pa.array(["a"], pa.large_string())),
        ("binary", pa.array([b"\xff", b"x" * 300], pa.binary())),
        ("large_binary", pa.array([], pa.large_binary())),
        ("int64", pa.array([1 << 62, -5])),
        ("uint8", pa.array([255, 0], pa.uint8())),
    ],
)
def test_manifest_dictionaries_are_written_again_as_they_were_read(name: str, values: pa.Array) -> None:
    # An array with an offset, as produced by slicing.
    sliced = pa.concat_arrays([values, values]).slice(len(values))
    data = written(manifest("int32", f"dict:{name}:int32:false"), pa.array([1]), sliced)
    parsed = parse_manifest_file(data, "m")
    assert parsed.dictionaries[1].equals(values)
    again = serialize_manifest_file(
        parsed.message, index_section=b"index", transaction=b"longer", dictionaries=parsed.dictionaries
    )
    assert parse_manifest_file(again, "m").dictionaries[1].equals(values)


def test_manifests_of_other_formats_have_no_dictionaries() -> None:
    message = manifest("dict:string:int32:false", version="2.0")
    message.fields[0].dictionary.SetInParent()
    parsed = parse_manifest_file(written(message), "m")
    assert parsed.dictionaries == {}
    assert parsed.message.fields[0].HasField("dictionary")


def test_dictionary_positions_of_an_earlier_manifest_are_cleared() -> None:
    message = parse_manifest_file(written(manifest("dict:string:int32:false"), pa.array(["a"])), "m").message
    parsed = parse_manifest_file(written(message), "m")
    assert (parsed.dictionaries, parsed.message.fields[0].HasField("dictionary")) == ({}, False)


@pytest.mark.parametrize(
    ("offset", "length"), [(-1, 1), (0, -1), (0, 1 << 40), (1 << 62, 1), (10**6, 1), (0, 3), (2, 3), (2, 100)]
)
def test_dictionary_position_outside_the_manifest_raises_corrupt_data(offset: int, length: int) -> None:
    message = manifest("dict:string:int32:false")
    data = written(message, pa.array(["ab"]))
    position = struct.unpack_from("<q", data, len(data) - 16)[0]
    message.fields[0].dictionary.offset, message.fields[0].dictionary.length = offset, length
    body = message.SerializeToString()
    data = data[:position] + struct.pack("<I", len(body)) + body + data[-16:]
    with pytest.raises(CorruptDataError, match="the dictionary of column 'c0'"):
        parse_manifest_file(data, "m")


def test_manifest_dictionary_of_an_unsupported_type_is_refused() -> None:
    message = manifest("dict:bool:int32:false")
    message.fields[0].dictionary.length = 1
    body = message.SerializeToString()
    data = struct.pack("<I", len(body)) + body + struct.pack("<qHH4s", 0, 0, 2, b"LANC")
    with pytest.raises(NotSupportedError, match="dictionaries of bool"):
        parse_manifest_file(data, "m")


def test_damaged_manifest_dictionary_is_read_or_raises_a_typed_error() -> None:
    original = written(
        manifest("dict:string:int32:false", "dict:int32:int8:false"),
        pa.array(["ab", "ü"]),
        pa.array([1, 2], pa.int32()),
    )
    for position in range(36):
        for bit in (1, 128):
            data = bytearray(original)
            data[position] ^= bit
            try:
                found = parse_manifest_file(bytes(data), "m").dictionaries
            except LanceError:
                continue
            assert [len(found[0]), len(found[1])] == [2, 2]
            found[0].validate(full=True)
