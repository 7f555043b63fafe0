"""Encoding arrays as pages: which layout is chosen, what is normalized, and what is refused."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.encodings.page_decoder import assemble, decode_leaf
from lance_core.encodings.page_encoder import encode_pages
from lance_core.encodings.registry import describe
from lance_core.errors import InvalidInputError, NotSupportedError, UnsupportedVersionError
from lance_core.schema.convert import schema_from_arrow
from lance_core.versions import LanceFileVersion

V2_2 = LanceFileVersion.V2_2
RNG = np.random.default_rng(11)


def field_of(dtype, metadata=None, *, nullable=True):
    column = pa.field("c", dtype, nullable=nullable, metadata=metadata)
    return schema_from_arrow(pa.schema([column])).fields[0]


def encode(array, metadata=None, **options):
    return encode_pages(field_of(array.type, metadata), array, version=V2_2, **options)


def decode(dtype, pages, rows=None):
    field = field_of(dtype)
    leaves = [
        decode_leaf(leaf, page.layout, page.buffers, page.num_rows, rows=rows)
        for leaf, page in zip(field.leaves(), pages, strict=True)
    ]
    array = assemble(field, leaves)
    array.validate(full=True)
    return array


def assert_comes_back(array, **options):
    pages = encode(array, **options)
    assert decode(array.type, pages).to_pylist() == array.to_pylist()
    if not pa.types.is_fixed_size_list(array.type) or not pa.types.is_struct(array.type.value_type):
        for start, stop in ((0, 1), (len(array) // 3, len(array) // 2 + 1), (len(array) - 1, len(array))):
            assert decode(array.type, pages, (start, stop)).to_pylist() == array[start:stop].to_pylist()


def shape(array, **options):
    """Return a short text for the layout of the only leaf."""
    (page,) = encode(array, **options)
    arm = page.layout.WhichOneof("layout")
    layout = getattr(page.layout, arm)
    text = arm if arm == "constant" else f"{arm} {describe(layout.value_compression)}"
    return f"{text} in dictionary" if arm == "mini_block" and layout.HasField("dictionary") else text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array(RNG.integers(0, 1 << 20, 5000)), "mini_block inline_bitpacking[64]"),
        (pa.array(RNG.integers(-5, 5, 5000)), "mini_block inline_bitpacking[32] in dictionary"),
        (pa.array(RNG.integers(-(1 << 60), 1 << 60, 5000)), "mini_block flat[64]"),
        (
            pa.array(np.repeat(RNG.integers(0, 1 << 60, 50), 100)),
            "mini_block rle(values=flat[64], run_lengths=flat[8])",
        ),
        (pa.array(RNG.random(5000)), "mini_block flat[64]"),
        (pa.array(RNG.random(100) < 0.5), "mini_block flat[1]"),
        (pa.array([decimal.Decimal(i) for i in range(9)], pa.decimal256(50, 0)), "mini_block flat[256]"),
        (pa.array([bytes([i]) * 255 for i in range(9)], pa.binary(255)), "mini_block flat[2040]"),
        (pa.array([bytes([i]) * 256 for i in range(9)], pa.binary(256)), "full_zip flat[2048]"),
        (pa.array([f"text {i}" for i in range(500)]), "mini_block variable(offsets=flat[32])"),
        (pa.array([f"text {i}" for i in range(500)], pa.large_binary()), "mini_block variable(offsets=flat[64])"),
        (pa.array([f"text {i}" * 200 for i in range(50)]), "mini_block general[zstd](variable(offsets=flat[32]))"),
        (pa.array([RNG.bytes(300) for i in range(50)]), "full_zip variable(offsets=flat[32])"),
        (pa.array(["a", "b"] * 40 + ["x" * 32 * 1024]), "mini_block general[zstd](variable(offsets=flat[32]))"),
        (pa.array([RNG.bytes(10)] * 2 + [RNG.bytes(70_000)]), "full_zip variable(offsets=flat[32])"),
        (pa.array(["a", None] * 40 + ["x" * 100_000]), "full_zip general[zstd](variable(offsets=flat[32]))"),
        (pa.array([RNG.bytes(100_000), b""]), "full_zip variable(offsets=flat[32])"),
        (pa.array(["x" * 100_000]), "full_zip general[zstd](variable(offsets=flat[32]))"),
        (pa.array(["x" * 1000, None]), "constant"),
        (pa.array(["x" * 33_000] * 800), "constant"),
        (pa.array([RNG.bytes(100_000)] * 2), "constant"),
        (pa.array([f"city {i % 7}" for i in range(500)]), "mini_block inline_bitpacking[32] in dictionary"),
        (pa.array(["a", "b", None, "b"]).dictionary_encode(), "mini_block flat[32] in dictionary"),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), "mini_block fixed_size_list[2](flat[32])"),
        (pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)), "full_zip fixed_size_list[2](flat[32])"),
        (pa.array([[1.0] * 64, None], pa.list_(pa.float32(), 64)), "full_zip fixed_size_list[64](flat[32])"),
        (
            pa.array([[None] * 64, [None] * 64], pa.list_(pa.float32(), 64)),
            "full_zip fixed_size_list[64, nullable](constant[null])",
        ),
        (
            pa.array([[True, None], [False, True]], pa.list_(pa.bool_(), 2)),
            "mini_block fixed_size_list[2, nullable](flat[1])",
        ),
        (pa.array([7, None, 7]), "constant"),
        (pa.array(["same", "same"]), "constant"),
        (pa.array([float("nan")] * 3), "constant"),
        (pa.array([0.0, -0.0] * 3), "mini_block flat[64]"),
        (pa.nulls(3, pa.string()), "constant"),
        (pa.nulls(3), "constant"),
        (pa.array([[], None], pa.list_(pa.int32())), "constant"),
        (pa.array([b"", b""], pa.binary(0)), "constant"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_page_layout_depends_on_the_values(array, expected):
    assert shape(array) == expected
    if str(array.to_pylist()) != "[nan, nan, nan]":
        assert_comes_back(array)


def test_field_metadata_selects_the_compression_of_a_page():
    array = pa.array([f"https://example.com/{i}" for i in range(3000)])
    for scheme in ("zstd", "lz4"):
        metadata = {"lance-encoding:compression": scheme, "lance-encoding:compression-level": "3"}
        assert shape(array, metadata=metadata) == f"mini_block general[{scheme}](variable(offsets=flat[32]))"
        assert_comes_back(array, metadata=metadata)
    assert shape(array) == "mini_block general[zstd](variable(offsets=flat[32]))"
    assert shape(array, metadata={"lance-encoding:compression": "none"}) == "mini_block variable(offsets=flat[32])"
    with pytest.raises(InvalidInputError, match="expected one of none, zstd"):
        encode(array, metadata={"lance-encoding:compression": "gzip"})


def test_long_values_are_compressed_one_by_one():
    array = pa.array([None, b"", *(bytes([i]) * 600 for i in range(9))])
    for scheme in ("zstd", "lz4"):
        metadata = {
            "lance-encoding:compression": scheme,
            "lance-encoding:compression-level": "3",
            "lance-encoding:structural-encoding": "fullzip",
        }
        assert shape(array, metadata=metadata) == "full_zip general[zstd](variable(offsets=flat[32]))"
        assert_comes_back(array, metadata=metadata)
        assert shape(array[2:3], metadata=metadata) == "full_zip general[zstd](variable(offsets=flat[32]))"
        random = pa.array([RNG.bytes(600), RNG.bytes(700)])
        assert shape(random, metadata=metadata) == "full_zip variable(offsets=flat[32])"
    long = pa.array([bytes([i]) * 10**6 for i in range(3)])
    assert sum(page.num_bytes for page in encode(long)) < 1000
    (page,) = encode(long, metadata={"lance-encoding:compression": "none"})
    assert page.num_bytes > 3 * 10**6


def test_distinct_long_values_use_the_smaller_of_two_layouts():
    few = [RNG.bytes(40_000) for _ in range(2)]
    assert shape(pa.array(few * 100)) == "mini_block inline_bitpacking[32] in dictionary"
    blank = pa.array([bytes([i % 9]) * 40_000 for i in range(200)])
    assert shape(blank) == "full_zip general[zstd](variable(offsets=flat[32]))"
    assert_comes_back(blank)


def numbers_that_hardly_repeat(dtype):
    return pa.array(RNG.integers(0, 1 << 40, 100_000)).cast(dtype)


def peak_memory(array):
    """Return Arrow's peak memory while the array is encoded, divided by the size of the array."""
    before, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counting)
    try:
        encode(array)
    finally:
        pa.set_memory_pool(before)
    return counting.max_memory() / array.nbytes


