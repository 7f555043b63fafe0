"""Spark and lance_core select the same rows for partitions, regardless of the session time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_core
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn, PartitionValue, select_rows
from lance_pipelines.spark.partition_filter import rows_of

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
NEW_YORK = ZoneInfo("America/New_York")
HOURS = [datetime(2024, 3, 9, tzinfo=UTC) + timedelta(hours=hour) for hour in range(96)]
ROWS = pa.table(
    {
        "row": range(97),
        "instant": pa.array([*HOURS, None], pa.timestamp("us", "UTC")),
        "clock": pa.array([*(hour.replace(tzinfo=None) for hour in HOURS), None], pa.timestamp("us")),
        "day": pa.array([*(hour.date() for hour in HOURS), None], pa.date32()),
        "text": pa.array([*(("it's", '"', "\\", "`", "%", "eu")[number % 6] for number in range(96)), None]),
        "Number One": pa.array([*(number % 5 - 2 for number in range(96)), None], pa.int16()),
        "yes": pa.array([*(number % 2 == 0 for number in range(96)), None]),
    }
)


def _day(day: date) -> PartitionValue:
    start, stop = (datetime.combine(day + timedelta(more), datetime.min.time(), NEW_YORK) for more in (0, 1))
    return PartitionValue(str(day), (start, stop))


DAYS: list[Partition] = [{None: _day(date(2024, 3, day))} for day in (9, 10, 12)]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose time zone is neither that of the rows nor that of the partitions."""
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Asia/Kathmandu")
    yield spark
    spark.conf.set(ZONE, before)


def _keys(*keys: str) -> list[Partition]:
    return [{None: PartitionValue(key)} for key in keys]


def test_spark_and_lance_core_select_the_same_rows_for_partitions(session: SparkSession, uri: str) -> None:
    dataset = lance_core.write_dataset(ROWS, uri)
    frame = session.createDataFrame(ROWS)
    nothing = {"nothing": None}
    cases = [
        *((PartitionColumn(column=column), DAYS) for column in ("instant", "clock", "day")),
        (PartitionColumn(column="text"), _keys("it's", "\\", "`")),
        (PartitionColumn(column="text", values=nothing), _keys('"', "nothing")),
        (PartitionColumn(column="Number One", values=nothing), _keys("-2", "1", "nothing")),
        (PartitionColumn(column="yes"), _keys("true")),
        (PartitionColumn(column="day"), _keys("2024-03-11")),
    ]
    for column, partitions in cases:
        selection = select_rows([column], partitions, ROWS.schema)
        expected = sorted(dataset.to_table(columns=["row"], filter=selection.to_sql())["row"].to_pylist())
        found = sorted(row.row for row in frame.filter(rows_of(selection)).select("row").collect())
        assert found == expected, selection.to_sql()
        assert 0 < len(found) < 97
