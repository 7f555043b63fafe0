"""Filters that Spark pushes down to a table select the same rows as in Spark, and reduce what is read."""

from __future__ import annotations

import datetime
import re
import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import datasource as D  # noqa: N812  # short, like PySpark's F and T

import lance_core
from lance_pipelines.spark import register
from lance_pipelines.spark.data_source.location import Location
from lance_pipelines.spark.data_source.pushdown import to_sql
from lance_pipelines.spark.data_source.reader import LanceReader, read_schema
from tests.support.sessions import read_lance

pytestmark = pytest.mark.spark

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
DAY = datetime.datetime(2024, 1, 1, 12, 0, 0, 5)
TABLE = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "tiny": pa.array([1, 2, None, -5, 127, 0], pa.int8()),
        "real": pa.array([float("nan"), NEGATIVE_NAN, -0.0, 0.0, 1.5, None]),
        "single": pa.array([0.1, 1.5, None, -1.0, float("inf"), float("nan")], pa.float32()),
        "Word": ["it's", "b%", None, "B%x", "", "ab%"],
        "day": pa.array([DAY.date(), datetime.date(1500, 1, 1), None, *[datetime.date(2024, 1, 2)] * 3], pa.date32()),
        "wall": pa.array([DAY, datetime.datetime(1500, 1, 1), None, DAY, DAY, DAY], pa.timestamp("us")),
        "moment": pa.array([DAY, datetime.datetime(1500, 1, 1), None, DAY, DAY, DAY], pa.timestamp("us", "UTC")),
        "nanos": pa.array([DAY, datetime.datetime(1970, 1, 1), None, DAY, DAY, DAY], pa.timestamp("ns")),
        "money": pa.array([Decimal(n) for n in ("1.50", "-2.00", "0", "3", "4", "5")], pa.decimal128(10, 2)),
        "flag": pa.array([True, False, None, True, False, None]),
        "pair": pa.array([{"x": 1}, None, {"x": None}, {"x": 4}, {"x": 5}, {"x": 6}]),
        "small": pa.array([1, 2, None, 200, 5, 6], pa.uint8()),
    }
)

# Condition -> whether the reader evaluates the entire condition.
CONDITIONS = {
    "tiny = 1": True,
    "tiny <=> NULL": True,
    "NOT (tiny <=> 1)": True,
    "tiny <> 1": True,
    "tiny IN (1, 2)": True,
    "tiny NOT IN (1, -5)": True,
    "real > 1.0": True,
    "real >= 1.5": True,
    "real < 1.5": True,
    "NOT (real < 1.5)": True,
    "real = 0": False,
    "real > 0": False,
    "real = double('NaN')": False,
    "real <= double('NaN')": False,
    "real IN (1.5, 2.5)": True,
    "single = float('0.1')": True,
    "single > float('1.0')": True,
    "single < float('inf')": False,
    "word = 'it''s'": True,
    "Word > 'B'": True,
    "word LIKE 'b%'": True,
    "startswith(word, 'b%')": True,
    "contains(word, 'b%')": True,
    "word LIKE '_%'": False,
    "NOT (word LIKE '%x')": True,
    "word IS NULL": True,
    "day >= DATE '2024-01-01'": True,
    "day = DATE '1500-01-01'": True,
    "wall = TIMESTAMP_NTZ '2024-01-01 12:00:00.000005'": True,
    "wall < TIMESTAMP_NTZ '1900-01-01 00:00:00'": True,
    "moment = TIMESTAMP '2024-01-01 12:00:00.000005 UTC'": True,
    "moment < TIMESTAMP '1900-01-01 00:00:00 UTC'": True,
    "nanos = TIMESTAMP_NTZ '2024-01-01 12:00:00.000005'": False,
    "money > 1.50": True,
    "money = 1.5": True,
    "money IN (3, 4.00)": True,
    "flag": True,
    "NOT flag": True,
    "pair.x >= 4": True,
    "pair IS NULL": True,
    "small = 200": False,
    "tiny = 1 OR id = 3": False,
}


@pytest.mark.parametrize("conditions", [list(CONDITIONS)[::6], pytest.param(list(CONDITIONS), marks=pytest.mark.slow)])
def test_pushed_filters_select_the_rows_that_spark_selects(
    spark: SparkSession, uri: str, conditions: list[str]
) -> None:
    lance_core.write_dataset(TABLE, uri)
    register(spark)
    frame = read_lance(spark, uri)
    evaluated = frame.selectExpr("id", *(f"({condition})" for condition in conditions)).collect()
    for index, condition in enumerate(conditions):
        is_pushed = CONDITIONS[condition]
        filtered = frame.filter(condition)
        assert sorted(row.id for row in filtered.collect()) == [row[0] for row in evaluated if row[index + 1]], (
            condition
        )
        plan = filtered._jdf.queryExecution().executedPlan().toString()
        assert (re.search(r"\bFilter\b", plan) is None) == is_pushed, (condition, plan)


@pytest.mark.parametrize(
    ("condition", "sql"),
    [
        (D.EqualTo(("tiny",), 300), None),
        (D.EqualTo(("tiny",), True), None),
        (D.EqualTo(("tiny",), None), None),
        (D.EqualTo(("flag",), 1), None),
        (D.In(("tiny",), (1, None)), "`tiny` IN (1)"),
        (D.Not(D.In(("tiny",), (1, None))), "false"),
        (D.Not(D.EqualNullSafe(("tiny",), None)), "`tiny` IS NOT NULL"),
        (D.EqualTo(("a.b",), 1), None),
        (D.EqualTo(("pair", "y"), 1), None),
        (D.EqualTo(("absent",), 1), None),
        (D.StringContains(("tiny",), "1"), None),
        (D.EqualTo(("money",), Decimal("1.505")), None),
    ],
    ids=str,
)
def test_only_filters_that_can_be_translated_exactly_are_pushed_down(condition: D.Filter, sql: str | None) -> None:
    assert to_sql(condition, TABLE.schema) == sql


def test_a_filter_reads_only_its_columns_and_the_rows_it_finds(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 200_000
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array([float(n % 1009) for n in range(rows * 16)], pa.float32()), 16
            ),
        }
    )
    lance_core.write_dataset(table, uri, max_rows_per_file=50_000)
    location = Location(uri=uri)
    opened: list[lance_core.LanceDataset] = []

    def recorded(self: Location, version: int | None = None) -> lance_core.LanceDataset:
        opened.append(lance_core.dataset(self.uri, version=version))
        return opened[-1]

    def read(options: dict[str, object], filters: list[D.Filter]) -> tuple[int, int]:
        dataset = lance_core.dataset(uri)
        reader = LanceReader(location, dataset, read_schema(dataset, options), options)
        assert list(reader.pushFilters(filters)) == []
        opened.clear()
        num_rows = sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))
        return num_rows, sum(dataset.io_stats_snapshot().read_bytes for dataset in opened)

    monkeypatch.setattr(Location, "open", recorded)
    whole = sum(path.stat().st_size for path in (Path(uri) / "data").iterdir())
    ids = whole * 8 // (8 + 64)
    assert read({"columns": ()}, []) == (rows, pytest.approx(0, abs=20_000))
    num_rows, num_bytes = read({}, [D.GreaterThanOrEqual(("id",), rows - 10)])
    assert num_rows == 10
    assert num_bytes < ids * 1.2 < whole / 4
    num_rows, num_bytes = read({"columns": ("id",)}, [D.LessThan(("id",), rows // 2)])
    assert num_rows == rows // 2
    assert num_bytes < ids * 1.2
