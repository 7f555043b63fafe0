"""check_storable: which types each format version can store."""

import pyarrow as pa
import pytest

from lance_core.errors import NotSupportedError, UnsupportedVersionError
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.storable import RULES, check_storable
from lance_core.versions import LanceFileVersion
from tests.support.type_catalogue import PACKED, TYPES

WRITTEN = [version for version in LanceFileVersion if version is not LanceFileVersion.V2_3]
BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
V2 = pa.field(
    "b",
    pa.struct([("data", pa.large_binary()), ("uri", pa.string())]),
    metadata={"ARROW:extension:name": "lance.blob.v2"},
)


def nested_lists(depth: int) -> pa.DataType:
    dtype = pa.int8()
    for _ in range(depth):
        dtype = pa.list_(dtype, 2)
    return dtype


FIELDS = {
    "a map": (pa.field("x", pa.map_(pa.string(), pa.int8())), ["2.2"]),
    "a fixed-size list of structs": (pa.field("x", pa.list_(pa.struct([("a", pa.int8())]), 2)), ["2.2"]),
    "a blob (lance.blob.v2)": (V2, ["2.2"]),
    "a list of v1 blobs": (pa.field("x", pa.list_(BLOB)), ["2.0"]),
    "a v1 blob column": (BLOB, ["2.0", "2.1", "2.2"]),
    "a list whose metadata marks it as a packed struct": (
        pa.field("x", pa.large_list(pa.int8()), metadata={"packed": "yes"}),
        ["0.1", "2.1", "2.2"],
    ),
    "a packed struct whose marker has a value other than 'true'": (
        pa.field("x", pa.struct([("a", pa.int8())]), metadata={"packed": "1"}),
        ["0.1", "2.0"],
    ),
    "a packed struct with string or binary members": (
        pa.field("x", pa.struct([pa.field("a", pa.string(), nullable=False)]), metadata=PACKED),
        ["0.1", "2.2"],
    ),
    "a packed struct with fixed-size lists": (
        pa.field("x", pa.struct([pa.field("a", pa.list_(pa.int8(), 2), nullable=False)]), metadata=PACKED),
        ["0.1", "2.0", "2.2"],
    ),
    "a packed struct with fixed-size binary of width 0": (
        pa.field("x", pa.struct([pa.field("a", pa.binary(0), nullable=False), ("b", pa.int8())]), metadata=PACKED),
        [],
    ),
    "a fixed-size list of fixed-size binary of width 0": (pa.field("x", pa.list_(pa.list_(pa.binary(0), 2), 3)), []),
    "fixed-size binary of width 0": (pa.field("x", pa.binary(0)), ["2.2"]),
    "a struct without fields": (pa.field("x", pa.struct([])), ["2.0", "2.1", "2.2"]),
    "a fixed-size list of nulls": (pa.field("x", pa.list_(pa.list_(pa.null(), 2), 3)), ["2.0", "2.1", "2.2"]),
    "a fixed-size list nested more than 48 levels deep": (pa.field("x", nested_lists(64)), ["0.1"]),
    "a fixed-size list nested more than 19 levels deep": (pa.field("x", nested_lists(48)), ["0.1", "2.1", "2.2"]),
    "a dictionary of bools": (pa.field("x", pa.dictionary(pa.int8(), pa.bool_())), ["2.0", "2.1", "2.2"]),
    "a dictionary of floats": (pa.field("x", pa.dictionary(pa.int8(), pa.float32())), ["2.0", "2.1", "2.2"]),
}


@pytest.mark.parametrize("version", WRITTEN)
@pytest.mark.parametrize("what", FIELDS)
@pytest.mark.parametrize("nested", [False, True])
def test_field_is_storable_only_in_versions_that_support_it(what: str, version: LanceFileVersion, nested: bool) -> None:
    field, versions = FIELDS[what]
    column = pa.field("top", pa.struct([field])) if nested else field
    schema = schema_from_arrow(pa.schema([pa.field("i", pa.int32()), column]))
    if version.value in versions:
        check_storable(schema, version)
        return
    with pytest.raises(UnsupportedVersionError if versions else NotSupportedError) as caught:
        check_storable(schema, version)
    message = str(caught.value)
    assert what in message
    if not versions:
        return
    assert f"'{'top.' if nested else ''}{field.name}" in message
    assert versions[-1] in message
    assert f"found {version.value}" in message


def blob(data_type, value="true"):
    return pa.field("b", data_type, metadata={"lance-encoding:blob": value})


def named(*members):
    return pa.field("b", pa.struct(members), metadata={"ARROW:extension:name": "lance.blob.v2"})


STORED_V2 = [("kind", "u1"), ("position", "u8"), ("size", "u8"), ("blob_id", "u4"), ("blob_uri", "str")]
NO_BLOBS = {
    **{
        str(data_type): blob(data_type)
        for data_type in [
            *[pa.int64(), pa.string(), pa.large_string(), pa.binary(), pa.binary(4), pa.null(), pa.bool_()],
            *[pa.list_(pa.large_binary()), pa.list_(pa.float32(), 2), pa.dictionary(pa.int8(), pa.string())],
            *[pa.map_(pa.string(), pa.large_binary()), pa.struct([("a", pa.large_binary())]), pa.struct([])],
            pa.list_(pa.struct([("a", pa.int8())]), 2),
        ]
    },
    "false, which switches nothing off": blob(pa.int64(), "false"),
    "empty": blob(pa.int64(), ""),
    "v2 by key alone": blob(pa.struct([("data", pa.large_binary()), ("uri", pa.string())])),
    "v2 of another type": named(("data", pa.binary()), ("uri", pa.string())),
    "v2 with another member": named(("data", pa.large_binary()), ("x", pa.int8())),
    "v2 without data": named(("position", pa.uint64()), ("size", pa.uint64())),
    "v2 that is no struct": pa.field("b", pa.large_binary(), metadata={"ARROW:extension:name": "lance.blob.v2"}),
    "descriptors of v1": blob(pa.struct([("position", pa.uint64()), ("size", pa.uint64())])),
    "descriptors of v2": blob(pa.struct(STORED_V2)),
}


@pytest.mark.parametrize("version", WRITTEN)
@pytest.mark.parametrize("name", NO_BLOBS)
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.sampled(60)
def test_blob_metadata_on_a_field_of_an_unsupported_type_raises_not_supported(
    name: str, version: LanceFileVersion, nested: bool
) -> None:
    field = NO_BLOBS[name]
    schema = schema_from_arrow(pa.schema([pa.field("top", pa.struct([field])) if nested else field]))
    with pytest.raises(NotSupportedError, match=f"'{'top.' if nested else ''}b'.*blob") as caught:
        check_storable(schema, version)
    assert not isinstance(caught.value, UnsupportedVersionError)


@pytest.mark.parametrize("value", ["true", "false", "0", "", "other"])
def test_blob_metadata_key_with_any_value_declares_a_blob_column(value: str) -> None:
    schema = schema_from_arrow(pa.schema([blob(pa.large_binary(), value)]))
    check_storable(schema, LanceFileVersion.V2_1)
    with pytest.raises(UnsupportedVersionError, match="a v1 blob column"):
        check_storable(schema, LanceFileVersion.V0_1)


def test_every_storability_rule_has_a_test_case() -> None:
    assert len(FIELDS) == len(RULES)
    for rule in RULES:
        assert any(rule.what.startswith(what) for what in FIELDS)


@pytest.mark.parametrize("name", TYPES)
def test_newest_format_version_stores_every_supported_type(name: str) -> None:
    check_storable(schema_from_arrow(TYPES[name]().schema), LanceFileVersion.V2_2)