@pytest.mark.parametrize("other", [None, 0, 77])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.7])
@pytest.mark.parametrize("dtype", [pa.int64(), pa.float64(), pa.timestamp("us"), pa.decimal128(38, 2), pa.string()])
@pytest.mark.sampled(20)
def test_distinct_counting_is_skipped_for_values_that_hardly_repeat(dtype, share, other):
    values = numbers_that_hardly_repeat(dtype)
    frequent = pa.scalar(other, pa.int64()).cast(dtype)
    array = pc.if_else(pa.array(RNG.random(len(values)) < share), frequent, values)
    # Counting distinct values takes many times their size.
    assert peak_memory(array) < 4


def test_fixed_size_list_pages_share_the_memory_of_the_array():
    values = pa.array(RNG.random(40 * 8, dtype=np.float32))
    array = pa.FixedSizeListArray.from_arrays(values, 8)[3:30]
    (page,) = encode(array)
    assert page.buffers[0].address == values.buffers()[1].address + 3 * 8 * 4
    decoded = decode(array.type, [page])
    assert decoded.values.buffers()[1].address == page.buffers[0].address


TYPES = [
    *(pa.int8(), pa.uint16(), pa.int32(), pa.float16(), pa.float64(), pa.bool_(), pa.decimal128(10, 2)),
    *(pa.date32(), pa.timestamp("us", "UTC"), pa.binary(3), pa.string(), pa.large_binary(), pa.null()),
    *(
        pa.list_(pa.int64()),
        pa.large_list(pa.string()),
        pa.list_(pa.list_(pa.int8(), 2)),
        pa.list_(pa.list_(pa.bool_())),
    ),
    pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
    pa.struct([("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))]),
    pa.list_(pa.struct([("x", pa.list_(pa.int16())), ("y", pa.float32())])),
    pa.list_(pa.struct([("p", pa.int32()), ("q", pa.string())]), 2),
    pa.list_(pa.list_(pa.int16(), 2), 2),
    pa.dictionary(pa.int8(), pa.string()),
]


def example(dtype, index):
    """Return a value that depends on the index, with every seventh value null at every level."""
    if index % 7 == 3 or pa.types.is_null(dtype):
        return None
    if pa.types.is_struct(dtype):
        return {member.name: example(member.type, index + number) for number, member in enumerate(dtype)}
    if pa.types.is_map(dtype):
        return [(f"k{key}", example(dtype.item_type, index + key)) for key in range(index % 3)]
    if pa.types.is_fixed_size_list(dtype):
        return [example(dtype.value_type, index + item) for item in range(dtype.list_size)]
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return [example(dtype.value_type, index + item) for item in range(index % 4)]
    if pa.types.is_boolean(dtype):
        return index % 3 == 0
    if pa.types.is_decimal(dtype):
        return decimal.Decimal(index)
    if pa.types.is_fixed_size_binary(dtype):
        return bytes([index % 256]) * dtype.byte_width
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_temporal(dtype):
        return index % 100
    return f"v{index % 5}" if pa.types.is_dictionary(dtype) else f"value {index}"


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("num_rows", [1, 60, 1500])
@pytest.mark.sampled(46)
def test_every_type_round_trips_through_pages(dtype, num_rows):
    array = pa.array([example(dtype, index) for index in range(num_rows + 9)], dtype)
    assert_comes_back(array[:num_rows])
    assert_comes_back(array[5 : num_rows + 5], multi_page=False)


@pytest.mark.parametrize("item_type", [dtype for dtype in TYPES if not pa.types.is_fixed_size_list(dtype)], ids=str)
def test_pages_omit_items_hidden_by_null_lists(item_type):
    items = pa.array([example(item_type, index) for index in range(60)], item_type)
    offsets = pa.array(range(1, 60, 3), pa.int32())
    mask = pa.array([number % 2 == 0 for number in range(len(offsets) - 1)])
    assert_comes_back(pa.ListArray.from_arrays(offsets, items, mask=mask))


@pytest.mark.parametrize("item_type", [pa.list_(pa.list_(pa.int16(), 2), 2), pa.list_(pa.float32(), 3)], ids=str)
def test_pages_omit_fixed_size_lists_hidden_by_null_lists(item_type):
    # pyarrow 26 filters nested fixed-size lists with an offset incorrectly.
    items = pa.array([example(item_type, index) for index in range(40)], item_type)[2:]
    lists = pa.ListArray.from_arrays(pa.array([1, 5, 9, 30], pa.int32()), items, mask=pa.array([False, True, False]))
    assert_comes_back(lists[1:])


def hidden_under_nulls():
    secret = pa.array(["keep me", "secret!", "and me"])
    yield pa.Array.from_buffers(secret.type, 3, [pa.py_buffer(b"\x05"), *secret.buffers()[1:]])
    mask = pa.array([False, True, False])
    yield pa.StructArray.from_arrays([secret], ["s"], mask=mask)
    fixed = pa.array([b"keep me", b"secret!", b"and me "], pa.binary(7))
    yield pa.Array.from_buffers(fixed.type, 3, [pa.py_buffer(b"\x05"), fixed.buffers()[1]])
    characters = pa.array(np.frombuffer(b"keep mesecret!and me ", np.uint8))
    fixed_lists = pa.FixedSizeListArray.from_arrays(characters, 7, mask=mask)
    yield fixed_lists
    yield pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), fixed_lists)
    number = pa.array(np.frombuffer(b"keepmesosecret!!andmealso"[:24], np.int64))
    yield pa.Array.from_buffers(number.type, 3, [pa.py_buffer(b"\x05"), number.buffers()[1]])


@pytest.mark.parametrize("array", hidden_under_nulls(), ids=lambda array: str(array.type))
def test_bytes_hidden_by_nulls_are_not_written(array):
    stored = b"".join(buffer.to_pybytes() for page in encode(array) for buffer in page.buffers)
    assert b"keep" in stored
    assert b"secret" not in stored
    assert_comes_back(array)


def test_dictionary_values_hidden_by_nulls_are_not_written():
    cities = pa.array([f"city {i % 7}" for i in range(500)])
    mask = pa.array([i % 7 == 4 for i in range(500)])
    structs = pa.StructArray.from_arrays([cities], ["s"], mask=mask)
    plain = pa.field("s", pa.string(), metadata={"lance-encoding:dict-values-compression": "none"})
    field = field_of(pa.struct([plain]))
    stored = b"".join(
        buffer.to_pybytes() for page in encode_pages(field, structs, version=V2_2) for buffer in page.buffers
    )
    assert b"city 3" in stored
    assert b"city 4" not in stored
    assert_comes_back(structs)


def test_null_value_in_an_arrow_dictionary_reads_as_null():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 1], pa.int8()), pa.array(["a", None, "b"]))
    assert decode(array.type, encode(array)).to_pylist() == ["a", None, None, "b", None]


