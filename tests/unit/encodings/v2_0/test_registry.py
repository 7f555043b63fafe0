"""The registry of array encodings of format 2.0: every encoding is either supported or refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.registry import ARMS, REFUSED, STRUCTURE, is_packed, selected_arm
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import binary, decode, flat, no_nulls


def test_every_array_encoding_is_in_exactly_one_registry_table() -> None:
    oneof = pb20.ArrayEncoding.DESCRIPTOR.oneofs_by_name["array_encoding"]
    tables = [*ARMS, *STRUCTURE, *REFUSED]
    assert sorted(tables) == sorted(field.name for field in oneof.fields)
    assert all(arm.name == name for name, arm in ARMS.items())


@pytest.mark.parametrize("arm", sorted(REFUSED))
def test_unsupported_array_encodings_are_refused_and_named_in_the_error(arm: str) -> None:
    encoding = pb20.ArrayEncoding()
    getattr(encoding, arm).SetInParent()
    with pytest.raises(UnsupportedEncodingError, match=arm):
        decode(encoding, [], pa.int8(), 1)


@pytest.mark.parametrize("arm", sorted(STRUCTURE))
def test_structural_array_encodings_with_values_raise_corrupt_data(arm: str) -> None:
    encoding = pb20.ArrayEncoding()
    getattr(encoding, arm).SetInParent()
    with pytest.raises(CorruptDataError, match=arm):
        decode(encoding, [], pa.int8(), 1)


def test_unknown_and_missing_array_encodings_are_refused() -> None:
    with pytest.raises(UnsupportedEncodingError, match="has an unknown type"):
        selected_arm(pb20.ArrayEncoding.FromString(b"\xc2\x3e\x00"))
    with pytest.raises(CorruptDataError, match="has no type"):
        selected_arm(pb20.ArrayEncoding())


def test_compressed_array_encodings_must_be_read_as_a_whole() -> None:
    assert not is_packed(no_nulls(binary(1, flat(64), flat(8))))
    assert not is_packed(flat(8, compression=pb20.Compression(scheme="none")))
    assert is_packed(no_nulls(binary(1, flat(64), flat(8, compression=pb20.Compression(scheme="lz4")))))
