"""Fixed-size lists, packed structs, and encodings that only other writers produce."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_core.encodings.v2_0.api import PageBuilder
from lance_core.encodings.v2_0.list import encode_lists, read_lists
from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import answer, binary, decode, encode, flat, no_nulls, u64

PACKED = pa.struct([("a", pa.int8()), ("b", pa.int64()), ("v", pa.list_(pa.float32(), 2))])
PACKED_ROWS = [{"a": 1, "b": 2, "v": [1.0, 2.0]}, {"a": 3, "b": 4, "v": [5.0, 6.0]}]


@pytest.mark.parametrize(
    ("dtype", "rows", "buffers"),
    [
        (pa.list_(pa.int32(), 2), [[1, 2], [3, 4]], [bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])]),
        (pa.list_(pa.int8(), 2), [[1, 2], None, [3, None]], [b"\x05", b"\x13", bytes([1, 2, 0, 0, 3, 0])]),
        (pa.list_(pa.int8(), 2), [[None, None], [None, None]], []),
        (pa.list_(pa.int8(), 2), [None, None], []),
        (pa.list_(pa.bool_(), 3), [[True, False, True], [True, True, True]], [b"\x3d"]),
        (pa.list_(pa.bool_(), 3), [[True, False, True]] * 3, [b"\x6d\x01"]),
    ],
)
def test_fixed_size_lists_in_format_2_0_survive_a_round_trip(
    dtype: pa.DataType, rows: list[object], buffers: list[bytes]
) -> None:
    encoding, found = encode(pa.array(rows, dtype))
    assert found == buffers
    assert decode(encoding, found, dtype, len(rows)).to_pylist() == rows
    last = Spans.of_points(np.array([0, len(rows) - 1]))
    assert decode(encoding, found, dtype, last).to_pylist() == [rows[0], rows[-1]]


def test_fixed_size_lists_with_three_levels_of_nulls_survive_a_round_trip() -> None:
    dtype = pa.list_(pa.list_(pa.int8(), 2), 2)
    rows = [[[1, 2], [3, None]], None, [None, [5, 6]]]
    encoding, buffers = encode(pa.array(rows, dtype))
    assert [len(buffer) for buffer in buffers] == [1, 1, 2, 12]
    for start in range(3):
        assert decode(encoding, buffers, dtype, Spans.single(start, 3)).to_pylist() == rows[start:]


def test_fixed_size_list_of_the_wrong_dimension_raises_corrupt_data() -> None:
    encoding, buffers = encode(pa.array([[1, 2]], pa.list_(pa.int8(), 2)))
    with pytest.raises(CorruptDataError, match="lists of 2 items"):
        decode(encoding, buffers, pa.list_(pa.int8(), 3), 1)
    with pytest.raises(CorruptDataError, match="fixed_size_list"):
        decode(encoding, buffers, pa.int8(), 1)


def test_packed_structs_are_stored_row_by_row() -> None:
    encoding, [rows] = encode(pa.array(PACKED_ROWS, PACKED))
    assert rows.hex() == "0102000000000000000000803f000000400304000000000000000000a0400000c040"
    assert len(encoding.packed_struct.inner) == 3
    assert decode(encoding, [rows], PACKED, 2).to_pylist() == PACKED_ROWS
    assert decode(encoding, [rows], PACKED, Spans.single(1, 2)).to_pylist() == PACKED_ROWS[1:]


def test_slices_of_packed_structs_survive_a_round_trip() -> None:
    array = pa.array(PACKED_ROWS * 3, PACKED)
    encoding, buffers = encode(array.slice(1, 3))
    assert decode(encoding, buffers, PACKED, 3).equals(array.slice(1, 3))


@pytest.mark.parametrize("member", [pa.int8(), pa.list_(pa.int8(), 2)])
def test_nulls_in_packed_structs_are_refused(member: pa.DataType) -> None:
    value = [1, None] if pa.types.is_fixed_size_list(member) else None
    with pytest.raises(NotSupportedError, match="nulls"):
        encode(pa.array([{"a": value}], pa.struct([("a", member)])))


def test_packed_struct_members_that_contradict_the_type_raise_corrupt_data() -> None:
    encoding, buffers = encode(pa.array(PACKED_ROWS, PACKED))
    for dtype in (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())] * 3), pa.int8()):
        with pytest.raises(CorruptDataError, match="packed"):
            decode(encoding, buffers, dtype, 2)
    with pytest.raises(CorruptDataError, match="buffer has 34"):
        decode(encoding, buffers, PACKED, 3)


@given(st.integers(1, 32), st.booleans(), st.data())
def test_bitpacked_integers_of_any_width_are_decoded(width: int, signed: bool, data: st.DataObject) -> None:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    values = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=20))
    bits = "".join(format(value & ((1 << width) - 1), f"0{width}b")[::-1] for value in values)
    packed = np.packbits([int(bit) for bit in bits], bitorder="little").tobytes()
    encoding = pb20.ArrayEncoding(
        bitpacked=pb20.Bitpacked(
            compressed_bits_per_value=width, uncompressed_bits_per_value=32, buffer=pb20.Buffer(), signed=signed
        )
    )
    dtype = pa.int32() if signed else pa.uint32()
    rows = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1)))
    found = decode(encoding, [packed], dtype, Spans.of_points(np.array(rows)))
    assert found.to_pylist() == [values[row] for row in rows]


def test_impossible_bitpacked_widths_raise_corrupt_data() -> None:
    for width, full in ((33, 32), (0, 32), (3, 16)):
        message = pb20.Bitpacked(
            compressed_bits_per_value=width, uncompressed_bits_per_value=full, buffer=pb20.Buffer()
        )
        with pytest.raises(CorruptDataError, match="bits"):
            decode(pb20.ArrayEncoding(bitpacked=message), [b"\0" * 20], pa.int32(), 2)


@pytest.mark.parametrize("bits", [8, 24])
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_binary(), pa.binary(3)])
def test_fixed_size_binary_is_decoded_as_any_binary_type(bits: int, dtype: pa.DataType) -> None:
    encoding = pb20.ArrayEncoding(fixed_size_binary=pb20.FixedSizeBinary(bytes=no_nulls(flat(bits)), byte_width=3))
    found = decode(encoding, [b"abcdefghi"], dtype, Spans.of_points(np.array([0, 2])))
    assert found.cast(pa.binary()).to_pylist() == [b"abc", b"ghi"]


def test_fixed_size_binary_of_the_wrong_width_raises_corrupt_data() -> None:
    message = pb20.FixedSizeBinary(bytes=flat(16), byte_width=3)
    with pytest.raises(CorruptDataError, match="16 bits"):
        decode(pb20.ArrayEncoding(fixed_size_binary=message), [b"abc"], pa.string(), 1)


@pytest.mark.parametrize("num_rows", [10, 3000])
@pytest.mark.parametrize("dtype", [pa.string(), pa.binary()])
def test_fsst_text_in_format_2_0_survives_a_round_trip(num_rows: int, dtype: pa.DataType) -> None:
    array = pa.array([None if row % 9 == 4 else f"http://example.org/{row}" for row in range(num_rows)]).cast(dtype)
    encoding, buffers = encode(array, compression="fsst")
    assert len(encoding.fsst.symbol_table) == 2312
    assert (sum(map(len, buffers)) < array.nbytes) == (num_rows == 3000) or num_rows == 10
    assert decode(encoding, buffers, dtype, num_rows).equals(array)
    rows = Spans.of_points(np.array([0, 4, num_rows - 1]))
    assert decode(encoding, buffers, dtype, rows).equals(array.take(rows.positions()))


def test_fsst_is_not_used_where_pylance_does_not_use_fsst() -> None:
    for array in (pa.nulls(4, pa.string()), pa.array(["a"], pa.large_string())):
        assert encode(array, compression="fsst")[0].WhichOneof("array_encoding") == "binary"


def test_malformed_fsst_encodings_raise_corrupt_data() -> None:
    plain, buffers = encode(pa.array(["a", "b"]), compression="fsst")
    broken = pb20.ArrayEncoding(fsst=pb20.Fsst(binary=plain.fsst.binary, symbol_table=b"?" * 2312))
    with pytest.raises(CorruptDataError, match="symbol table"):
        decode(broken, buffers, pa.string(), 2)
    broken = pb20.ArrayEncoding(fsst=pb20.Fsst(binary=flat(8), symbol_table=plain.fsst.symbol_table))
    with pytest.raises(CorruptDataError, match="binary"):
        decode(broken, buffers, pa.string(), 2)


def test_list_offsets_are_stored_as_adjusted_ends() -> None:
    page = PageBuilder()
    encoding = encode_lists(np.array([10, 12, 12, 12, 15], np.int32), np.array([True, False, True, True]), page)
    assert encoding.list == pb20.List(offsets=no_nulls(flat(64)), null_offset_adjustment=6, num_items=5)
    buffers = [buffer.to_pybytes() for buffer in page.buffers]
    assert buffers == [u64(2, 8, 2, 5)]
    ends = answer(lambda places: read_lists(encoding.list, Spans.of_points(np.array([1, 3])), places), buffers)
    assert (ends.offsets.tolist(), ends.validity.tolist()) == ([0, 0, 3], [False, True])
    assert ends.wanted.positions().tolist() == [2, 3, 4]


def test_list_ends_beyond_the_items_raise_corrupt_data() -> None:
    message = pb20.List(offsets=flat(64), null_offset_adjustment=100, num_items=3)
    with pytest.raises(CorruptDataError, match="ends at item 4"):
        answer(lambda places: read_lists(message, Spans.single(0, 2), places), [u64(1, 4)])
    with pytest.raises(CorruptDataError, match="not in ascending order"):
        answer(lambda places: read_lists(message, Spans.single(0, 3), places), [u64(2, 1, 3)])


def test_numbers_beyond_the_range_of_their_type_are_refused() -> None:
    too_many_digits = (10**6).to_bytes(16, "little")
    for dtype, values in ((pa.decimal128(3, 0), too_many_digits), (pa.time64("ns"), b"\xff" * 8)):
        assert decode(flat(8 * len(values)), [values], pa.binary(len(values)), 1).to_pylist() == [values]
        with pytest.raises(pa.ArrowInvalid):
            decode(flat(8 * len(values)), [values], dtype, 1)


def test_binary_encoding_of_a_list_type_raises_corrupt_data() -> None:
    with pytest.raises(CorruptDataError, match="binary"):
        decode(binary(2, flat(64), flat(8)), [u64(1), b"a"], pa.list_(pa.int8()), 1)
