"""Schemas as JSON: the dictionaries are the same as those of pylance and convert to the same schemas."""

import json

import lance
import lance.schema
import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.schema import json_to_schema, schema_to_json

LEAVES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()),
    *(pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.binary()),
    *(pa.large_binary(), pa.binary(5), pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
    *(pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns", "+01:00"), pa.duration("s")),
    *(pa.duration("ns"), pa.decimal128(10, 2), pa.decimal256(50, 3), pa.dictionary(pa.int8(), pa.string())),
]
STRUCT = pa.struct([pa.field("x", pa.int32(), nullable=False, metadata={"m": "1"}), ("l", pa.list_(pa.string()))])
NESTED = [
    STRUCT,
    pa.struct([]),
    pa.list_(STRUCT),
    pa.large_list(pa.field("element", pa.int8(), nullable=False)),
    pa.list_(pa.float32(), 4),
    pa.list_(STRUCT, 2),
    pa.list_(pa.list_(pa.int8(), 2), 3),
    pa.large_list(pa.list_(pa.dictionary(pa.int16(), pa.large_string()))),
]


@pytest.mark.parametrize("dtype", [*LEAVES, *NESTED], ids=str)
def test_types_are_converted_to_json_as_in_pylance(dtype: pa.DataType) -> None:
    schema = pa.schema([pa.field("x", dtype, metadata={"a": "b"}), ("y", pa.int8())], metadata={"k": "v"})
    shown = schema_to_json(schema)
    assert shown == lance.schema.schema_to_json(schema)
    assert json_to_schema(json.loads(json.dumps(shown))).equals(schema, check_metadata=True)
    assert json_to_schema(shown).equals(lance.schema.json_to_schema(shown), check_metadata=True)


def test_extension_types_are_converted_to_json_as_in_pylance() -> None:
    schema = pa.schema([("j", pa.json_()), ("t", pa.uuid())])
    shown = schema_to_json(schema)
    assert shown == lance.schema.schema_to_json(schema)
    assert json_to_schema(shown) == schema


@pytest.mark.parametrize(
    "dtype",
    [
        *(pa.map_(pa.string(), pa.int32()), pa.string_view(), pa.binary_view(), pa.list_view(pa.int8())),
        *(pa.month_day_nano_interval(), pa.run_end_encoded(pa.int32(), pa.string()), pa.decimal32(5, 1)),
    ],
    ids=str,
)
def test_types_without_a_json_form_are_refused_as_in_pylance(dtype: pa.DataType) -> None:
    for convert in (lance.schema.schema_to_json, schema_to_json):
        with pytest.raises(ValueError, match=r"(?i)unsupported|not supported|cannot be converted"):
            convert(pa.schema([("x", dtype)]))


def test_value_that_is_not_a_schema_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a pyarrow\.Schema, found int"):
        schema_to_json(5)
    with pytest.raises(InvalidInputError, match="metadata of the schema is not valid UTF-8"):
        schema_to_json(pa.schema([], metadata={b"k": b"\xff"}))


def field(**entries: object) -> dict:
    return {"fields": [{"name": "x", "type": {"type": "int32"}, "nullable": True, **entries}]}


@pytest.mark.parametrize(
    ("shown", "problem"),
    [
        ({}, "the schema must have the entry 'fields' of type list, found None"),
        (5, "the schema must be a JSON object, found 5"),
        ([], "the schema must be a JSON object"),
        ({"fields": [5]}, "a field must be a JSON object, found 5"),
        (field(name=None), "a field must have the entry 'name' of type str"),
        (field(type="int32"), "field 'x' must have the entry 'type' of type dict, found 'int32'"),
        (field(type={}), "the type of field 'x' must have the entry 'type'"),
        (field(nullable=None), "field 'x' must have the entry 'nullable' of type bool"),
        (field(type={"type": "zz"}), "field 'x': unknown logical type 'zz'"),
        (field(type={"type": "decimal:128:99:1"}), "field 'x': logical type .* is malformed"),
        (field(type={"type": "fixed_size_binary"}), "the entry 'length' of type int, found None"),
        (field(type={"type": "fixed_size_binary", "length": -1}), "must be between 0 and 2147483647, found -1"),
        (field(type={"type": "list"}), "the entry 'fields' of type list"),
        (field(type={"type": "list", "fields": []}), "of type list must have one field, found 0"),
        (field(type={"type": "fixed_size_list", "fields": field()["fields"]}), "the entry 'length'"),
        (field(metadata={"a": 1}), "metadata of field 'x' must map names to strings"),
        ({"fields": [], "metadata": "x"}, "metadata of the schema must map names to strings"),
    ],
)
def test_malformed_schema_json_is_refused(shown: object, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        json_to_schema(shown)
    if "must have one field" not in problem:  # on which pylance panics
        with pytest.raises(ValueError, match=r"Failed to convert json to schema|out of range"):
            lance.schema.json_to_schema(shown)


def test_deeply_nested_schema_json_is_refused() -> None:
    shown = {"type": "int8"}
    for _ in range(100):
        shown = {"type": "list", "fields": [{"name": "item", "type": shown, "nullable": True}]}
    with pytest.raises(InvalidInputError, match="nested more than 64 levels"):
        json_to_schema(field(type=shown))
