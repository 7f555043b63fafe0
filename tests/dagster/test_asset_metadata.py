"""The metadata that describes the columns of an asset."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa

from lance_pipelines.events.asset_metadata import table_schema


def test_table_schema_contains_type_nullability_and_comment_of_each_column() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"comment": "Größe"}),
            pa.field("v", pa.list_(pa.float32(), 3)),
        ]
    )
    columns = table_schema(schema).columns
    shown = [(column.name, column.type, column.constraints.nullable, column.description) for column in columns]
    assert shown == [
        ("id", "int64", False, "Größe"),
        ("v", "fixed_size_list<item: float>[3]", True, None),
    ]


def test_table_schema_with_many_columns_lists_only_part_of_the_columns_and_stays_small() -> None:
    columns = table_schema(pa.schema([pa.field(f"column {number}", pa.int64()) for number in range(10_000)]))
    assert len(columns.columns) == 500
    assert columns.constraints.other == ["9500 more columns"]
    assert len(dg.serialize_value(columns)) < 100_000


def test_long_type_name_is_truncated() -> None:
    wide = pa.struct([pa.field(f"member {number}", pa.int64()) for number in range(1_000)])
    (column,) = table_schema(pa.schema([pa.field("s", wide)])).columns
    assert column.type == str(wide)[:1_000] + "…"
