"""check_storable: the table of kinds and versions."""

import pyarrow as pa
import pytest

from lance_core.errors import UnsupportedVersionError
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
FIELDS = {
    "a map": (pa.field("x", pa.map_(pa.string(), pa.int8())), ["2.2"]),
    "a fixed-size list of structs": (pa.field("x", pa.list_(pa.struct([("a", pa.int8())]), 2)), ["2.2"]),
    "a blob (lance.blob.v2)": (V2, ["2.2"]),
    "a list of values outside": (pa.field("x", pa.list_(BLOB)), ["2.0"]),
    "values outside the pages": (BLOB, ["2.0", "2.1", "2.2"]),
    "a packed struct with strings": (
        pa.field("x", pa.struct([pa.field("a", pa.string(), nullable=False)]), metadata=PACKED),
        ["0.1", "2.2"],
    ),
    "a packed struct with fixed-size lists": (
        pa.field("x", pa.struct([pa.field("a", pa.list_(pa.int8(), 2), nullable=False)]), metadata=PACKED),
        ["0.1", "2.0", "2.2"],
    ),
    "fixed-size binary of no bytes": (pa.field("x", pa.binary(0)), ["2.2"]),
    "a struct without members": (pa.field("x", pa.struct([])), ["2.0", "2.1", "2.2"]),
    "a fixed-size list of nulls": (pa.field("x", pa.list_(pa.list_(pa.null(), 2), 3)), ["2.0", "2.1", "2.2"]),
    "a dictionary of bools": (pa.field("x", pa.dictionary(pa.int8(), pa.bool_())), ["2.0", "2.1", "2.2"]),
}


@pytest.mark.parametrize("version", WRITTEN)
@pytest.mark.parametrize("what", FIELDS)
@pytest.mark.parametrize("nested", [False, True])
def test_rules(what: str, version: LanceFileVersion, nested: bool) -> None:
    field, versions = FIELDS[what]
    column = pa.field("top", pa.struct([field])) if nested else field
    schema = schema_from_arrow(pa.schema([pa.field("i", pa.int32()), column]))
    if version.value in versions:
        check_storable(schema, version)
        return
    with pytest.raises(UnsupportedVersionError) as caught:
        check_storable(schema, version)
    message = str(caught.value)
    assert what in message
    assert f"'{'top.' if nested else ''}{field.name}" in message
    assert versions[-1] in message
    assert f"this is {version.value}" in message


def test_every_rule_has_a_case() -> None:
    assert len(FIELDS) == len(RULES)
    for rule in RULES:
        assert any(rule.what.startswith(what) for what in FIELDS)


@pytest.mark.parametrize("name", TYPES)
def test_the_newest_version_holds_every_kind(name: str) -> None:
    check_storable(schema_from_arrow(TYPES[name]().schema), LanceFileVersion.V2_2)
