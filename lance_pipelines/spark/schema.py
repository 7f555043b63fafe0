"""Converts Spark types to the Arrow schema that is written.

Spark passes each column to Python with an Arrow type, which is written unchanged, with two exceptions: a declared
*vector column* (an array of numbers) becomes a fixed-size list, and an append uses the dataset's types.

=====================  =================  ==================================================================
Spark                  Arrow              note
=====================  =================  ==================================================================
boolean, byte … long   bool, int8 … 64
float, double          float32, float64
decimal(p, s)          decimal128(p, s)
string, char, varchar  string
binary                 binary
date                   date32
timestamp              timestamp[us, UTC]  an instant; the session's time zone is dropped
timestamp_ntz          timestamp[us]
time                   time64[ns]
interval day to second duration[us]
array<T>               list<item: T>      or fixed_size_list<item: T>[n] for a vector column
struct, map            struct, map
void                   null
variant, geometry, geography, intervals of months, user-defined types: not supported
=====================  =================  ==================================================================

Source: Arrow conversion of PySpark 4.3 (``spark.sql.execution.arrow.useLargeVarTypes`` = false).
"""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as spark_types

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.metadata import check_storable
from lance_pipelines.ingest.fitting import fit_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["arrow_schema", "plan_target_schema"]

_SIMPLE_TYPES: Final[Mapping[type[spark_types.DataType], pa.DataType]] = MappingProxyType(
    {
        spark_types.NullType: pa.null(),
        spark_types.BooleanType: pa.bool_(),
        spark_types.ByteType: pa.int8(),
        spark_types.ShortType: pa.int16(),
        spark_types.IntegerType: pa.int32(),
        spark_types.LongType: pa.int64(),
        spark_types.FloatType: pa.float32(),
        spark_types.DoubleType: pa.float64(),
        spark_types.StringType: pa.string(),
        spark_types.CharType: pa.string(),
        spark_types.VarcharType: pa.string(),
        spark_types.BinaryType: pa.binary(),
        spark_types.DateType: pa.date32(),
        spark_types.TimestampType: pa.timestamp("us", "UTC"),
        spark_types.TimestampNTZType: pa.timestamp("us"),
        spark_types.DayTimeIntervalType: pa.duration("us"),
        # TimeType exists since Spark 4.1.
        **({spark_types.TimeType: pa.time64("ns")} if hasattr(spark_types, "TimeType") else {}),
    }
)
_VECTOR_ITEMS: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()})


def plan_target_schema(
    struct_type: spark_types.StructType, vector_columns: Mapping[str, int], existing: pa.Schema | None
) -> pa.Schema:
    """Return the Arrow schema with which a DataFrame is written.

    Args:
        struct_type: the DataFrame's schema.
        vector_columns: maps each vector column to the length of its lists, at least 1.
        existing: the dataset's schema if rows are added to it; None for a new dataset or an overwrite.

    Returns:
        If ``existing`` is None, the DataFrame's columns in their order; otherwise, the dataset's schema, unchanged.

    Raises:
        InvalidInputError: the DataFrame has no columns, a repeated name, or an invalid name, or a vector column is not
            an array of numbers.
        NotSupportedError: a column's type is not supported.
        SchemaMismatchError: the DataFrame does not fit the dataset.
    """
    found = _with_vectors(arrow_schema(struct_type), vector_columns)
    if existing is None:
        # Rejects types that a dataset cannot store, before any row is read.
        check_storable(found)
        return found
    return fit_schema(found, existing)


def arrow_schema(struct_type: spark_types.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches that Spark creates from a DataFrame.

    Column comments become field metadata.

    Raises:
        InvalidInputError: there are no columns, a name is repeated, or Spark cannot address a name.
        NotSupportedError: a column's type is not supported.
    """
    repeated = [name for name, times in Counter(struct_type.names).items() if times > 1]
    if repeated:
        raise InvalidInputError(f"the source has more than one column named {repeated[0]!r}", column=repeated[0])
    if not struct_type.fields:
        raise InvalidInputError("the source has no columns")
    quoted = [name for name in struct_type.names if "`" in name]
    if quoted:
        raise InvalidInputError(
            f"column {quoted[0]!r}: Spark cannot address a name with a backtick; rename the column in the source",
            column=quoted[0],
        )
    return pa.schema([_arrow_field(field, field.name) for field in struct_type.fields])


def _with_vectors(schema: pa.Schema, vector_columns: Mapping[str, int]) -> pa.Schema:
    for name, length in vector_columns.items():
        index = schema.get_field_index(name)
        if index < 0:
            close = get_close_matches(name, schema.names, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f", which has {', '.join(schema.names)}"
            raise InvalidInputError(f"vector column {name!r} is not in the source{hint}", column=name)
        field = schema.field(index)
        if not pa.types.is_list(field.type) or field.type.value_type not in _VECTOR_ITEMS:
            raise InvalidInputError(
                f"vector column {name!r} must be an array of numbers, found {field.type}",
                column=name,
                found=str(field.type),
            )
        # A dataset does not record whether items may be null, so every item may.
        schema = schema.set(index, field.with_type(pa.list_(field.type.value_type, length)))
    return schema


def _arrow_field(field: spark_types.StructField, path: str) -> pa.Field:
    comment = field.metadata.get("comment")
    metadata = {"comment": comment} if isinstance(comment, str) else None
    return pa.field(field.name, _arrow_type(field.dataType, path), field.nullable, metadata)


def _arrow_type(data_type: spark_types.DataType, path: str) -> pa.DataType:
    if isinstance(data_type, spark_types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark_types.ArrayType):
        item = _arrow_type(data_type.elementType, f"{path}.item")
        return pa.list_(pa.field("item", item, data_type.containsNull))
    if isinstance(data_type, spark_types.MapType):
        key = _arrow_type(data_type.keyType, f"{path}.key")
        value = _arrow_type(data_type.valueType, f"{path}.value")
        return pa.map_(key, pa.field("value", value, data_type.valueContainsNull))
    if isinstance(data_type, spark_types.StructType):
        return pa.struct([_arrow_field(child, f"{path}.{child.name}") for child in data_type.fields])
    arrow = _SIMPLE_TYPES.get(type(data_type))
    if arrow is None:
        raise NotSupportedError(
            f"column {path!r}: Spark type {data_type.simpleString()} is not supported; convert it to another type in "
            "the source's query",
            column=path,
            found=data_type.simpleString(),
        )
    return arrow
