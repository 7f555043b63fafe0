"""The dictionary encoding of format 2.0: items, null indices, and malformed pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_core.encodings.v2_0.spans import Spans
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.proto import pb20
from tests.support.pages_v2_0 import binary, decode, encode, flat, no_nulls, some_nulls, u64

DTYPE = pa.dictionary(pa.int8(), pa.string())


def _dictionary(indices: list[int | None], items: pa.Array, index_type: pa.DataType | None = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, index_type or pa.int8()), items)


def _message(indices: pb20.ArrayEncoding, items: pb20.ArrayEncoding, num_items: int) -> pb20.ArrayEncoding:
    return pb20.ArrayEncoding(dictionary=pb20.Dictionary(indices=indices, items=items, num_dictionary_items=num_items))


def test_dictionary_without_nulls_keeps_its_order_and_unused_items() -> None:
    array = _dictionary([2, 0, 2], pa.array(["z", "unused", "a"]))
    encoding, buffers = encode(array)
    assert (buffers, encoding.dictionary.num_dictionary_items) == ([b"\2\0\2", u64(1, 7, 8), b"zunuseda"], 3)
    assert decode(encoding, buffers, array.type, 3).equals(array)


@pytest.mark.parametrize(
    ("array", "indices", "num_items"),
    [
        (_dictionary([0, 1, None, 1], pa.array(["aa", "b"])), b"\0\1\2\1", 3),
        (_dictionary([0, 1, 2, None], pa.array(["aa", None, "b"])), b"\0\1\2\1", 3),
        (_dictionary([None, None], pa.array(["aa"])), b"\0\0", 1),
        (_dictionary([0, 0], pa.array([None], pa.string())), b"\0\0", 1),
        (_dictionary([], pa.array(["aa"])), b"", 1),
    ],
    ids=["null key", "null item", "all null keys", "all null items", "no rows"],
)
def test_dictionary_null_rows_share_one_extra_item(array: pa.Array, indices: bytes, num_items: int) -> None:
    encoding, buffers = encode(array)
    assert encoding.dictionary.indices == no_nulls(flat(8, 0))
    assert (buffers[0], encoding.dictionary.num_dictionary_items) == (indices, num_items)
    assert decode(encoding, buffers, DTYPE, len(array)).to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    "items",
    [
        pa.array([1, 0], pa.int64()),
        pa.array([1.5, 0.0]),
        pa.array([True, False]),
        pa.array([b"a", b""]),
        pa.array(["a", ""], pa.large_string()),
    ],
    ids=lambda items: str(items.type),
)
@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int32(), pa.uint64()])
def test_dictionaries_of_every_item_and_index_type_survive_a_round_trip(items: pa.Array, index: pa.DataType) -> None:
    array = _dictionary([0, 1, None, 0], items, index)
    encoding, buffers = encode(array)
    assert decode(encoding, buffers, array.type, 4).to_pylist() == array.to_pylist()
    assert decode(encoding, buffers, array.type, Spans.of_points(np.array([1, 3]))).to_pylist() == [
        array.to_pylist()[1],
        array.to_pylist()[3],
    ]


def test_dictionary_whose_index_type_has_no_value_for_a_null_item_is_refused() -> None:
    full = _dictionary([0, None], pa.array([f"{index}" for index in range(128)]))
    with pytest.raises(NotSupportedError, match="128 items"):
        encode(full)
    almost = _dictionary([0, None], pa.array([f"{index}" for index in range(127)]))
    encoding, buffers = encode(almost)
    assert decode(encoding, buffers, DTYPE, 2).to_pylist() == ["0", None]


def test_automatic_dictionaries_shift_indices_by_one_and_explicit_dictionaries_do_not() -> None:
    items = binary(3, flat(64, 1), flat(8, 2))
    encoding = _message(no_nulls(flat(8, 0)), items, 2)
    buffers = [b"\0\1\0\1", u64(1, 2), b"ab"]
    assert decode(encoding, buffers, DTYPE, 4).to_pylist() == ["a", "b", "a", "b"]
    assert decode(encoding, buffers, pa.string(), 4).to_pylist() == [None, "a", None, "a"]


def test_dictionary_with_null_indices_written_by_release_0_16_is_decoded() -> None:
    items = binary(3, flat(64, 2), flat(8, 3))
    encoding = _message(some_nulls(flat(1, 0), flat(8, 1)), items, 2)
    buffers = [b"\x05", b"\0\1\1", u64(1, 2), b"ab"]
    assert decode(encoding, buffers, DTYPE, 3).to_pylist() == ["a", None, "b"]


@pytest.mark.parametrize("dtype", [DTYPE, pa.string()])
def test_dictionary_indices_beyond_the_items_raise_corrupt_data(dtype: pa.DataType) -> None:
    encoding = _message(flat(8, 0), binary(3, flat(64, 1), flat(8, 2)), 2)
    with pytest.raises(CorruptDataError, match="index"):
        decode(encoding, [b"\0\3", u64(1, 2), b"ab"], dtype, 2)


def test_dictionary_indices_of_the_wrong_type_raise_corrupt_data() -> None:
    items = binary(3, flat(64, 1), flat(8, 2))
    with pytest.raises(CorruptDataError, match="indices of type uint16"):
        decode(_message(flat(16, 0), items, 2), [b"\0\0", u64(1, 2), b"ab"], DTYPE, 1)
    with pytest.raises(CorruptDataError, match="24 bits"):
        decode(_message(flat(24, 0), items, 2), [b"\0\0\0", u64(1, 2), b"ab"], DTYPE, 1)
    all_nulls = pb20.ArrayEncoding(nullable=pb20.Nullable(all_nulls=pb20.Nullable.AllNull()))
    with pytest.raises(CorruptDataError, match="all 4294967295 items of a dictionary are null"):
        decode(_message(flat(8, 0), all_nulls, 2**32 - 1), [b"\0"], DTYPE, 1)


def _kind(values: list[str | None], dtype: pa.DataType) -> str | None:
    return encode(pa.array(values, dtype))[0].WhichOneof("array_encoding")


@pytest.mark.parametrize(
    ("num_rows", "num_distinct", "kind"),
    [
        (99, 5, "binary"),
        (100, 5, "dictionary"),
        (100, 99, "dictionary"),
        (100, 100, "binary"),
        (5000, 99, "dictionary"),
        (5000, 100, "binary"),
        (5000, 4000, "binary"),
    ],
)
def test_plain_strings_with_few_distinct_values_get_a_dictionary(num_rows: int, num_distinct: int, kind: str) -> None:
    values = [f"v{index % num_distinct}" for index in range(num_rows)]
    assert _kind(values, pa.string()) == kind
    assert _kind(values, pa.large_string()) == "binary"
    assert _kind(values, pa.binary()) == "binary"
    array = pa.array([None, *values[1:]])
    encoding, buffers = encode(array)
    assert decode(encoding, buffers, pa.string(), num_rows).equals(array)


def test_automatic_dictionary_stores_shifted_indices_and_items() -> None:
    encoding, buffers = encode(pa.array([None, "b", "a"] + ["b"] * 97))
    assert buffers[0] == bytes([0, 1, 2]) + b"\1" * 97
    assert buffers[1:] == [u64(1, 2), b"ba"]
    encoding, buffers = encode(pa.nulls(100, pa.string()), compression="zstd")
    assert encoding.dictionary.num_dictionary_items == 1
    assert buffers == [b"\0" * 100, u64(1), b""]
