"""WriteConfig: how many bytes a column collects before a page is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError
from lance_core.file.write_config import DEFAULT_DATA_CACHE_BYTES, WriteConfig
from lance_core.schema.convert import schema_from_arrow
from lance_core.schema.field import Schema

MIB = 1024 * 1024


def _schema(num_columns: int) -> Schema:
    return schema_from_arrow(pa.schema([(f"c{index}", pa.int64()) for index in range(num_columns)]))


@pytest.mark.parametrize(
    ("config", "num_columns", "expected"),
    [
        (WriteConfig(), 1, DEFAULT_DATA_CACHE_BYTES),
        (WriteConfig(), 24, DEFAULT_DATA_CACHE_BYTES),
        (WriteConfig(), 48, 4 * MIB),
        (WriteConfig(), 0, 0),
        (WriteConfig(data_cache_bytes=1000), 4, 250),
        (WriteConfig(data_cache_bytes=0), 4, 0),
        (WriteConfig(data_cache_bytes=480 * MIB), 48, 10 * MIB),
        (WriteConfig(max_bytes_per_file=1000), 4, 250),
    ],
)
def test_column_cache_is_divided_among_the_columns(config: WriteConfig, num_columns: int, expected: int) -> None:
    assert config.column_cache_bytes(_schema(num_columns)) == expected


def test_default_column_cache_is_divided_among_the_leaves() -> None:
    members = pa.struct([(f"m{index}", pa.int64()) for index in range(96)])
    assert WriteConfig().column_cache_bytes(schema_from_arrow(pa.schema([("s", members)]))) == 2 * MIB


@pytest.mark.parametrize("name", ["max_rows_per_file", "max_bytes_per_file", "max_rows_per_group", "max_page_bytes"])
def test_write_config_with_a_size_of_zero_raises_invalid_input(name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        WriteConfig(**{name: 0})
