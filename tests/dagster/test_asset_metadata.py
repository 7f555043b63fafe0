from __future__ import annotations

import pyarrow as pa

from lance_pipelines.events.asset_metadata import table_schema


def test_columns_show_type_nullability_and_comment() -> None:
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