def test_many_empty_lists_between_values_use_full_zip():
    lengths = np.zeros(200_000, np.int64)
    lengths[[0, 50_000, 199_999]] = 2
    offsets = pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32))
    array = pa.ListArray.from_arrays(offsets, pa.array([True, False, True, False, True, False]))
    assert shape(array, multi_page=False) == "full_zip flat[8]"
    decoded = decode(array.type, encode(array))
    assert decoded.equals(array)
    assert decode(array.type, encode(array), (49_999, 50_001)).to_pylist() == [[], [True, False]]


@pytest.mark.parametrize("plain", [pa.string(), pa.binary()], ids=str)
def test_view_arrays_are_written_like_arrays_that_are_not_views(plain):
    view = pa.string_view() if plain == pa.string() else pa.binary_view()
    values = pa.array(["short", None, "longer than twelve bytes"]).cast(plain)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), values.cast(view))
    assert decode(pa.list_(plain), encode(lists)).to_pylist() == lists.to_pylist()


def test_structs_without_members_survive_a_round_trip():
    array = pa.array([{}] * 5, pa.struct([]))
    assert_comes_back(array)


def test_extension_arrays_are_written_as_their_storage_arrays():
    storage = pa.array([bytes([i]) * 16 for i in range(20)], pa.binary(16))
    array = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    pages = encode_pages(field_of(array.type), array, version=V2_2)
    assert decode(storage.type, pages).equals(storage)


def test_page_encoder_writes_one_page_per_leaf_depth_first():
    array = pa.array([{"a": 1, "b": {"c": "x", "d": [1, 2]}}] * 3)
    pages = encode(array)
    assert [page.num_rows for page in pages] == [3, 3, 3]
    lists = pa.array([[{"p": 1}, {"p": 2}]] * 3, pa.list_(pa.struct([("p", pa.int32())]), 2))
    assert [page.num_rows for page in encode(lists)] == [6]


def test_pages_that_cannot_be_encoded_are_refused():
    with pytest.raises(InvalidInputError, match="at least one row"):
        encode(pa.array([], pa.int32()))
    with pytest.raises(UnsupportedVersionError):
        encode_pages(field_of(pa.int32()), pa.array([1], pa.int32()), version=LanceFileVersion.V2_3)
    packed = field_of(pa.struct([("a", pa.int32())]), {"lance-encoding:packed": "true"})
    with pytest.raises(NotSupportedError, match="'a' has a null"):
        encode_pages(packed, pa.array([{"a": None}, {"a": 1}]), version=V2_2)
