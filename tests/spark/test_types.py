"""Values of every type are written and read by Spark, or written by pylance and copied by Spark."""

from __future__ import annotations

import datetime
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_core.errors import LanceError, NotSupportedError, SchemaMismatchError
from lance_pipelines.spark import register, translated
from lance_pipelines.spark.types import NATURAL, READ_AS, natural_schema, same_type, spark_schema
from tests.support.sessions import read_lance

pytestmark = pytest.mark.spark

NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
UTC_NOON = NOON.replace(tzinfo=datetime.UTC)

# SQL expressions for every Spark type, with and without nulls; each becomes a column.
SPARK_COLUMNS = {
    "boolean": "id = 1",
    "byte": "CAST(id AS TINYINT)",
    "short": "CAST(id AS SMALLINT)",
    "integer": "CAST(id AS INT)",
    "long": "id",
    "single": "CAST(id / 3 AS FLOAT)",
    "double": "CAST(id AS DOUBLE) / 7",
    "decimal": "CAST(id AS DECIMAL(38, 10))",
    "text": "concat('row ', id)",
    "varying": "CAST(id AS VARCHAR(9))",
    "bytes": "CAST(concat('b', id) AS BINARY)",
    "day": "DATE '0001-01-01' + CAST(id AS INT)",
    "moment": "TIMESTAMP '2024-02-29 12:00:00.123456'",
    "wall": "TIMESTAMP_NTZ '1500-01-01 00:00:00.5'",
    "clock": "TIME '23:59:59.999999'",
    "gap": "INTERVAL '3 04:05:06.000007' DAY TO SECOND",
    "nothing": "NULL",
    "variant": "parse_json(concat('{\"a\": [', id, ', null]}'))",
    "words": "array('a', NULL, concat('x', id))",
    "pair": "struct(id AS x, array(id, NULL) AS y, struct(NULL AS z) AS inner)",
    "pairs": "map(id, struct(id AS v), id + 1, NULL)",
    "vector": "array(CAST(id AS FLOAT), 0.5f)",
}

# Values of every type that a table can store, for copies; None is added to each column.
STORED_VALUES = [
    (pa.bool_(), [True, False]),
    *((data_type, [0, 100]) for data_type in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    (pa.uint8(), [0, 255]),
    (pa.uint16(), [0, 65535]),
    (pa.uint32(), [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**64 - 1]),
    (pa.float16(), [0.5, float("inf")]),
    (pa.float32(), [0.5, -1.25]),
    (pa.float64(), [0.1, -1e300]),
    (pa.string(), ["", "ä"]),
    (pa.large_string(), ["", "ä"]),
    (pa.binary(), [b"", b"\x00"]),
    (pa.large_binary(), [b"", b"\x00"]),
    (pa.binary(3), [b"abc", b"\x00\x01\x02"]),
    (pa.date32(), [NOON.date(), datetime.date(1, 1, 1)]),
    (pa.date64(), [NOON.date(), datetime.date(1970, 1, 1)]),
    (pa.time32("s"), [datetime.time(1, 2, 3), datetime.time(0)]),
    (pa.time32("ms"), [datetime.time(1, 2, 3, 4000), datetime.time(0)]),
    (pa.time64("us"), [datetime.time(1, 2, 3, 4), datetime.time(0)]),
    (pa.time64("ns"), [datetime.time(1, 2, 3, 4), datetime.time(0)]),
    *((pa.timestamp(unit), [NOON.replace(microsecond=0), datetime.datetime(1970, 1, 1)]) for unit in ("s", "ms")),
    (pa.timestamp("us"), [NOON, datetime.datetime(1500, 1, 1)]),
    (pa.timestamp("ns"), [NOON, datetime.datetime(1970, 1, 1)]),
    (pa.timestamp("us", "UTC"), [UTC_NOON, UTC_NOON]),
    (pa.timestamp("ns", "Asia/Tokyo"), [UTC_NOON, UTC_NOON]),
    *((pa.duration(unit), [datetime.timedelta(days=1), datetime.timedelta(0)]) for unit in ("s", "ms", "us", "ns")),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99999999.99")]),
    (pa.decimal256(38, 3), [Decimal("1.500"), Decimal("-1.000")]),
    (pa.list_(pa.uint8()), [[1, None], []]),
    (pa.large_list(pa.string()), [["a", None], []]),
    (pa.list_(pa.float32(), 2), [[1.0, 2.0], [0.5, -0.5]]),
    (pa.list_(pa.float16(), 2), [[1.0, 2.0], [0.5, -0.5]]),
    (pa.list_(pa.list_(pa.int8(), 2)), [[[1, 2], [3, 4]], []]),
    (pa.struct({"a": pa.uint8(), "v": pa.list_(pa.float64(), 1)}), [{"a": 255, "v": [0.5]}, {"a": None, "v": None}]),
    (pa.list_(pa.struct({"a": pa.uint16()})), [[{"a": 1}, None], []]),
]


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)
    spark.conf.set("spark.sql.timeType.enabled", "true")


