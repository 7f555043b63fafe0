"""Columns that replayed tables have: their types, and random values of them."""

from __future__ import annotations

import random
from typing import Final

import pyarrow as pa

__all__ = ["BLOB", "KEY", "NUMBERS", "TYPES", "draw_field", "is_blob", "random_column", "random_rows", "sql"]

KEY: Final = pa.field("k", pa.int64())
"""Tells rows apart: no two rows that were ever made have one key."""

TYPES: Final = {
    "whole": pa.int64(),
    "small": pa.int32(),
    "real": pa.float64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "bytes": pa.binary(),
    "list": pa.list_(pa.int64()),
    "vector": pa.list_(pa.float32(), 4),
    "struct": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "nested": pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
}
LEGACY: Final = ("whole", "small", "real", "text", "flag", "bytes")
"""What data files of version 0.1 hold without ado; they have no nulls of numbers, and empty bytes are null there."""

_KINDS: Final = {"0.1": LEGACY, "2.0": tuple(kind for kind in TYPES if kind != "struct")}
"""Which types tables of a version have; data files of version 2.0 have no null structs."""

NUMBERS: Final = (pa.int64(), pa.int32(), pa.float64())
BLOB: Final = {"lance-encoding:blob": "true"}


def is_blob(field: pa.Field) -> bool:
    return field.metadata is not None and b"lance-encoding:blob" in field.metadata


def draw_field(rng: random.Random, name: str, data_version: str) -> pa.Field:
    """Return a field of a random type."""
    return pa.field(name, TYPES[rng.choice(_KINDS.get(data_version, tuple(TYPES)))])


def random_column(rng: random.Random, field: pa.Field, count: int, data_version: str) -> pa.Array:
    """Return values for this many rows."""
    nulls = 0.0 if data_version == "0.1" or not field.nullable else rng.choice((0.0, 0.2, 0.2, 1.0))
    values = [None if rng.random() < nulls else _value(rng, field.type) for _ in range(count)]
    return pa.array(values, field.type)


def random_rows(rng: random.Random, schema: pa.Schema, keys: range, data_version: str) -> pa.Table:
    """Return new rows with these keys."""
    arrays = [
        pa.array(keys, pa.int64()) if field.name == KEY.name else random_column(rng, field, len(keys), data_version)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def sql(value: object) -> str:
    """Return a value of a flat column as SQL text."""
    return "'" + value + "'" if isinstance(value, str) else str(value)


def _value(rng: random.Random, dtype: pa.DataType) -> object:
    if pa.types.is_struct(dtype):
        return {member.name: _value(rng, member.type) for member in dtype}
    if pa.types.is_fixed_size_list(dtype):
        return [_value(rng, dtype.value_type) for _ in range(dtype.list_size)]
    if pa.types.is_list(dtype):
        return [_value(rng, dtype.value_type) for _ in range(rng.randrange(4))]
    if pa.types.is_floating(dtype):
        return rng.randrange(-400, 400) / 4
    if pa.types.is_boolean(dtype):
        return rng.random() < 0.5
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return rng.randbytes(rng.randrange(1, 12))
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return f"text {rng.randrange(30)}"
    return rng.randrange(-50, 50)
