"""Maps types of Spark to the Arrow types that Lance stores, and stored types to types of Spark.

Spark passes each column to Python with a fixed Arrow type, its *natural* type, which is also what a new table stores.
A table may store other types. They are read as the closest Spark type, and the schema of
the DataFrame records the stored type in the metadata of the column. If such a column is written again, it is stored
with this type, so that a round trip through Spark changes nothing. Users can also set the metadata:

* ``arrow.fixed-size-list.size``: the length of the lists of a vector column. The Lance connector for Spark on the JVM
  uses the same key.
* ``lance:type``: any other stored type, as Arrow writes it, such as ``uint8`` or ``fixed_size_list<halffloat>[128]``.

A column whose values are computed has no metadata, and is stored with its natural type.

Source: Arrow conversion of PySpark 4.3 (``spark.sql.execution.arrow.useLargeVarTypes`` = false).
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as spark_types

from lance_core.errors import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FIXED_SIZE_KEY",
    "TYPE_KEY",
    "natural_field",
    "natural_schema",
    "same_type",
    "spark_schema",
    "spark_type",
    "stored_field",
]

FIXED_SIZE_KEY: Final = "arrow.fixed-size-list.size"
"""Metadata key of a Spark column: the length of the lists of a vector column."""

TYPE_KEY: Final = "lance:type"
"""Metadata key of a Spark column: the type with which the column is stored."""

NATURAL: Final[Mapping[type[spark_types.DataType], pa.DataType]] = MappingProxyType(
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
        spark_types.TimeType: pa.time64("ns"),
        spark_types.DayTimeIntervalType: pa.duration("us"),
        # The mark in the metadata is how Spark recognizes the struct.
        spark_types.VariantType: pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
            ]
        ),
    }
)
"""Maps each Spark type without parameters to its natural type (see the module docstring)."""

READ_AS: Final[Mapping[pa.DataType, spark_types.DataType]] = MappingProxyType(
    {
        pa.null(): spark_types.NullType(),
        pa.bool_(): spark_types.BooleanType(),
        pa.int8(): spark_types.ByteType(),
        pa.int16(): spark_types.ShortType(),
        pa.int32(): spark_types.IntegerType(),
        pa.int64(): spark_types.LongType(),
        pa.uint8(): spark_types.ShortType(),
        pa.uint16(): spark_types.IntegerType(),
        pa.uint32(): spark_types.LongType(),
        pa.uint64(): spark_types.DecimalType(20, 0),
        pa.float16(): spark_types.FloatType(),
        pa.float32(): spark_types.FloatType(),
        pa.float64(): spark_types.DoubleType(),
        pa.string(): spark_types.StringType(),
        pa.large_string(): spark_types.StringType(),
        pa.json_(): spark_types.StringType(),
        pa.binary(): spark_types.BinaryType(),
        pa.large_binary(): spark_types.BinaryType(),
        pa.date32(): spark_types.DateType(),
        pa.date64(): spark_types.DateType(),
        pa.time32("s"): spark_types.TimeType(),
        pa.time32("ms"): spark_types.TimeType(),
        pa.time64("us"): spark_types.TimeType(),
        pa.time64("ns"): spark_types.TimeType(),
        **{pa.duration(unit): spark_types.DayTimeIntervalType() for unit in ("s", "ms", "us", "ns")},
    }
)
"""Maps each stored type without parameters to the Spark type with which its values are read."""

_MOST_DIGITS: Final = 38
_BLOB_NAME: Final = "lance.blob.v2"
_JSON_TEXT: Final = "json"
_NESTED_TEXT: Final = re.compile(r"(fixed_size_list|large_list|list)<(.+)>(?:\[(\d+)\])?")
_TIMESTAMP_TEXT: Final = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([^\]]+))?\]")
_BYTES_TEXT: Final = re.compile(r"fixed_size_binary\[(\d+)\]")
_DECIMAL_TEXT: Final = re.compile(r"decimal256\((\d+), (\d+)\)")
_SIMPLE_TEXTS: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {_JSON_TEXT if found == pa.json_() else str(found): found for found in READ_AS}
    | {"float16": pa.float16(), "float": pa.float32(), "double": pa.float64()}
)


def spark_schema(schema: pa.Schema) -> spark_types.StructType:
    """Return the schema of the DataFrame that results from reading the columns of a table.

    Raises:
        NotSupportedError: Spark has no type for a column.
    """
    return spark_types.StructType([_spark_field(field, field.name) for field in schema])


def spark_type(data_type: pa.DataType, path: str) -> spark_types.DataType:
    """Return the Spark type that represents all values of a stored type.

    Args:
        data_type: the stored type.
        path: dotted path of the column, for the error message.

    Raises:
        NotSupportedError: Spark has no such type.
    """
    found = READ_AS.get(data_type)
    if found is not None:
        return found
    if pa.types.is_timestamp(data_type):
        return spark_types.TimestampNTZType() if data_type.tz is None else spark_types.TimestampType()
    if pa.types.is_fixed_size_binary(data_type) or getattr(data_type, "extension_name", None) == _BLOB_NAME:
        return spark_types.BinaryType()
    if pa.types.is_decimal(data_type) and data_type.precision <= _MOST_DIGITS and data_type.scale >= 0:
        return spark_types.DecimalType(data_type.precision, data_type.scale)
    if pa.types.is_dictionary(data_type):
        return spark_type(data_type.value_type, path)
    if pa.types.is_struct(data_type):
        return spark_types.StructType([_spark_field(child, f"{path}.{child.name}") for child in data_type])
    if pa.types.is_map(data_type):
        key = spark_type(data_type.key_type, f"{path}.key")
        return spark_types.MapType(key, spark_type(data_type.item_type, f"{path}.value"), data_type.item_field.nullable)
    if _is_list(data_type):
        item = data_type.value_field
        return spark_types.ArrayType(spark_type(item.type, f"{path}.item"), item.nullable)
    raise NotSupportedError(
        f"column {path!r}: Spark has no type for {data_type}; select other columns", column=path, found=str(data_type)
    )


def same_type(one: spark_types.DataType, other: spark_types.DataType) -> bool:
    """Return whether two types differ at most in nullability, metadata, and the length and collation of strings."""
    return _kind(one) == _kind(other)


def natural_schema(struct_type: spark_types.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches in which Spark passes the columns of a DataFrame.

    Raises:
        NotSupportedError: a column's type is not supported.
    """
    return pa.schema([natural_field(field, field.name) for field in struct_type.fields])