def test_every_spark_type_is_written_and_read_back(spark: SparkSession, uri: str) -> None:
    with_nulls = {f"{name}_or_null": f"IF(id = 1, NULL, {sql})" for name, sql in SPARK_COLUMNS.items()}
    expressions = [f"{sql} AS {name}" for name, sql in {**SPARK_COLUMNS, **with_nulls}.items()]
    frame = spark.range(0, 3, 1, 1).selectExpr("id AS row", *expressions)
    frame = frame.withMetadata("vector_or_null", {"arrow.fixed-size-list.size": 2})
    frame.write.format("lance").option("vectorColumns", "vector:2").mode("append").save(uri)
    found = read_lance(spark, uri)
    assert found.dtypes == [(name, kind.replace("varchar(9)", "string")) for name, kind in frame.dtypes]
    assert [field.nullable for field in found.schema.fields] == [field.nullable for field in frame.schema.fields]
    # A null variant has no text.
    as_text = [f"to_json({name}) AS {name}" if "variant" in name else name for name in frame.columns]
    assert found.selectExpr(*as_text).orderBy("row").collect() == frame.selectExpr(*as_text).orderBy("row").collect()
    assert {type(field.dataType) for field in frame.schema.fields} >= {*NATURAL} - {*_TEXTS}
    assert (
        lance.dataset(uri).to_table(columns=["long", "vector", "pair"]).to_pylist()
        == lance_core.dataset(uri).to_table(columns=["long", "vector", "pair"]).to_pylist()
    )
    again = f"{uri}_again"
    found.write.format("lance").mode("append").save(again)
    assert lance_core.dataset(again).schema == lance_core.dataset(uri).schema


def test_every_stored_type_survives_a_copy_by_spark(spark: SparkSession, uri: str) -> None:
    columns = {f"c{index}": pa.array([*values, None], kind) for index, (kind, values) in enumerate(STORED_VALUES)}
    table = pa.table({"id": pa.array([0, 1, 2]), **columns})
    lance.write_dataset(table, uri)
    assert {kind for kind, _ in STORED_VALUES} >= {*READ_AS} - {pa.null(), pa.json_()}
    read_lance(spark, uri).coalesce(1).write.format("lance").mode("append").save(f"{uri}_copy")
    stored = lance.dataset(uri).to_table()
    copy = lance.dataset(f"{uri}_copy").to_table().sort_by("id")
    assert copy.schema == stored.schema
    assert copy.to_pylist() == stored.to_pylist()
    # Rows that Spark has read can also be appended to the table.
    read_lance(spark, uri).write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).count_rows() == 6


def test_json_and_dictionaries_are_read_as_text(spark: SparkSession, uri: str) -> None:
    table = pa.table({"j": pa.array(['{"a":1}', None], pa.json_()), "d": pa.array(["x", None]).dictionary_encode()})
    lance_core.write_dataset(table, uri)
    assert {tuple(row) for row in read_lance(spark, uri).collect()} == {(None, None), ('{"a":1}', "x")}
    read_lance(spark, uri).write.format("lance").mode("append").save(f"{uri}_copy")
    assert lance_core.dataset(f"{uri}_copy").schema.field("j").type == pa.json_()


@pytest.mark.parametrize(
    ("data_type", "path"),
    [
        (pa.decimal256(50, 2), "c"),
        (pa.month_day_nano_interval(), "c"),
        (pa.list_(pa.struct({"x": pa.decimal256(39, 0)})), "c.item.x"),
        (pa.map_(pa.string(), pa.decimal256(60, 0)), "c.value"),
    ],
    ids=str,
)
def test_a_stored_type_that_spark_cannot_represent_is_refused(data_type: pa.DataType, path: str) -> None:
    with pytest.raises(NotSupportedError, match=f"column '{path}': Spark has no type for"):
        spark_schema(pa.schema({"c": data_type}))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (pa.array([1], pa.timestamp("ns")), "column 'c': timestamp.*ns.* cannot be converted to timestamp.*us"),
        (pa.array([1], pa.duration("ns")), "column 'c': duration.*ns.* cannot be converted to duration.*us"),
    ],
    ids=["timestamp", "duration"],
)
def test_a_value_that_spark_cannot_represent_is_refused(
    spark: SparkSession, uri: str, stored: pa.Array, message: str
) -> None:
    lance_core.write_dataset(pa.table({"c": stored}), uri)
    with pytest.raises(SchemaMismatchError, match=message), translated("cannot read"):
        read_lance(spark, uri).collect()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "metadata", "message"),
    [
        ("CAST(300 AS SMALLINT)", {"lance:type": "uint8"}, "column 'c': int16 cannot be converted to uint8"),
        (
            "array(1f, 2f, 3f)",
            {"arrow.fixed-size-list.size": 2},
            "column 'c': row 0 has a list of length 3, expected 2",
        ),
    ],
)
def test_a_value_that_the_declared_type_cannot_store_is_refused(
    spark: SparkSession, uri: str, sql: str, metadata: dict[str, object], message: str
) -> None:
    frame = spark.range(1).selectExpr(f"{sql} AS c").withMetadata("c", metadata)
    with pytest.raises(LanceError, match=message), translated("cannot write"):
        frame.write.format("lance").mode("append").save(uri)


def test_the_default_arrow_types_of_spark_types_convert_back_to_the_same_spark_types() -> None:
    for kind, _ in STORED_VALUES:
        struct_type = spark_schema(pa.schema({"c": kind}))
        natural = natural_schema(struct_type)
        assert same_type(spark_schema(natural)["c"].dataType, struct_type["c"].dataType)


_TEXTS = {kind for kind, natural in NATURAL.items() if natural == pa.string()}
