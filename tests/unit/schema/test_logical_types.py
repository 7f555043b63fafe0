"""Converting logical type strings to and from Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.schema.field import Field
from lance_core.schema.logical_types import arrow_type, leaf_type, logical_type_of, plain_type

BOTH_WAYS = [
    ("null", pa.null()),
    ("bool", pa.bool_()),
    ("uint16", pa.uint16()),
    ("halffloat", pa.float16()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("large_string", pa.large_string()),
    ("date32:day", pa.date32()),
    ("date64:ms", pa.date64()),
    ("time32:ms", pa.time32("ms")),
    ("time64:ns", pa.time64("ns")),
    ("timestamp:ns:-", pa.timestamp("ns")),
    ("timestamp:us:UTC", pa.timestamp("us", "UTC")),
    ("timestamp:us:+05:30", pa.timestamp("us", "+05:30")),
    ("duration:s", pa.duration("s")),
    ("decimal:128:10:-2", pa.decimal128(10, -2)),
    ("decimal:256:60:5", pa.decimal256(60, 5)),
    ("fixed_size_binary:0", pa.binary(0)),
    ("fixed_size_binary:16", pa.binary(16)),
    ("fixed_size_list:float:768", pa.list_(pa.float32(), 768)),
    ("fixed_size_list:null:3", pa.list_(pa.null(), 3)),
    ("fixed_size_list:fixed_size_list:int8:2:3", pa.list_(pa.list_(pa.int8(), 2), 3)),
    ("fixed_size_list:timestamp:us:+05:30:2", pa.list_(pa.timestamp("us", "+05:30"), 2)),
    ("fixed_size_list:decimal:128:10:2:2", pa.list_(pa.decimal128(10, 2), 2)),
    ("dict:string:int32:false", pa.dictionary(pa.int32(), pa.string())),
]


@pytest.mark.parametrize(("text", "dtype"), BOTH_WAYS, ids=[text for text, _ in BOTH_WAYS])
def test_logical_type_strings_survive_a_round_trip(text: str, dtype: pa.DataType) -> None:
    assert logical_type_of(dtype, "c") == text
    assert leaf_type(text) == dtype


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (pa.list_(pa.int8()), "list"),
        (pa.large_list(pa.int8()), "large_list"),
        (pa.list_(pa.struct([("a", pa.int8())])), "list.struct"),
        (pa.large_list(pa.struct([("a", pa.int8())])), "large_list.struct"),
        (pa.list_(pa.list_(pa.struct([("a", pa.int8())]))), "list"),
        (pa.struct([]), "struct"),
        (pa.map_(pa.string(), pa.int8()), "map"),
        (pa.list_(pa.struct([("a", pa.int8())]), 2), "fixed_size_list:struct:2"),
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.uuid(), "fixed_size_binary:16"),
    ],
    ids=str,
)
def test_containers_and_converted_types_have_logical_type_strings(dtype: pa.DataType, text: str) -> None:
    assert logical_type_of(dtype, "c") == text


def test_bfloat16_items_keep_their_extension() -> None:
    item = pa.field("item", pa.binary(2), metadata={"ARROW:extension:name": "lance.bfloat16"})
    assert logical_type_of(pa.list_(item, 4), "c") == "fixed_size_list:lance.bfloat16:4"
    value = leaf_type("fixed_size_list:lance.bfloat16:4").value_field
    assert value.metadata[b"ARROW:extension:name"] == b"lance.bfloat16"


@pytest.mark.parametrize(
    "dtype",
    [
        pa.month_day_nano_interval(),
        pa.decimal32(5, 2),
        pa.decimal64(5, 2),
        pa.list_view(pa.int8()),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.int8()), 2),
        pa.list_(pa.int8(), 0),
        pa.list_(pa.list_(pa.struct([("a", pa.int8())]), 2), 2),
        pa.dictionary(pa.int8(), pa.binary(3)),
        pa.dictionary(pa.int8(), pa.timestamp("us")),
        pa.map_(pa.string(), pa.int8(), keys_sorted=True),
    ],
    ids=str,
)
def test_arrow_types_missing_from_the_format_are_refused_and_named_in_the_error(dtype: pa.DataType) -> None:
    with pytest.raises(NotSupportedError, match="column 'c' of type"):
        logical_type_of(dtype, "c")


@pytest.mark.parametrize(
    "text",
    [
        "timestamp:minutes:-",
        "decimal:128:99:0",
        "decimal:64:5:2",
        "decimal:128:5",
        "fixed_size_binary:-1",
        "fixed_size_binary:x",
        "fixed_size_binary:99999999999999",
        "fixed_size_binary:\uff11",
        "fixed_size_list:int8:0",
        "fixed_size_list:int8",
        "fixed_size_list:",
        "dict:string:int32",
        "dict:string:float:false",
    ],
)
def test_malformed_logical_type_parameters_raise_corrupt_data(text: str) -> None:
    with pytest.raises(CorruptDataError):
        leaf_type(text)


@pytest.mark.parametrize("text", ["", "int128", "list", "fixed_size_list:blob:2"])
def test_unknown_logical_types_raise_not_supported(text: str) -> None:
    with pytest.raises(NotSupportedError, match="unknown logical type"):
        leaf_type(text)


@pytest.mark.parametrize(
    "field",
    [
        Field(name="l", logical_type="list"),
        Field(name="m", logical_type="map", children=(Field(name="entries", logical_type="int8"),)),
        Field(name="i", logical_type="int8", children=(Field(name="a", logical_type="int8"),)),
        Field(name="f", logical_type="fixed_size_list:struct:2", children=(Field(name="item", logical_type="int8"),)),
        Field(
            name="f",
            logical_type="fixed_size_list:int8:2",
            children=(Field(name="item", logical_type="struct"),),
        ),
    ],
    ids=lambda field: field.logical_type,
)
def test_children_that_contradict_their_logical_type_raise_corrupt_data(field: Field) -> None:
    with pytest.raises(CorruptDataError):
        arrow_type(field)


def test_plain_type_unwraps_extensions_and_views() -> None:
    assert plain_type(pa.uuid()) == pa.binary(16)
    assert plain_type(pa.string_view()) == pa.string()
    assert plain_type(pa.int8()) == pa.int8()


def test_fixed_size_lists_nest_at_most_64_levels_deep() -> None:
    dtype = pa.int8()
    for dimension in range(1, 65):
        dtype = pa.list_(dtype, dimension)
    text = logical_type_of(dtype, "c")
    assert text.startswith("fixed_size_list:" * 64 + "int8:1:2:3:")
    assert leaf_type(text) == dtype
    with pytest.raises(NotSupportedError, match="'c': fixed-size lists are nested more than 64 levels deep"):
        logical_type_of(pa.list_(dtype, 2), "c")


@pytest.mark.parametrize("depth", [65, 100_000])
@pytest.mark.parametrize("dimensions", [0, 1, 2])
def test_deeply_nested_logical_type_is_refused_with_a_short_message(depth: int, dimensions: int) -> None:
    text = "fixed_size_list:" * depth + "int64" + ":2" * depth * dimensions
    for fault in (lambda: leaf_type(text), lambda: arrow_type(Field(name="a", logical_type=text))):
        with pytest.raises(NotSupportedError, match="nested more than 64 levels deep") as caught:
            fault()
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("prefix", ["timestamp:", "decimal:", "dict:", "fixed_size_binary:", "fixed_size_list:"])
def test_long_malformed_logical_type_is_quoted_in_part(prefix: str) -> None:
    with pytest.raises((CorruptDataError, NotSupportedError)) as caught:
        leaf_type(prefix + "x:" * 100_000)
    assert len(str(caught.value)) < 600