def natural_field(field: spark_types.StructField, path: str) -> pa.Field:
    """Return a column as Spark passes it. Its comment becomes field metadata.

    Raises:
        NotSupportedError: the type is not supported.
    """
    comment = field.metadata.get("comment")
    metadata = {"comment": comment} if isinstance(comment, str) else None
    return pa.field(field.name, _natural_type(field.dataType, path), field.nullable, metadata)


def stored_field(field: spark_types.StructField, path: str) -> pa.Field:
    """Return a column as a new table stores it: with the type that its metadata declares, or else the natural type.

    Raises:
        InvalidInputError: the metadata declares a type that is malformed, or that Spark reads as another type.
        NotSupportedError: the type is not supported.
    """
    natural = natural_field(field, path)
    return natural.with_type(_stored_type(field.dataType, natural.type, field.metadata, path))


def _natural_type(data_type: spark_types.DataType, path: str) -> pa.DataType:
    if isinstance(data_type, spark_types.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark_types.ArrayType):
        item = _natural_type(data_type.elementType, f"{path}.item")
        return pa.list_(pa.field("item", item, data_type.containsNull))
    if isinstance(data_type, spark_types.MapType):
        key = _natural_type(data_type.keyType, f"{path}.key")
        value = _natural_type(data_type.valueType, f"{path}.value")
        return pa.map_(key, pa.field("value", value, data_type.valueContainsNull))
    if isinstance(data_type, spark_types.StructType):
        return pa.struct([natural_field(child, f"{path}.{child.name}") for child in data_type.fields])
    arrow = NATURAL.get(type(data_type))
    if arrow is None:
        raise NotSupportedError(
            f"column {path!r}: Spark type {data_type.simpleString()} is not supported; convert it to another type in "
            "the query",
            column=path,
            found=data_type.simpleString(),
        )
    return arrow


def _stored_type(
    data_type: spark_types.DataType, natural: pa.DataType, metadata: Mapping[str, Any], path: str
) -> pa.DataType:
    if isinstance(data_type, spark_types.StructType):
        return pa.struct([stored_field(child, f"{path}.{child.name}") for child in data_type.fields])
    if isinstance(data_type, spark_types.ArrayType):
        item = _stored_type(data_type.elementType, natural.value_type, {}, f"{path}.item")
        natural = pa.list_(natural.value_field.with_type(item))
    elif isinstance(data_type, spark_types.MapType):
        item = _stored_type(data_type.valueType, natural.item_type, {}, f"{path}.value")
        natural = pa.map_(natural.key_type, natural.item_field.with_type(item))
    declared = _declared_type(natural, metadata, path)
    if declared is None:
        return natural
    if not same_type(spark_type(declared, path), data_type):
        raise InvalidInputError(
            f"column {path!r}: the metadata declares the type {declared}, which does not fit the Spark type "
            f"{data_type.simpleString()}",
            column=path,
            expected=str(declared),
            found=data_type.simpleString(),
        )
    return declared


