"""Conversion of Spark types to Arrow, vector columns, and compatibility of a frame with a dataset."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812  # PySpark's own convention

from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_pipelines.ingest.fitting import is_lossless
from lance_pipelines.spark.schema import plan_target_schema


def struct(**columns: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, data_type) for name, data_type in columns.items()])


@pytest.mark.parametrize(
    ("spark_type", "arrow_type"),
    [
        (T.BooleanType(), pa.bool_()),
        (T.ByteType(), pa.int8()),
        (T.ShortType(), pa.int16()),
        (T.IntegerType(), pa.int32()),
        (T.LongType(), pa.int64()),
        (T.FloatType(), pa.float32()),
        (T.DoubleType(), pa.float64()),
        (T.DecimalType(20, 4), pa.decimal128(20, 4)),
        (T.StringType(), pa.string()),
        (T.StringType("UNICODE"), pa.string()),
        (T.VarcharType(9), pa.string()),
        (T.BinaryType(), pa.binary()),
        (T.DateType(), pa.date32()),
        (T.TimestampType(), pa.timestamp("us", "UTC")),
        (T.TimestampNTZType(), pa.timestamp("us")),
        (T.TimeType(), pa.time64("ns")),
        (T.DayTimeIntervalType(), pa.duration("us")),
        (T.NullType(), pa.null()),
        (T.ArrayType(T.IntegerType()), pa.list_(pa.int32())),
        (T.ArrayType(T.IntegerType(), containsNull=False), pa.list_(pa.field("item", pa.int32(), nullable=False))),
        (T.MapType(T.StringType(), T.DoubleType()), pa.map_(pa.string(), pa.float64())),
        (
            struct(a=T.LongType(), b=T.ArrayType(T.StringType())),
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
        ),
    ],
    ids=str,
)
def test_a_spark_type_is_converted_to_its_arrow_type(spark_type: T.DataType, arrow_type: pa.DataType) -> None:
    target = plan_target_schema(struct(c=spark_type), {}, None)
    assert target.field("c").type == arrow_type
    assert target.field("c").nullable


def test_column_names_nullability_and_comments_are_kept() -> None:
    frame = T.StructType([T.StructField("id", T.LongType(), False, {"comment": "row number", "other": 1})])
    (field,) = plan_target_schema(frame, {}, None)
    assert (field.name, field.nullable, field.metadata) == ("id", False, {b"comment": b"row number"})


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"c": T.CalendarIntervalType()}, "'c'.*interval"),
        ({"y": T.YearMonthIntervalType()}, "'y'.*interval year to month"),
        ({"s": struct(inner=T.ArrayType(T.CalendarIntervalType()))}, "'s.inner.item'.*interval"),
        ({"m": T.MapType(T.StringType(), T.YearMonthIntervalType())}, "'m.value'.*interval year to month"),
    ],
)
def test_types_that_cannot_be_stored_are_refused_with_column_and_type(
    columns: dict[str, T.DataType], named: str
) -> None:
    with pytest.raises(NotSupportedError, match=named):
        plan_target_schema(struct(**columns), {}, None)


def test_duplicate_column_names_and_empty_schemas_are_refused() -> None:
    twice = T.StructType([T.StructField("a", T.LongType()), T.StructField("a", T.StringType())])
    with pytest.raises(InvalidInputError, match="more than one column named 'a'"):
        plan_target_schema(twice, {}, None)
    with pytest.raises(InvalidInputError, match="no columns"):
        plan_target_schema(T.StructType([]), {}, None)
    with pytest.raises(InvalidInputError, match=r"'a\.b'"):
        plan_target_schema(struct(**{"a.b": T.LongType()}), {}, None)


@pytest.mark.parametrize("item", [T.FloatType(), T.DoubleType(), T.IntegerType(), T.ByteType()], ids=str)
def test_vector_columns_become_fixed_size_lists(item: T.DataType) -> None:
    target = plan_target_schema(struct(id=T.LongType(), v=T.ArrayType(item, containsNull=False)), {"v": 3}, None)
    plain = plan_target_schema(struct(v=item), {}, None).field("v").type
    assert target.field("v").type == pa.list_(plain, 3)


@pytest.mark.parametrize("item", [T.StringType(), T.ArrayType(T.FloatType())], ids=str)
def test_a_vector_column_that_is_not_numeric_is_refused(item: T.DataType) -> None:
    with pytest.raises(InvalidInputError, match="'v' must be an array of integers or floating-point numbers"):
        plan_target_schema(struct(v=T.ArrayType(item)), {"v": 3}, None)
    with pytest.raises(
        InvalidInputError, match="'v' must be an array of integers or floating-point numbers, found double"
    ):
        plan_target_schema(struct(v=T.DoubleType()), {"v": 3}, None)


def test_an_unknown_vector_column_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidInputError, match="'vectr' is not in the source; did you mean 'vector'"):
        plan_target_schema(struct(vector=T.ArrayType(T.FloatType())), {"vectr": 3}, None)


EXISTING = pa.schema(
    [
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("s", pa.struct({"x": pa.int32(), "y": pa.string()})),
    ],
    metadata={"owner": "somebody"},
)


def frame_for_existing(**changes: T.DataType) -> T.StructType:
    columns = {
        "id": T.IntegerType(),
        "s": struct(y=T.StringType(), x=T.ShortType()),
        "v": T.ArrayType(T.FloatType()),
    }
    return struct(**{**columns, **changes})


def test_an_append_uses_the_column_order_and_types_of_the_dataset() -> None:
    assert plan_target_schema(frame_for_existing(), {}, EXISTING).equals(EXISTING, check_metadata=True)
    assert plan_target_schema(frame_for_existing(), {"v": 4}, EXISTING).equals(EXISTING)


@pytest.mark.parametrize(
    ("frame", "vectors", "named"),
    [
        (struct(id=T.LongType()), {}, "'v' of the dataset is not in the source"),
        (frame_for_existing(more=T.LongType()), {}, "'more' of the source is not in the dataset"),
        (
            frame_for_existing(id=T.StringType()),
            {},
            "'id' has type string in the source, but type int64 in the dataset",
        ),
        (
            frame_for_existing(id=T.DoubleType()),
            {},
            "'id' has type double in the source, but type int64 in the dataset",
        ),
        (frame_for_existing(v=T.ArrayType(T.DoubleType())), {}, "'v' has type .* but type fixed_size_list"),
        (frame_for_existing(), {"v": 5}, r"'v' has type .*\[5\] in the source, but type .*\[4\] in the dataset"),
        (frame_for_existing(s=struct(x=T.IntegerType())), {}, "'s' has type .* but type struct"),
        (frame_for_existing(ID=T.LongType()), {}, "'ID' of the source is not in the dataset"),
    ],
)
def test_a_column_that_does_not_fit_the_dataset_is_named_in_the_error(
    frame: T.StructType, vectors: dict[str, int], named: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=named):
        plan_target_schema(frame, vectors, EXISTING)


@pytest.mark.parametrize(
    ("found", "expected", "kept"),
    [
        (pa.int8(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), pa.uint64(), False),
        (pa.int32(), pa.float64(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), True),
        (pa.decimal128(10, 2), pa.decimal128(12, 3), False),
        (pa.string(), pa.large_string(), True),
        (pa.large_string(), pa.string(), True),
        (pa.string(), pa.binary(), False),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"), True),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), False),
        (pa.timestamp("us"), pa.timestamp("ns"), False),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), True),
        (pa.list_(pa.float32()), pa.list_(pa.float16(), 2), False),
        (pa.list_(pa.float32(), 2), pa.list_(pa.float32()), False),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), True),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), False),
        (pa.struct({"a": pa.int32()}), pa.int32(), False),
    ],
    ids=str,
)
def test_only_lossless_widening_is_accepted(found: pa.DataType, expected: pa.DataType, kept: bool) -> None:
    assert is_lossless(found, expected) is kept


@pytest.mark.parametrize(
    ("spark_type", "metadata", "stored"),
    [
        (T.ArrayType(T.FloatType()), {"arrow.fixed-size-list.size": 3}, pa.list_(pa.float32(), 3)),
        (T.ArrayType(T.FloatType()), {"lance:type": "fixed_size_list<halffloat>[3]"}, pa.list_(pa.float16(), 3)),
        (T.ShortType(), {"lance:type": "uint8"}, pa.uint8()),
        (T.DecimalType(20, 0), {"lance:type": "uint64"}, pa.uint64()),
        (T.TimestampType(), {"lance:type": "timestamp[ns, tz=Asia/Tokyo]"}, pa.timestamp("ns", "Asia/Tokyo")),
        (T.BinaryType(), {"lance:type": "fixed_size_binary[16]"}, pa.binary(16)),
        (T.StringType(), {"lance:type": "json"}, pa.json_()),
        (T.DecimalType(10, 2), {"lance:type": "decimal256(10, 2)"}, pa.decimal256(10, 2)),
        (T.VarcharType(8), {"lance:type": "large_string"}, pa.large_string()),
    ],
    ids=str,
)
def test_column_metadata_declares_the_stored_type(
    spark_type: T.DataType, metadata: dict[str, object], stored: pa.DataType
) -> None:
    frame = T.StructType([T.StructField("c", spark_type, True, metadata)])
    assert plan_target_schema(frame, {}, None).field("c").type == stored


@pytest.mark.parametrize(
    ("spark_type", "metadata", "message"),
    [
        (T.LongType(), {"lance:type": "uint8"}, "declares the type uint8, which does not fit the Spark type bigint"),
        (T.ShortType(), {"lance:type": "byte"}, "unknown type 'byte'"),
        (
            T.ArrayType(T.FloatType()),
            {"arrow.fixed-size-list.size": 0},
            "'arrow.fixed-size-list.size' must be .*, found '0'",
        ),
        (T.FloatType(), {"arrow.fixed-size-list.size": 4}, "applies only to arrays, found"),
        (T.DecimalType(10, 2), {"lance:type": "decimal256(12, 2)"}, r"does not fit the Spark type decimal\(10,2\)"),
    ],
)
def test_column_metadata_that_does_not_fit_the_column_is_refused(
    spark_type: T.DataType, metadata: dict[str, object], message: str
) -> None:
    frame = T.StructType([T.StructField("c", spark_type, True, metadata)])
    with pytest.raises(InvalidInputError, match=f"column 'c': .*{message}"):
        plan_target_schema(frame, {}, None)


def test_a_column_is_accepted_if_spark_reads_the_type_of_the_dataset_as_the_type_of_the_column() -> None:
    existing = pa.schema({"a": pa.uint8(), "v": pa.list_(pa.float16(), 4), "j": pa.json_()})
    frame = struct(a=T.ShortType(), v=T.ArrayType(T.FloatType()), j=T.StringType())
    assert plan_target_schema(frame, {}, existing) == existing
    with pytest.raises(SchemaMismatchError, match="'a' has type int32 in the source, but type uint8 in the dataset"):
        plan_target_schema(struct(a=T.IntegerType(), v=frame["v"].dataType, j=T.StringType()), {}, existing)
