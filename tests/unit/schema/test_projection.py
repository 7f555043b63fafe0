"""Selecting columns and comparing schemas."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import suggestion
from lance_core.schema.projection import check_compatible, project_by_ids

ARROW = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("person", pa.struct([("name", pa.string()), ("age", pa.int32()), ("tags", pa.list_(pa.string()))])),
        pa.field("orders", pa.list_(pa.struct([("sku", pa.string()), ("count", pa.int32())]))),
        pa.field("scores", pa.map_(pa.string(), pa.float32())),
    ],
    metadata={"k": "v"},
)
SCHEMA = schema_from_arrow(ARROW)


def test_projection_keeps_ids_order_and_metadata() -> None:
    chosen = SCHEMA.project(["scores", "id"])
    assert chosen.names == ["scores", "id"]
    assert chosen.fields == (SCHEMA.field("scores"), SCHEMA.field("id"))
    assert chosen.metadata == {"k": b"v"}


def test_projection_paths_prune_structs_and_lists_of_structs() -> None:
    chosen = SCHEMA.project(["person.age", "orders.item.sku", "person.name"])
    assert schema_to_arrow(chosen) == pa.schema(
        [
            ("person", pa.struct([("name", pa.string()), ("age", pa.int32())])),
            ("orders", pa.list_(pa.struct([("sku", pa.string())]))),
        ]
    )
    assert [leaf.id for leaf in chosen.leaves()] == [
        SCHEMA.field("person.name").id,
        SCHEMA.field("person.age").id,
        SCHEMA.field("orders.item.sku").id,
    ]


def test_projection_never_prunes_a_map() -> None:
    assert SCHEMA.project(["scores.entries.key"]).fields == (SCHEMA.field("scores"),)


def test_projection_refuses_unknown_names_with_suggestions() -> None:
    with pytest.raises(InvalidInputError, match=r"'persn' does not exist; did you mean 'person'"):
        SCHEMA.project(["persn"])
    with pytest.raises(InvalidInputError, match=r"person\.nam.*did you mean 'person\.name'"):
        SCHEMA.project(["person.nam"])
    with pytest.raises(InvalidInputError, match=r"known columns: \[.*\]$"):
        SCHEMA.project(["qqqqqq"])
    many = [f"column_{number}" for number in range(21)]
    assert suggestion("qqqqqq", many).endswith("'column_19'] (the first 20 of 21)")
    with pytest.raises(InvalidInputError, match="requested more than once"):
        SCHEMA.project(["id", "id"])


def test_projection_by_ids_keeps_ancestors() -> None:
    wanted = {SCHEMA.field("orders.item.count").id, SCHEMA.field("id").id}
    assert schema_to_arrow(project_by_ids(SCHEMA, wanted)).equals(
        pa.schema(
            [pa.field("id", pa.int64(), nullable=False), ("orders", pa.list_(pa.struct([("count", pa.int32())])))]
        )
    )
    assert project_by_ids(SCHEMA, set()).fields == ()


@pytest.mark.parametrize(
    "found",
    [
        ARROW,
        pa.schema(list(reversed(list(ARROW)))),
        pa.schema([("id", pa.int64())]),
        pa.schema(
            [
                ("id", pa.int64()),
                (
                    "orders",
                    pa.list_(pa.field("element", pa.struct([("sku", pa.string_view()), ("count", pa.int32())]))),
                ),
            ]
        ),
        pa.schema(
            [
                ("id", pa.int64()),
                ("person", pa.struct([("tags", pa.list_(pa.string())), ("name", pa.string())])),
                ("orders", pa.list_(pa.struct([("count", pa.int32())]))),
            ]
        ),
    ],
    ids=["same", "reordered", "nullable columns missing", "other item name and a view", "members"],
)
def test_compatible_data_may_be_appended(found: pa.Schema) -> None:
    check_compatible(SCHEMA, found)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (pa.schema([("scores", ARROW.field("scores").type)]), "'id' is missing from the data, but it is not nullable"),
        (pa.schema([("id", pa.int32())]), "'id': expected type int64, found int32"),
        (pa.schema([("id", pa.int64()), ("zz", pa.int8())]), "'zz' is not in the schema"),
        (pa.schema([("id", pa.int64()), ("id", pa.int64())]), "more than once"),
        (pa.schema([("id", pa.int64()), ("scores", pa.map_(pa.string(), pa.float64()))]), "'scores': expected type"),
        (
            pa.schema([("id", pa.int64()), ("person", pa.struct([("name", pa.string()), ("shoe", pa.int8())]))]),
            "'person': expected type",
        ),
    ],
)
def test_incompatible_data_is_refused_with_the_name_of_the_field(found: pa.Schema, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        check_compatible(SCHEMA, found)
