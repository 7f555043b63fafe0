"""Reads of dataset versions as DataFrames: rows, types, and tasks."""

from __future__ import annotations

import datetime
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError
from lance_pipelines.spark import reader
from lance_pipelines.spark.reader import read_version
from lance_pipelines.spark.types import spark_schema

pytestmark = pytest.mark.spark


def test_live_rows_of_every_fragment_are_read(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        lance.write_dataset(pa.table({"id": [2 * number, 2 * number + 1]}), uri, mode="append")
    lance.dataset(uri).delete("id = 3")
    dataset = lance_core.dataset(uri)
    assert read_version(spark, dataset).rdd.getNumPartitions() == 1
    monkeypatch.setattr(reader, "TASK_BYTES", 1)
    frame = read_version(spark, dataset)
    # The two fragments with two rows are divided.
    assert frame.rdd.getNumPartitions() == 5
    assert [row.id for row in frame.collect()] == [0, 1, 2, 4, 5]


def test_columns_and_filter_restrict_a_read(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(pa.table({"id": [1, 2, 3], "word": ["a", None, "c"], "more": [0, 0, 0]}), uri)
    frame = read_version(spark, lance_core.dataset(uri), columns=["word", "id"], filter="id > 1 AND word IS NOT NULL")
    assert frame.columns == ["word", "id"]
    assert [tuple(row) for row in frame.collect()] == [("c", 3)]


def test_later_commits_do_not_change_a_frame(spark: SparkSession, uri: str) -> None:
    frame = read_version(spark, lance_core.write_dataset(pa.table({"id": [1]}), uri))
    lance_core.write_dataset(pa.table({"id": [2]}), uri, mode="overwrite")
    assert [row.id for row in frame.collect()] == [1]


def test_dataset_without_rows_is_read_as_an_empty_frame(spark: SparkSession, uri: str) -> None:
    lance_core.write_dataset(pa.table({"id": pa.array([], pa.int32())}), uri)
    frame = read_version(spark, lance_core.dataset(uri))
    assert (frame.collect(), frame.dtypes) == ([], [("id", "int")])


def test_columns_are_converted_to_types_that_spark_supports(spark: SparkSession, uri: str) -> None:
    noon = datetime.datetime(2026, 1, 2, 12, 0, 0, 250)
    table = pa.table(
        {
            "u8": pa.array([200], pa.uint8()),
            "u32": pa.array([4_000_000_000], pa.uint32()),
            "u64": pa.array([2**64 - 1], pa.uint64()),
            "f16": pa.array([1.5], pa.float16()),
            "text": pa.array(["x"], pa.large_string()),
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "ns": pa.array([noon], pa.timestamp("ns")),
            "day": pa.array([noon.date()], pa.date64()),
            "nested": pa.array([{"a": [1], "b": None}], pa.struct({"a": pa.large_list(pa.uint8()), "b": pa.string()})),
            "amount": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            "code": pa.array([b"ab"], pa.binary(2)),
            "kind": pa.array(["k"]).dictionary_encode(),
        }
    )
    lance_core.write_dataset(table, uri)
    frame = read_version(spark, lance_core.dataset(uri))
    assert dict(frame.dtypes) == {
        "u8": "smallint",
        "u32": "bigint",
        "u64": "decimal(20,0)",
        "f16": "float",
        "text": "string",
        "vector": "array<float>",
        "ns": "timestamp_ntz",
        "day": "date",
        "nested": "struct<a:array<smallint>,b:string>",
        "amount": "decimal(10,2)",
        "code": "binary",
        "kind": "string",
    }
    (row,) = frame.collect()
    assert row.asDict(recursive=True) == {
        "u8": 200,
        "u32": 4_000_000_000,
        "u64": Decimal(2**64 - 1),
        "f16": 1.5,
        "text": "x",
        "vector": [1.0, 2.0],
        "ns": noon,
        "day": noon.date(),
        "nested": {"a": [1], "b": None},
        "amount": Decimal("1.50"),
        "code": bytearray(b"ab"),
        "kind": "k",
    }


def test_column_without_a_spark_type_is_named_in_the_error() -> None:
    inner = pa.struct({"span": pa.month_day_nano_interval()})
    with pytest.raises(NotSupportedError, match=r"column 'a.span': Spark has no type for month_day_nano_interval"):
        spark_schema(pa.schema({"a": inner}))


def test_unknown_column_is_rejected_before_spark_is_called(uri: str) -> None:
    dataset = lance_core.write_dataset(pa.table({"id": [1]}), uri)
    with pytest.raises(InvalidInputError, match="nope"):
        read_version(None, dataset, columns=["nope"])
