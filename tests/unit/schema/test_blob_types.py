"""Blob, blob_array and blob_field accept and refuse the same arguments as in pylance."""

import pickle

import lance
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema.blob_types import Blob, BlobType, blob_array, blob_field


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"data": b"x", "uri": "file:///a"},
        {"uri": ""},
        {"data": b"x", "position": 0, "size": 1},
        {"uri": "file:///a", "position": 1},
        {"uri": "file:///a", "size": 1},
        {"uri": "file:///a", "position": 1, "size": 0},
    ],
)
def test_blob_with_conflicting_representations_is_refused(arguments: dict) -> None:
    with pytest.raises(InvalidInputError):
        Blob(**arguments)
    with pytest.raises(ValueError, match="lob"):
        lance.Blob(**arguments)


def test_blob_is_created_from_bytes_or_a_valid_uri() -> None:
    assert Blob.from_bytes(bytearray(b"ab")).data == b"ab"
    assert Blob.empty().data == b""
    assert Blob.from_uri("file:///a", 1, 2) == Blob(uri="file:///a", position=1, size=2)
    with pytest.raises(InvalidInputError):
        Blob.from_uri("file:///a", -1, 2)


def test_blob_arrays_equal_those_of_pylance() -> None:
    values = [b"x", bytearray(b"y"), memoryview(b"z"), "file:///a", None]
    ours = blob_array([*values, Blob.empty(), Blob.from_uri("file:///a", 1, 2)])
    theirs = lance.blob_array([*values, lance.Blob.empty(), lance.Blob.from_uri("file:///a", 1, 2)])
    assert ours.storage.equals(theirs.storage)
    assert ours.type.extension_name == theirs.type.extension_name == "lance.blob.v2"
    assert blob_array([lance.Blob.empty()]).storage.equals(blob_array([b""]).storage)
    with pytest.raises(InvalidTypeError):
        blob_array([1])
    with pytest.raises(InvalidInputError):
        blob_array([""])


@pytest.mark.parametrize(
    "thresholds",
    [
        {},
        {"inline_size_threshold": 0},
        {"inline_size_threshold": 5, "dedicated_size_threshold": 6, "pack_file_size_threshold": 7},
    ],
)
def test_blob_fields_equal_those_of_pylance(thresholds: dict) -> None:
    ours, theirs = blob_field("b", nullable=False, **thresholds), lance.blob_field("b", nullable=False, **thresholds)
    assert (ours.name, ours.nullable, ours.metadata) == (theirs.name, theirs.nullable, theirs.metadata)
    assert ours.type.storage_type == theirs.type.storage_type


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("inline_size_threshold", -1, InvalidInputError),
        ("dedicated_size_threshold", 0, InvalidInputError),
        ("pack_file_size_threshold", 0, InvalidInputError),
        ("pack_file_size_threshold", 2**64, InvalidInputError),
        ("inline_size_threshold", True, InvalidTypeError),
        ("inline_size_threshold", 1.5, InvalidTypeError),
    ],
)
def test_malformed_blob_threshold_is_refused(name: str, value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        blob_field("b", **{name: value})


def test_blob_types_can_be_pickled_and_check_their_storage() -> None:
    assert pickle.loads(pickle.dumps(BlobType())).storage_type == BlobType().storage_type
    short = pa.struct([("data", pa.large_binary()), ("uri", pa.utf8())])
    assert BlobType.__arrow_ext_deserialize__(short, b"").storage_type == short
    for wrong in (pa.binary(), pa.struct([("data", pa.binary()), ("uri", pa.utf8())])):
        with pytest.raises(TypeError):
            BlobType.__arrow_ext_deserialize__(wrong, b"")