def _declared_type(natural: pa.DataType, metadata: Mapping[str, Any], path: str) -> pa.DataType | None:
    if TYPE_KEY in metadata:
        found = _parse(str(metadata[TYPE_KEY]), natural)
        if found is None:
            raise InvalidInputError(
                f"column {path!r}: unknown type {metadata[TYPE_KEY]!r} in the metadata {TYPE_KEY!r}", column=path
            )
        return found
    if FIXED_SIZE_KEY in metadata:
        size = str(metadata[FIXED_SIZE_KEY])
        if not _is_list(natural):
            raise InvalidInputError(
                f"column {path!r}: the metadata {FIXED_SIZE_KEY!r} applies only to arrays, found {natural}", column=path
            )
        if not size.isascii() or not size.isdecimal() or not 0 < int(size) < 2**31:
            raise InvalidInputError(
                f"column {path!r}: the metadata {FIXED_SIZE_KEY!r} must be the length of the arrays, a whole number "
                f"from 1 to {2**31 - 1}, found {size!r}",
                column=path,
            )
        # A table does not record whether items may be null, so every item may.
        return pa.list_(natural.value_field.with_nullable(True), int(size))
    return None


def _parse(text: str, natural: pa.DataType) -> pa.DataType | None:
    """Return the type that a text describes, or None. ``struct`` and ``map`` stand for the column's own type."""
    if text in {"struct", "map"}:
        return natural
    if text in _SIMPLE_TEXTS:
        return _SIMPLE_TEXTS[text]
    if (match := _NESTED_TEXT.fullmatch(text)) is not None and _is_list(natural):
        kind, size = match[1], match[3]
        item = _parse(match[2], natural.value_type)
        if item is None or (kind == "fixed_size_list") != (size is not None):
            return None
        field = natural.value_field.with_type(item)
        return (pa.large_list if kind == "large_list" else pa.list_)(field, *([int(size)] if size else []))
    if (match := _TIMESTAMP_TEXT.fullmatch(text)) is not None:
        return pa.timestamp(match[1], match[2])
    if (match := _BYTES_TEXT.fullmatch(text)) is not None:
        return pa.binary(int(match[1]))
    if (match := _DECIMAL_TEXT.fullmatch(text)) is not None and 0 < int(match[1]) <= _MOST_DIGITS:
        return pa.decimal256(int(match[1]), int(match[2]))
    return None


def _text(data_type: pa.DataType) -> str:
    """Return the text that :func:`_parse` reads."""
    if _is_nested(data_type):
        return "struct" if pa.types.is_struct(data_type) else "map"
    if _is_list(data_type):
        item = _text(data_type.value_type)
        if pa.types.is_fixed_size_list(data_type):
            return f"fixed_size_list<{item}>[{data_type.list_size}]"
        return f"{'large_list' if pa.types.is_large_list(data_type) else 'list'}<{item}>"
    return _JSON_TEXT if data_type == pa.json_() else str(data_type)


def _spark_field(field: pa.Field, path: str) -> spark_types.StructField:
    stored = field.type
    if _is_variant(stored):
        found: spark_types.DataType = spark_types.VariantType()
    else:
        found = spark_type(stored, path)
    comment = (field.metadata or {}).get(b"comment")
    metadata: dict[str, Any] = {} if comment is None else {"comment": comment.decode("utf-8", "replace")}
    return spark_types.StructField(field.name, found, field.nullable, metadata | _recorded(stored, found, path))


def _recorded(stored: pa.DataType, found: spark_types.DataType, path: str) -> dict[str, Any]:
    """Return the metadata that records a stored type; none if it is the natural type, or cannot be recorded."""
    natural = _natural_type(found, path)
    leaf = _leaf_of_lists(stored)
    # Structs record the types of their members themselves.
    has_natural_leaf = _is_nested(leaf) or leaf.equals(_leaf_of_lists(natural))
    if has_natural_leaf and not _has_other_lists(stored):
        return {}
    if has_natural_leaf and pa.types.is_fixed_size_list(stored) and not _has_other_lists(stored.value_type):
        return {FIXED_SIZE_KEY: stored.list_size}
    text = _text(stored)
    return {} if _parse(text, natural) is None else {TYPE_KEY: text}


def _leaf_of_lists(data_type: pa.DataType) -> pa.DataType:
    while _is_list(data_type):
        data_type = data_type.value_type
    return data_type


def _has_other_lists(data_type: pa.DataType) -> bool:
    """Return whether a list, or a list in it, is not an ordinary list."""
    while _is_list(data_type):
        if not pa.types.is_list(data_type):
            return True
        data_type = data_type.value_type
    return False


def _kind(data_type: spark_types.DataType) -> str:
    """Return the text of a type. It is the same for all strings, regardless of length and collation."""
    texts = (spark_types.StringType, spark_types.CharType, spark_types.VarcharType)
    return "string" if isinstance(data_type, texts) else str(data_type.simpleString())


def _is_variant(data_type: pa.DataType) -> bool:
    if not pa.types.is_struct(data_type) or data_type.num_fields != 2:
        return False
    names = {data_type.field(0).name, data_type.field(1).name}
    if names != {"value", "metadata"}:
        return False
    return (data_type.field("metadata").metadata or {}).get(b"variant") == b"true"


def _is_nested(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(data_type) or pa.types.is_map(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type)
    )
