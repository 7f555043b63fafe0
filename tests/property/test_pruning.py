"""Scans of 0.1 tables find the same rows with and without statistics, whatever floats and nulls the rows contain."""

import datetime
import random
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core

NAN = float("nan")
NEGATIVE_NAN = float(np.copysign(np.nan, -1.0))
FLOATS = [NAN, NEGATIVE_NAN, float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 2.5, 5e-324, 1.7e308, 0.1]
SINGLES = [float(np.float32(value)) for value in FLOATS if not 1e38 < abs(value) < 1e400]
INTEGERS = [0, 1, -1, 7, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
STRINGS = ["", "", "a", "b", "bb" * 40, "\U0010ffff" * 20]
DAYS = [datetime.date(2024, 7, day) for day in (1, 2, 3)]
GROUP = 3
NUM_ROWS = 30
COMPARISONS = [pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal]
TEXTS = [
    "f BETWEEN {0} AND {1}",
    "f NOT BETWEEN {0} AND {1}",
    "f IN ({0}, {1})",
    "f NOT IN ({0}, {1})",
    "NOT (f = {0} OR g < {1})",
    "i BETWEEN {0} AND {1}",
    "cast(g AS double) = {0} AND i <> 1",
    "{0} >= f AND {1} <> f",
    "s.f = {0} OR s.f > {1}",
    "f > {0} AND f <= {1}",
    "f >= {0} AND (g < {1} AND g > {0} OR f < {1} AND i > 0)",
    "f < {0} AND NOT (g IS NULL)",
    "f IS NULL OR i IS NULL AND s.f = {0}",
    "t IS NULL AND f <> {0}",
    "t IS NOT NULL OR g = {0}",
    "t = '' OR t < 'b' AND t IS NOT NULL OR b",
    "(t IS NULL) IS FALSE AND (b IS NOT TRUE OR NOT b)",
    "b IS FALSE OR NOT (t IS NULL) IS NOT TRUE",
    "u IS NULL OR (u IS NOT NULL) IS NOT FALSE AND f < {0}",
    "u IS NOT NULL",
    "t IS NULL",
]
LITERALS = ["0.0", "-0.0", "1.0", "-1.0", "2.5", "cast('nan' AS double)", "cast('-inf' AS double)", "NULL"]


def runs(choose: random.Random, values: list[object], nulls: float) -> list[object]:
    """Return rows of a column in runs of few distinct values, so that the bounds of batches differ."""
    found: list[object] = []
    while len(found) < NUM_ROWS:
        few = choose.sample(values, choose.randint(1, 2))
        found += [None if choose.random() < nulls else choose.choice(few) for _ in range(choose.randint(1, 3 * GROUP))]
    return found[:NUM_ROWS]


def random_table(choose: random.Random) -> pa.Table:
    nulls = choose.choice([0.0, 0.0, 0.1])
    members = pa.array(runs(choose, FLOATS, nulls), pa.float64())
    return pa.table(
        {
            "key": pa.array(range(NUM_ROWS)),
            "f": pa.array(runs(choose, FLOATS, nulls), pa.float64()),
            "g": pa.array(runs(choose, SINGLES, nulls), pa.float32()),
            "i": pa.array(runs(choose, INTEGERS, nulls), pa.int64()),
            "d": pa.array(runs(choose, DAYS, nulls), pa.date32()),
            "s": pa.StructArray.from_arrays([members], ["f"]),
            "t": pa.array(runs(choose, STRINGS, nulls), pa.string()),
            "u": bytes_under_nulls(runs(choose, STRINGS, 4 * nulls)),
            "b": pa.array(runs(choose, [False, True], nulls), pa.bool_()),
        }
    )


def bytes_under_nulls(values: list[str | None]) -> pa.Array:
    """Return strings whose nulls have bytes in memory, which pylance stores as values."""
    every = pa.array(["under" if value is None else value for value in values])
    mask = np.packbits([value is not None for value in values], bitorder="little")
    return pa.Array.from_buffers(every.type, len(every), [pa.py_buffer(mask), *every.buffers()[1:]])


def constant(choose: random.Random, column: str) -> pa.Scalar:
    if column == "d":
        zone = choose.choice([None, "UTC", "Europe/Berlin", "America/New_York"])
        moment = pa.scalar(datetime.datetime(2024, 7, 2, choose.choice([0, 4, 22])), pa.timestamp("us"))
        return moment if zone is None else pa.array([moment]).cast(pa.timestamp("us", zone))[0]
    if column == "i" and choose.random() < 0.3:
        return pa.scalar(choose.choice(INTEGERS), pa.int64())
    return pa.scalar(choose.choice(FLOATS), pa.float64())


def random_expression(choose: random.Random, depth: int) -> pc.Expression:
    kind = choose.random()
    if depth and kind < 0.25:
        return ~random_expression(choose, depth - 1)
    if depth and kind < 0.6:
        left, right = random_expression(choose, depth - 1), random_expression(choose, depth - 1)
        return left & right if choose.random() < 0.5 else left | right
    column = choose.choice(["f", "g", "i", "d", "s"])
    field = pc.field("s", "f") if column == "s" else pc.field(column)
    if kind < 0.75 and column in ("f", "s"):
        return field.isin(pa.array(choose.sample(FLOATS, choose.randint(1, 3)), pa.float64()))
    if column in ("g", "i"):
        # If one side is cast, both sides are compared as doubles.
        field = choose.choice([field, field.cast(pa.float64())])
        if column == "i":
            field = pc.field("i")
    value = pc.scalar(constant(choose, column))
    if column in ("g", "i"):
        value = value.cast(pa.float64()) if choose.random() < 0.5 else value
    compare = choose.choice(COMPARISONS)
    return compare(field, value) if choose.random() < 0.5 else compare(value, field)


def keys(table: pa.Table) -> list[int]:
    return list(table["key"].to_pylist())


def check(dataset: lance_core.LanceDataset, predicate: pc.Expression | str) -> None:
    options = {"columns": ["key"], "filter": predicate}
    try:
        every = keys(dataset.to_table(**options, use_stats=False))
    except lance_core.InvalidInputError:
        # A literal that the column's type cannot represent is refused with and without statistics.
        with pytest.raises(lance_core.InvalidInputError):
            dataset.to_table(**options)
        return
    # Batches that can be pruned are pruned, regardless of their size.
    assert keys(dataset.to_table(**options, batch_size=GROUP)) == every


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("writer", ["lance_core", "pylance"])
@pytest.mark.sampled(4)
def test_pruning_by_statistics_loses_no_row(tmp_path: Path, seed: int, writer: str) -> None:
    choose = random.Random(seed)
    table = random_table(choose)
    write = lance_core.write_dataset if writer == "lance_core" else lance.write_dataset
    write(table, str(tmp_path / "t"), data_storage_version="0.1", max_rows_per_group=GROUP)
    dataset = lance_core.dataset(str(tmp_path / "t"))
    for _ in range(12):
        check(dataset, random_expression(choose, choose.randint(0, 2)))
    for text in TEXTS:
        check(dataset, text.format(choose.choice(LITERALS), choose.choice(LITERALS)))


@pytest.mark.parametrize("nan", [NAN, NEGATIVE_NAN])
@pytest.mark.parametrize("column", ["f", "g"])
def test_nan_values_are_found_and_deleted(tmp_path: Path, nan: float, column: str) -> None:
    rows = np.arange(40, dtype=np.float64)
    rows[[5, 30]] = nan
    table = pa.table({"key": range(40), "f": rows, "g": pa.array(rows).cast(pa.float32())})
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="0.1", max_rows_per_group=4)
    field = pc.field(column)
    for predicate in (field == nan, field.isin([nan, 100.0]), ~(field != nan)):
        assert keys(dataset.to_table(filter=predicate, batch_size=1)) == [5, 30]
    assert keys(dataset.to_table(filter=field == 7.0, batch_size=1)) == [7]
    dataset.delete(field == nan)
    assert dataset.count_rows() == 38
    assert keys(dataset.to_table()) == [key for key in range(40) if key not in (5, 30)]


def test_every_integer_compares_as_less_than_nan(tmp_path: Path) -> None:
    table = pa.table({"i": pa.array(range(20))})
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="0.1", max_rows_per_group=4)
    predicate = "i < cast('nan' AS double)"
    assert dataset.count_rows(predicate) == dataset.to_table(filter=predicate, use_stats=False).num_rows == 20


def test_dates_can_be_compared_with_timestamps_in_a_time_zone(tmp_path: Path) -> None:
    table = pa.table({"d": pa.array(DAYS, pa.date32()), "key": range(3)})
    dataset = lance_core.write_dataset(table, str(tmp_path / "t"), data_storage_version="0.1", max_rows_per_group=1)
    # A day begins at midnight UTC, regardless of the time zone in the comparison.
    midnight = pa.array([datetime.datetime(2024, 7, 2)], pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    berlin = midnight.cast(pa.timestamp("us", "Europe/Berlin"))[0]
    assert keys(dataset.to_table(filter=pc.field("d") == pc.scalar(berlin), batch_size=1)) == [1]
