"""Partition conditions select exactly the rows of their partitions in both libraries."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_core
from lance_pipelines.ingest.partition_rows import Partition, PartitionColumn, PartitionValue, select_rows

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu"]
START = datetime(2024, 1, 1, tzinfo=UTC)
TEXTS = st.one_of(
    st.sampled_from(["", "'", "''", '"', "`", "\\", "%", "_", "--", "eu", "EU", "null", "ü", "\n"]), st.text()
)
PROFILE = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _windows(zone: str, hours: int, positions: Sequence[int]) -> list[PartitionValue]:
    """Return days or hours that start at wall clock times of the time zone, like Dagster's time windows."""
    windows = []
    for position in positions:
        if hours == 24:
            start, stop = (
                datetime.combine(
                    date(2024, 1, 1) + timedelta(days=position + more), datetime.min.time(), ZoneInfo(zone)
                )
                for more in (0, 1)
            )
        else:
            start, stop = ((START + timedelta(hours=position + more)).astimezone(ZoneInfo(zone)) for more in (0, 1))
        windows.append(PartitionValue(start.isoformat(), (start, stop)))
    return windows


def _found(module: Any, uri: str, rows: pa.Table, condition: str) -> list[int]:
    module.write_dataset(rows, uri, mode="overwrite")
    return sorted(module.dataset(uri).to_table(columns=["row"], filter=condition)["row"].to_pylist())


def _batch(rows: pa.Table) -> pa.RecordBatch:
    """Return all rows as one batch, because a table without rows has no batch."""
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in rows.columns], schema=rows.schema)


def _check(uri: str, rows: pa.Table, condition: str, expected: Sequence[bool], *, with_pylance: bool) -> None:
    wanted = [number for number, belongs in enumerate(expected) if belongs]
    rows = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    for module in (lance_core, lance) if with_pylance else (lance_core,):
        assert _found(module, uri, rows, condition) == wanted, condition


@PROFILE
@given(
    zone=st.sampled_from(ZONES),
    kind=st.sampled_from(["date", "naive", "utc", "other zone"]),
    unit=st.sampled_from(["s", "ms", "us", "ns"]),
    hours=st.sampled_from([1, 24]),
    positions=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    minutes=st.lists(st.one_of(st.none(), st.integers(-2000, 20000)), min_size=1, max_size=30),
    microseconds=st.sampled_from([0, 1, 999_999]),
)
def test_time_window_partitions_select_exactly_the_rows_within_the_windows(
    tmp_path: Any,
    zone: str,
    kind: str,
    unit: str,
    hours: int,
    positions: list[int],
    minutes: list[int | None],
    microseconds: int,
) -> None:
    hours = 24 if kind == "date" else hours
    places = _windows(zone, hours, positions)
    more = timedelta(microseconds=microseconds if unit in ("us", "ns") else 0)
    instants = [None if each is None else START + timedelta(minutes=each) + more for each in minutes]
    types = {
        "date": pa.date32(),
        "naive": pa.timestamp(unit),
        "utc": pa.timestamp(unit, "UTC"),
        "other zone": pa.timestamp(unit, "Asia/Kathmandu"),
    }
    local = [None if each is None else each.astimezone(ZoneInfo(zone)) for each in instants]
    values = {
        "date": [None if each is None else each.date() for each in local],
        "naive": [None if each is None else each.replace(tzinfo=None) for each in local],
    }.get(kind, instants)
    rows = pa.table({"when": pa.array(values, types[kind])})
    expected = [each is not None and any(w.window[0] <= each < w.window[1] for w in places) for each in instants]
    selection = select_rows([PartitionColumn(column="when")], [{None: place} for place in places], rows.schema)
    _check(str(tmp_path / "t"), rows, selection.to_sql(), expected, with_pylance=True)
    assert selection.mask(_batch(rows)).to_pylist() == expected


@PROFILE
@given(
    keys=st.lists(TEXTS.filter(lambda text: "\x00" not in text), min_size=1, max_size=6),
    others=st.lists(st.one_of(st.none(), TEXTS), max_size=6),
    null_key=st.booleans(),
    name=st.sampled_from(["region", "Region", "select", "two words", "ü"]),
)
def test_key_partitions_select_exactly_the_rows_whose_column_equals_a_key(
    tmp_path: Any, keys: list[str], others: list[str | None], null_key: bool, name: str
) -> None:
    rows = pa.table({name: pa.array([*keys, *others, None], pa.string())})
    column = PartitionColumn(column=name, values={"nothing": None} if null_key else {})
    chosen = [*keys[: len(keys) // 2 + 1], *(["nothing"] if null_key else [])]
    values = {column.values.get(key, key) for key in chosen}
    selection = select_rows([column], [{None: PartitionValue(key)} for key in chosen], rows.schema)
    expected = [each in values for each in rows[name].to_pylist()]
    _check(str(tmp_path / "t"), rows, selection.to_sql(), expected, with_pylance=True)
    assert selection.mask(_batch(rows)).to_pylist() == expected


@PROFILE
@given(
    chosen=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["1", "2", "-3"]), st.sampled_from(["eu", "us", "none"])),
        min_size=1,
        max_size=12,
    )
)
def test_multi_dimensional_partitions_select_the_rows_that_match_in_every_dimension(
    tmp_path: Any, chosen: list[tuple[int, str, str]]
) -> None:
    columns = [
        PartitionColumn(column="day", dimension="date"),
        PartitionColumn(column="shard", dimension="shard"),
        PartitionColumn(column="region", dimension="area", values={"none": None}),
    ]
    cells = [
        (day, shard, region) for day in range(5) for shard in ("1", "2", "-3", "4") for region in ("eu", "us", "none")
    ]
    rows = pa.table(
        {
            "day": [date(2024, 1, 1) + timedelta(days=day) for day, _, _ in cells],
            "shard": pa.array([int(shard) for _, shard, _ in cells], pa.int16()),
            "region": [None if region == "none" else region for _, _, region in cells],
        }
    )
    partitions: list[Partition] = [
        {"date": _windows("UTC", 24, [day])[0], "shard": PartitionValue(shard), "area": PartitionValue(region)}
        for day, shard, region in chosen
    ]
    selection = select_rows(columns, partitions, rows.schema)
    condition = selection.to_sql()
    expected = [cell in chosen for cell in cells]
    _check(str(tmp_path / "t"), rows, condition, expected, with_pylance=False)
    assert selection.mask(_batch(rows)).to_pylist() == expected


@pytest.mark.parametrize("hour", [0, 1])
def test_time_windows_in_a_repeated_hour_select_the_correct_rows(tmp_path: Any, hour: int) -> None:
    new_york = ZoneInfo("America/New_York")
    first = datetime(2024, 11, 3, 5 + hour, tzinfo=UTC)
    place = PartitionValue("k", (first.astimezone(new_york), (first + timedelta(hours=1)).astimezone(new_york)))
    rows = pa.table(
        {"when": pa.array([first + timedelta(minutes=each) for each in range(-90, 90)], pa.timestamp("us", "UTC"))}
    )
    condition = select_rows([PartitionColumn(column="when")], [{None: place}], rows.schema).to_sql()
    _check(str(tmp_path / "t"), rows, condition, [0 <= each < 60 for each in range(-90, 90)], with_pylance=True)
