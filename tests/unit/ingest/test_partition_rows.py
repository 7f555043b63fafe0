"""The text of conditions that select the rows of partitions, and which partitions are refused."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, LanceError, NotSupportedError
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn, PartitionValue, select_rows

SCHEMA = pa.schema(
    [
        ("day", pa.date32()),
        ("instant", pa.timestamp("us", "UTC")),
        ("clock", pa.timestamp("us")),
        ("there", pa.timestamp("us", "America/New_York")),
        ("region", pa.string()),
        ("Shard No", pa.int16()),
        ("ratio", pa.float64()),
        ("yes", pa.bool_()),
    ]
)
NEW_YORK = ZoneInfo("America/New_York")
TWICE = datetime(2024, 11, 3, 1, tzinfo=NEW_YORK)


def _day(number: int, hours: int = 24) -> PartitionValue:
    start = datetime(2024, 1, number, tzinfo=UTC)
    return PartitionValue(f"2024-01-{number:02}", (start, start + timedelta(hours=hours)))


def _sql(column: str, *places: PartitionValue, **values: object) -> str:
    by = PartitionColumn(column=column, values=values)
    return select_rows([by], [{None: place} for place in places], SCHEMA).to_sql()


@pytest.mark.parametrize(
    ("column", "places", "text"),
    [
        ("day", [_day(1)], "`day` >= date '2024-01-01' and `day` < date '2024-01-02'"),
        ("day", [_day(day) for day in (3, 1, 2)], "`day` >= date '2024-01-01' and `day` < date '2024-01-04'"),
        (
            "clock",
            [_day(1), _day(3)],
            "((`clock` >= timestamp '2024-01-01 00:00:00' and `clock` < timestamp '2024-01-02 00:00:00') or "
            "(`clock` >= timestamp '2024-01-03 00:00:00' and `clock` < timestamp '2024-01-04 00:00:00'))",
        ),
        (
            "there",
            [_day(1)],
            "`there` >= timestamp '2023-12-31 19:00:00' and `there` < timestamp '2024-01-01 19:00:00'",
        ),
        ("region", [_day(1), _day(2)], "`region` in ('2024-01-01', '2024-01-02')"),
        ("region", [PartitionValue("it's")], "`region` = 'it''s'"),
        ("Shard No", [PartitionValue("7"), PartitionValue("-1")], "`Shard No` in (-1, 7)"),
        ("yes", [PartitionValue("true")], "`yes` = true"),
        ("day", [PartitionValue("2024-02-29")], "`day` = date '2024-02-29'"),
    ],
)
def test_partitions_on_one_column_become_an_sql_condition_on_that_column(
    column: str, places: list[PartitionValue], text: str
) -> None:
    assert _sql(column, *places) == text


def test_declared_values_of_partition_keys_replace_the_keys_in_the_condition() -> None:
    places = [PartitionValue("north"), PartitionValue("unknown"), PartitionValue("south")]
    assert _sql("Shard No", *places, north=1, south="2", unknown=None) == (
        "((`Shard No` in (1, 2)) or (`Shard No` is null))"
    )
    assert _sql("region", PartitionValue("unknown"), unknown=None) == "`region` is null"


def test_all_combinations_of_two_dimensions_become_one_conjunction() -> None:
    columns = [PartitionColumn(column="day", dimension="date"), PartitionColumn(column="region", dimension="area")]
    grid: list[Partition] = [
        {"date": _day(day), "area": PartitionValue(area)} for day in range(1, 31) for area in ("us", "eu")
    ]
    text = "`day` >= date '2024-01-01' and `day` < date '2024-01-31' and `region` in ('eu', 'us')"
    assert select_rows(columns, grid, SCHEMA).to_sql() == text
    missing_one = select_rows(columns, grid[1:], SCHEMA)
    assert len(missing_one.alternatives) == 2


@pytest.mark.parametrize(
    ("column", "place", "error", "text"),
    [
        ("dya", _day(1), InvalidInputError, "no column 'dya' to partition by; did you mean 'day'"),
        ("nothing like it", _day(1), InvalidInputError, "columns: day, instant"),
        ("day", _day(1, hours=6), InvalidInputError, "does not start and end at midnight"),
        (
            "Shard No",
            _day(1),
            NotSupportedError,
            "time windows must contain timestamps, dates \\(date32\\), or strings",
        ),
        ("ratio", PartitionValue("1.5"), NotSupportedError, "has type double"),
        ("instant", PartitionValue("eu"), NotSupportedError, r"has type timestamp\[us, tz=UTC\]"),
        (
            "Shard No",
            PartitionValue("eu"),
            InvalidInputError,
            "partition 'eu': 'eu' is not a valid value for column 'Shard No'",
        ),
        ("Shard No", PartitionValue("70000"), InvalidInputError, "is not a valid value for column 'Shard No'.*int16"),
        ("clock", PartitionValue("k", (TWICE, TWICE.replace(fold=1))), InvalidInputError, "an hour that occurs twice"),
        ("there", PartitionValue("k", (TWICE, TWICE.replace(hour=5))), InvalidInputError, "an hour that occurs twice"),
    ],
)
def test_partitions_to_which_no_row_can_be_assigned_are_refused(
    column: str, place: PartitionValue, error: type[LanceError], text: str
) -> None:
    with pytest.raises(error, match=text):
        _sql(column, place)


@pytest.mark.parametrize(
    ("dimension", "partition", "text"),
    [
        ("area", {None: PartitionValue("eu")}, "the partitions have only one dimension, which has no name"),
        (
            None,
            {"area": PartitionValue("eu")},
            "is assigned to no dimension, but the partitions have the dimensions 'area'",
        ),
    ],
)
def test_a_dimension_that_the_partitions_do_not_have_is_refused(
    dimension: str | None, partition: Any, text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        select_rows([PartitionColumn(column="region", dimension=dimension)], [partition], SCHEMA)
