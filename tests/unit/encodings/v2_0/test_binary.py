"""The binary encoding of format 2.0: offsets, bytes, nulls, compression, and malformed pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import binary, decode, encode, flat, no_nulls, u64

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


@pytest.mark.parametrize("dtype", TYPES)
def test_binary_page_stores_end_offsets_bytes_and_nulls(dtype: pa.DataType) -> None:
    array = pa.array([b"ab", None, b""], pa.binary()).cast(dtype)
    encoding, buffers = encode(array)
    assert buffers == [u64(2, 5, 2), b"ab"]
    assert encoding == binary(3, no_nulls(flat(64, 0)), flat(8, 1))
    assert decode(encoding, buffers, dtype, 3).equals(array)


def test_binary_end_offset_equal_to_the_null_adjustment_is_a_null() -> None:
    encoding, buffers = encode(pa.array(["", None]))
    assert (encoding.binary.null_adjustment, buffers) == (1, [u64(0, 1), b""])
    assert decode(encoding, buffers, pa.string(), 2).to_pylist() == ["", None]


def test_binary_pages_of_nulls_or_without_rows_have_no_bytes() -> None:
    encoding, buffers = encode(pa.nulls(3, pa.string()))
    assert (encoding.binary.null_adjustment, buffers) == (1, [u64(1, 1, 1), b""])
    encoding, buffers = encode(pa.array([], pa.string()))
    assert (encoding.binary.null_adjustment, buffers) == (0, [b"", b""])


def test_end_offsets_of_binary_page_include_bytes_hidden_by_nulls() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4, 6], np.int32))
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"aabbcc")])
    encoding, buffers = encode(array)
    assert buffers == [u64(2, 11, 6), b"aabbcc"]
    for rows in ([0], [1], [2], [0, 2], [1, 2]):
        found = decode(encoding, buffers, pa.string(), Spans.of_points(np.array(rows)))
        assert found.to_pylist() == [["aa", None, "cc"][row] for row in rows]


@pytest.mark.parametrize(
    "encoding",
    [
        binary(100, flat(64, 0), flat(8, 1)),
        binary(1 << 60, no_nulls(flat(64, 0)), no_nulls(flat(8, 1))),
        no_nulls(binary(7, flat(64, 0), flat(8, 1))),
    ],
    ids=["bare offsets", "wrapped bytes of 0.14 and a huge adjustment", "wrapped whole"],
)
def test_binary_encodings_with_unusual_nullable_wrappers_are_decoded(encoding: pb20.ArrayEncoding) -> None:
    assert decode(encoding, [u64(1, 1, 3), b"abc"], pa.string(), 3).to_pylist() == ["a", "", "bc"]


def test_binary_null_adjustment_beyond_2_to_the_53_is_exact() -> None:
    adjustment = (1 << 60) + 1
    encoding = binary(adjustment, flat(64, 0), flat(8, 1))
    assert decode(encoding, [u64(1, adjustment + 1, 2), b"ab"], pa.binary(), 3).to_pylist() == [b"a", None, b"b"]


@pytest.mark.parametrize("scheme", ["zstd", "lz4", "none", "unknown"])
def test_binary_page_with_compressed_bytes_survives_a_round_trip(scheme: str) -> None:
    array = pa.array([f"some text {index % 7}" for index in range(50)] + [None, ""], pa.large_string())
    encoding, buffers = encode(array, compression=scheme)
    assert encoding.binary.bytes.flat.compression.scheme == ("" if scheme == "unknown" else scheme)
    assert decode(encoding, buffers, array.type, len(array)).equals(array)
    rows = Spans.of_points(np.array([0, 30, 50, 51]))
    assert decode(encoding, buffers, array.type, rows).equals(array.take(rows.positions()))


def test_compression_level_is_recorded_only_when_given() -> None:
    array = pa.array(["a"] * 5)
    assert encode(array, compression="zstd", compression_level="7")[0].binary.bytes.flat.compression.level == 7
    assert not encode(array, compression="zstd")[0].binary.bytes.flat.compression.HasField("level")


@pytest.mark.parametrize("level", ["high", "", "3.5", " 5", "5 ", "٥", "2147483648", "9" * 30])
def test_malformed_compression_level_is_ignored(level: str) -> None:
    encoding, _ = encode(pa.array(["a"] * 5), compression="zstd", compression_level=level)
    assert not encoding.binary.bytes.flat.compression.HasField("level")


@pytest.mark.parametrize("level", [-(1 << 31), -131_073, -8, 0, 23, 999, (1 << 31) - 1])
def test_compression_level_outside_the_range_of_zstd_becomes_the_nearest_valid_level(level: int) -> None:
    array = pa.array([f"text {row}" for row in range(500)])
    encoding, buffers = encode(array, compression="zstd", compression_level=f"{level:+}")
    assert encoding.binary.bytes.flat.compression.level == level
    nearest = min(max(level, -131_072), 22)
    assert buffers == encode(array, compression="zstd", compression_level=str(nearest))[1]
    assert decode(encoding, buffers, array.type, len(array)).equals(array)


def test_compressed_binary_page_of_nulls_is_decoded() -> None:
    for scheme in ("zstd", "lz4"):
        encoding, buffers = encode(pa.nulls(3, pa.string()), compression=scheme)
        assert decode(encoding, buffers, pa.string(), 3).null_count == 3


@pytest.mark.parametrize(
    ("buffers", "message"),
    [
        ([u64(1, 5), b"abc"], "end at byte 5"),
        ([u64(3, 2, 3), b"abc"], "invalid bytes"),
        ([u64(2, 3, 1), b"abc"], "invalid bytes"),
        ([u64(1 << 63, 1), b"abc"], "exceeds the maximum file size"),
        ([u64(1, 2)[:9], b"abc"], "buffer has 9"),
        ([u64(1, 2), b"\xff\xff"], "invalid bytes"),
    ],
)
def test_binary_page_with_invalid_offsets_or_text_raises_corrupt_data(buffers: list[bytes], message: str) -> None:
    encoding = binary(1 << 61, flat(64, 0), flat(8, 1))
    with pytest.raises(CorruptDataError, match=message):
        decode(encoding, buffers, pa.string(), max(2, len(buffers[0]) // 8))


def test_single_rows_with_invalid_binary_offsets_raise_corrupt_data() -> None:
    encoding = binary(100, flat(64, 0), flat(8, 1))
    with pytest.raises(CorruptDataError, match="not in ascending order"):
        decode(encoding, [u64(3, 2, 1, 3), b"abc"], pa.binary(), Spans.of_points(np.array([0, 2])))
    with pytest.raises(CorruptDataError, match="not in ascending order"):
        decode(encoding, [u64(3, 2, 1, 3), b"abc"], pa.binary(), Spans.single(1, 2))


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (binary(4, flat(32, 0), flat(8, 1)), "32 bits"),
        (binary(4, flat(64, 0), flat(16, 1)), "16 bits"),
        (binary(4, binary(1, flat(64), flat(8)), flat(8, 1)), "expected flat"),
    ],
)
def test_binary_page_with_unexpected_widths_raises_corrupt_data(encoding: pb20.ArrayEncoding, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        decode(encoding, [u64(1, 2, 3), b"abc"], pa.string(), 3)
    with pytest.raises(CorruptDataError):
        decode(binary(4, flat(64, 0), flat(8, 1)), [u64(1, 2, 3), b"abc"], pa.int32(), 3)
