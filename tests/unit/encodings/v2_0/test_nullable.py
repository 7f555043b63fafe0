"""The nullable encoding of format 2.0: validity and values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import binary, decode, encode, flat, some_nulls, u64

ALL_NULLS = pb20.ArrayEncoding(nullable=pb20.Nullable(all_nulls=pb20.Nullable.AllNull()))


def test_nullable_kind_depends_on_the_nulls_and_not_on_the_bitmap() -> None:
    with_bitmap = pa.Array.from_buffers(pa.int8(), 3, [pa.py_buffer(b"\x07"), pa.py_buffer(b"\1\2\3")])
    assert encode(with_bitmap)[0].nullable.HasField("no_nulls")
    assert encode(pa.array([1, None], pa.int8()))[0].nullable.HasField("some_nulls")
    encoding, buffers = encode(pa.array([None, None], pa.int8()))
    assert (encoding, buffers) == (ALL_NULLS, [])
    # The message must be present although it is empty.
    assert encoding.SerializeToString() == bytes.fromhex("1202 1a00")


def test_nullable_page_stores_validity_before_values() -> None:
    encoding, [validity, values] = encode(pa.array([1, None, 3], pa.int32()))
    assert (validity, len(values)) == (b"\x05", 12)
    assert encoding.nullable.some_nulls.values.flat.buffer.buffer_index == 1


def test_invalid_values_hidden_by_nulls_are_stored_without_an_error() -> None:
    garbage = b"\xff" * 16
    array = pa.Array.from_buffers(
        pa.decimal128(5, 2), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(b"\x05" + b"\0" * 15 + garbage)]
    )
    encoding, buffers = encode(array)
    assert buffers[1].endswith(garbage)
    assert decode(encoding, buffers, array.type, 2).to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    "dtype", [pa.int32(), pa.string(), pa.list_(pa.int8(), 3), pa.null(), pa.struct([("a", pa.int8())]), pa.bool_()]
)
def test_all_null_encoding_decodes_as_any_type(dtype: pa.DataType) -> None:
    assert decode(ALL_NULLS, [], dtype, 4).equals(pa.nulls(4, dtype))


def test_page_with_too_many_nulls_is_refused() -> None:
    with pytest.raises(NotSupportedError, match="fewer rows"):
        decode(ALL_NULLS, [], pa.list_(pa.int64(), 1 << 30), 1 << 20)


def test_validity_around_strings_is_combined_with_the_nulls_of_the_strings() -> None:
    encoding = some_nulls(flat(1, 0), binary(4, flat(64, 1), flat(8, 2)))
    buffers = [b"\x05", u64(1, 2, 6), b"abc"]
    assert decode(encoding, buffers, pa.string(), 3).to_pylist() == ["a", None, None]
    rows = Spans.of_points(np.array([0, 2]))
    assert decode(encoding, buffers, pa.string(), rows).to_pylist() == ["a", None]


def test_nullable_encoding_without_a_kind_or_with_byte_validity_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="does not specify"):
        decode(pb20.ArrayEncoding(nullable=pb20.Nullable()), [], pa.int8(), 1)
    with pytest.raises(CorruptDataError, match="8 bits per row"):
        decode(some_nulls(flat(8, 0), flat(8, 0)), [b"a"], pa.int8(), 1)
