"""The flat encoding of format 2.0: values, bitmaps, compression, and contradictory pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, UnsupportedEncodingError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import decode, encode, flat


def _zstd(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 16, 32])
def test_flat_values_of_any_byte_width_survive_a_round_trip(width: int) -> None:
    array = pa.array([bytes([value]) * width for value in range(5)], pa.binary(width))
    encoding, buffers = encode(array)
    assert encoding.nullable.no_nulls.values.flat.bits_per_value == 8 * width
    assert buffers == [b"".join(array.to_pylist())]
    assert decode(encoding, buffers, array.type, 5).equals(array)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_bits_at_any_positions_of_a_flat_bitmap_can_be_read(bits: list[bool], data: st.DataObject) -> None:
    encoding, buffers = encode(pa.array(bits))
    rows = sorted(data.draw(st.sets(st.integers(0, len(bits) - 1), min_size=1)))
    found = decode(encoding, buffers, pa.bool_(), Spans.of_points(np.array(rows)))
    assert found.to_pylist() == [bits[row] for row in rows]


def test_flat_bitmap_of_a_slice_ends_with_zero_bits() -> None:
    encoding, [bitmap] = encode(pa.array([True] * 20).slice(3, 10))
    assert bitmap == b"\xff\x03"
    assert encoding.nullable.no_nulls.values.flat.bits_per_value == 1


def test_flat_page_of_a_slice_contains_only_the_slice() -> None:
    array = pa.array([None, 1, 2, None, 4, 5], pa.int16())
    encoding, [validity, values] = encode(array.slice(2, 3))
    assert (validity, len(values)) == (b"\x05", 6)
    assert decode(encoding, [validity, values], pa.int16(), 3).to_pylist() == [2, None, 4]


def test_flat_values_without_a_nullable_wrapper_are_valid() -> None:
    assert decode(flat(32), [np.arange(3, dtype="<i4").tobytes()], pa.int32(), 3).to_pylist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("scheme", "packed"),
    [
        ("zstd", _zstd(bytes(range(8)))),
        ("zstd", (8).to_bytes(8, "little") + _zstd(bytes(range(8)))),
        ("lz4", (8).to_bytes(4, "little") + pa.Codec("lz4_raw").compress(bytes(range(8)), asbytes=True)),
        ("none", bytes(range(8))),
        ("", bytes(range(8))),
    ],
)
@pytest.mark.parametrize("rows", [Spans.single(0, 8), Spans.single(2, 5), Spans.of_points(np.array([0, 3, 7]))])
def test_compressed_flat_values_are_decoded(scheme: str, packed: bytes, rows: Spans) -> None:
    encoding = flat(8, compression=pb20.Compression(scheme=scheme))
    assert decode(encoding, [packed], pa.uint8(), rows).to_pylist() == rows.positions().tolist()


def test_compressed_flat_bitmaps_are_decoded() -> None:
    encoding = flat(1, compression=pb20.Compression(scheme="zstd"))
    rows = Spans.of_points(np.array([1, 2, 9]))
    assert decode(encoding, [_zstd(b"\x02\x02")], pa.bool_(), rows).to_pylist() == [True, False, True]


def test_flat_values_in_column_buffers_are_read() -> None:
    reference = pb20.Buffer(buffer_index=1, buffer_type=pb20.Buffer.column)
    encoding = pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=8, buffer=reference))
    assert decode(encoding, [], pa.uint8(), 2, column_buffers=[b"", b"\x07\x08"]).to_pylist() == [7, 8]


@pytest.mark.parametrize(
    ("encoding", "buffers", "dtype", "error", "message"),
    [
        (flat(12), [b"\0" * 9], pa.int16(), CorruptDataError, "12 bits"),
        (flat(16), [b"\0" * 5], pa.int16(), CorruptDataError, "buffer has 5"),
        (flat(16, 1), [b"\0" * 6], pa.int16(), CorruptDataError, "buffer 1 does not exist; number of buffers: 1"),
        (flat(32), [b"\0" * 12], pa.int16(), CorruptDataError, "32 bits"),
        (flat(16), [b"\0" * 6], pa.string(), CorruptDataError, "flat"),
        (flat(8, compression=pb20.Compression(scheme="zip")), [b"\0" * 6], pa.int8(), UnsupportedEncodingError, "zip"),
        (flat(8, compression=pb20.Compression(scheme="zstd")), [b"\0" * 16], pa.int8(), CorruptDataError, "zstd"),
        (
            flat(8, compression=pb20.Compression(scheme="zstd")),
            [_zstd(b"a")],
            pa.int8(),
            CorruptDataError,
            "unpacked values have 1 byte, expected at least",
        ),
    ],
)
def test_contradictory_flat_encodings_are_refused(
    encoding: pb20.ArrayEncoding, buffers: list[bytes], dtype: pa.DataType, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode(encoding, buffers, dtype, 3)


def test_flat_values_in_file_buffers_are_refused() -> None:
    reference = pb20.Buffer(buffer_type=pb20.Buffer.file)
    with pytest.raises(UnsupportedEncodingError, match="file-level buffers"):
        decode(pb20.ArrayEncoding(flat=pb20.Flat(bits_per_value=8, buffer=reference)), [b"a"], pa.int8(), 1)
