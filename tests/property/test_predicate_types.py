"""Values of any two types compare as in pylance: both libraries select the same rows, or both refuse the predicate.

Each type has mild values, which every cast between types takes, and wild ones at the limits of the type; a predicate
is tried with both. Where the libraries differ on purpose, ``_may_differ`` says so:

* we do not read text as a number or a time, take an integer for a date, or round a float to a decimal: refused;
* dates and timestamps of all years compare, while the reference takes both as nanoseconds: from 1677 to 2262, and
  a literal of another year beside a column of nanoseconds for null;
* bytes of two fixed widths compare, or of a fixed width and large ones;
* decimals compare at every scale, where the reference overflows, or panics at negative ones; there it also rounds
  integer literals, which we refuse;
* the reference has no value for uint64 literals beside decimals and integers beside time64.
"""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 60
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAYS = [0, 1, 2, 100, -1, 18262, 18321, 18322, 18350, 18559]
# Around midnight of 2020-01-01 and the daylight saving time changes in Europe, in seconds.
SECONDS = [0, -1, 86400, *(18262 * 86400 + 60 * minutes for minutes in (0, 60, -60, 120, -120, -330, 300, -300))]
SECONDS += [1585440000, 1585443600, 1585447200, 1603584000, 1603587600, 1593561600]
ZONES = [("s", "Europe/Berlin"), ("us", "Europe/Berlin"), ("ns", "America/New_York"), ("us", "+02:00")]
ZONES += [("ms", "+05:30"), ("us", "-08:00"), *((unit, "UTC") for unit in UNITS)]
NUMBERS = [0, 1, -1, 2, 3, 100]


def _columns() -> dict[str, tuple[pa.DataType, list[Any], list[Any]]]:
    """Return name → (type, mild values, wild values), with times as integers."""
    found: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {}
    for bits in (8, 16, 32, 64):
        top = 2 ** (bits - 1)
        found[f"i{bits}"] = getattr(pa, f"int{bits}")(), NUMBERS, [top - 1, -top, top - 2]
        found[f"u{bits}"] = getattr(pa, f"uint{bits}")(), [0, 1, 2, 100], [2 * top - 1, top]
    for bits in (16, 32, 64):
        dtype = np.dtype(f"f{bits // 8}").type
        wild = [float("nan"), float("inf"), float("-inf"), -0.0, 0.1, 2049.0, 65504.0, 1e-7]
        found[f"f{bits}"] = (
            getattr(pa, f"float{bits}")(),
            [dtype(number) for number in (0, 1, -1, 1.5, 100)],
            [dtype(number) for number in wild],
        )
    found["bool"] = pa.bool_(), [True, False], []
    for name, dtype in {"text": pa.string(), "large_text": pa.large_string(), "text_view": pa.string_view()}.items():
        found[name] = dtype, ["0", "1", "2", "100", ""], ["a", "ä", "2020-01-01"]
    for name, dtype in {"data": pa.binary(), "large_data": pa.large_binary(), "data_view": pa.binary_view()}.items():
        found[name] = dtype, [b"0", b"1", b"", b"ab"], [b"\xff", b"a\0"]
    found["data1"], found["data2"] = (pa.binary(1), [b"0", b"1"], [b"\xff"]), (pa.binary(2), [b"ab", b"10"], [b"a\0"])
    for name, dtype in {"d5": pa.decimal128(5, 2), "d38": pa.decimal128(38, 0), "d50": pa.decimal256(50, 10)}.items():
        found[name] = (
            dtype,
            [Decimal(number) for number in NUMBERS],
            [Decimal(10 ** (dtype.precision - dtype.scale) - 1)],
        )
    found["d_negative"] = pa.decimal128(5, -2), [Decimal(0), Decimal(100), Decimal(-100)], [Decimal(9_999_900)]
    found["date32"] = pa.date32(), DAYS, [-719162, 2932896, -141427]
    found["date64"] = pa.date64(), [day * 86_400_000 for day in DAYS], [5000, -5000, -719162 * 86_400_000]
    for name, unit in {"time_s": "s", "time_ms": "ms"}.items():
        found[name] = pa.time32(unit), [0, 1, 1000], [86399]
    for name, unit in {"time_us": "us", "time_ns": "ns"}.items():
        found[name] = pa.time64(unit), [0, 1, 1000, 10**6], [86399 * 10**6]
    for unit, per_second in UNITS.items():
        found[f"for_{unit}"] = pa.duration(unit), [0, per_second, -per_second], [1, -1, 2**62]
        found[f"at_{unit}"] = pa.timestamp(unit), [second * per_second for second in SECONDS], _wild_times(unit)
    for unit, zone in ZONES:
        wild = [1, -1, 1585444800 * UNITS[unit], 1585447200 * UNITS[unit] - 1]
        name = f"in_{zone.replace('/', '_').replace('+', 'plus').replace('-', 'minus').replace(':', '')}_{unit}"
        found[name] = pa.timestamp(unit, zone), [second * UNITS[unit] for second in SECONDS], wild
    found["nothing"] = pa.null(), [], []
    found["words"] = pa.dictionary(pa.int8(), pa.string()), ["0", "1", "b"], ["ä"]
    found["codes"] = pa.dictionary(pa.int32(), pa.int64()), [0, 1, 100], [2**63 - 1]
    return found


def _wild_times(unit: str) -> list[int]:
    """Return times before and after 1970, skipped and repeated local times of Berlin, and years beyond nanoseconds."""
    strange = [1585449000 * UNITS[unit], 1603593000 * UNITS[unit]]
    return [1, -1, *strange, *([] if unit == "ns" else [-62135596800 * UNITS[unit]])]


COLUMNS = _columns()
NAMES = list(COLUMNS)


def _array(dtype: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_temporal(dtype):
        return pa.array(values, getattr(pa, f"int{dtype.bit_width}")()).view(dtype)
    return pa.array(values, dtype)


def _table(names: list[str], *, is_wild: bool) -> pa.Table:
    choose = random.Random(11)
    columns = {}
    for name in names:
        dtype, mild, wild = COLUMNS[name]
        values = [*mild, *wild] if is_wild else mild
        columns[name] = _array(dtype, [choose.choice([*values, None]) for _ in range(NUM_ROWS)])
    return pa.table({**columns, "key": pa.array(range(NUM_ROWS))})


class Pair:
    """One table, opened with both libraries."""

    def __init__(self, uri: str) -> None:
        self.uri, self.theirs, self.ours = uri, lance.dataset(uri), lance_core.dataset(uri)

    def check(self, predicate: str | pc.Expression, kinds: set[str]) -> None:
        """Check that both libraries find the same rows, or refuse the predicate, or differ only where permitted."""
        try:
            expected: object = self.theirs.to_table(columns=["key"], filter=predicate)["key"].to_pylist()
        except BaseException as error:  # noqa: BLE001  # PanicException is no Exception
            expected = error
        try:
            found: object = self.ours.to_table(columns=["key"], filter=predicate)["key"].to_pylist()
        except (InvalidInputError, NotSupportedError) as error:
            found = error
        if isinstance(found, Exception) and isinstance(expected, BaseException):
            return
        assert found == expected or _may_differ(found, expected, kinds), f"{predicate}: {found!r}, not {expected!r}"


KNOWN_REFUSALS = [
    *("Timestamp(ns): converted value exceeds", "Arithmetic overflow", "Cannot cast to Decimal128(38"),
    *("FixedSizeBinary", "Function 'coalesce' user-defined coercion failed", "Task was aborted", "literal of type"),
    # pyarrow cannot serialize every Arrow expression with two types.
    *("Substrait", "substrait", "Cannot compare timestamp", "no kernel matching input types"),
]
"""What the reference says of predicates that have an answer here."""
TIMES = {"date", "time", "timestamp"}
NUMERIC = {"integer", "float", "decimal"}


def _may_differ(found: object, expected: object, kinds: set[str]) -> bool:
    """Return whether the libraries differ on purpose."""
    if isinstance(expected, BaseException):
        return any(text in str(expected) for text in KNOWN_REFUSALS)
    is_mixed = "text" in kinds and bool(kinds & {*NUMERIC, *TIMES, "bool"})
    is_mixed = is_mixed or "no value of type decimal128(5, -2)" in str(found)
    is_mixed = is_mixed or {"date", "integer"} <= kinds or {"float", "decimal"} <= kinds
    return isinstance(found, Exception) and is_mixed


def _kind(dtype: pa.DataType) -> str:
    if pa.types.is_dictionary(dtype):
        return _kind(dtype.value_type)
    for kind in ("integer", "floating", "decimal", "date", "timestamp", "time", "duration", "boolean", "null"):
        if getattr(pa.types, f"is_{kind}")(dtype):
            return {"floating": "float", "boolean": "bool"}.get(kind, kind)
    return "text" if "string" in str(dtype) else "bytes"


KINDS = {name: {_kind(dtype)} for name, (dtype, _, _) in COLUMNS.items()}
INSTANTS = [name for name in NAMES if KINDS[name] <= {"date", "timestamp"}]
LITERALS = {
    **dict.fromkeys(["0", "1", "-1", "300", "65535", "18446744073709551615", "1 + 1"], "integer"),
    **dict.fromkeys(["1.5", "0.1", "1e300", "cast('nan' as double)", "cast(1 as float)"], "float"),
    **dict.fromkeys(["'a'", "'1'", "'2020-01-01'"], "text"),
    **dict.fromkeys(["date '2020-01-01'", "date '2020-03-29'", "cast('2020-01-02' as date)"], "date"),
    **dict.fromkeys(["timestamp '2020-01-01 00:00:00'", "timestamp '2020-01-01 01:00:00Z'"], "timestamp"),
    **dict.fromkeys(
        ["timestamp '2019-12-31T22:00:00.000000001-02:00'", "timestamp(0) '2020-01-01 02:00:00'"], "timestamp"
    ),
    "X'61'": "bytes",
    "true": "bool",
    "null": "null",
    "decimal(10,2) '1.50'": "decimal",
}
OPERANDS = {**KINDS, **{literal: {kind} for literal, kind in LITERALS.items()}}
COMPARISONS = ["{0} = {1}", "{0} < {1}", "{1} >= {0}", "{0} is distinct from {1}", "{0} is not distinct from {1}"]
FORMS = [
    *COMPARISONS,
    *("not ({0} = {1})", "({0} < {1}) is null", "{0} in ({1}, {2})", "{0} not in ({1})", "not ({0} in ({1}, {2}))"),
    *("{0} between {1} and {2}", "{0} not between {2} and {1}", "not ({0} between {1} and {2})"),
    *("coalesce({0}, {1}) = {2}", "cast({0} as date) = {1}", "cast({0} as timestamp) < {1}"),
    "cast({0} as timestamp(0)) = {1}",
]


@pytest.fixture(scope="module", params=["mild", "wild"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    uri = str(tmp_path_factory.mktemp("types") / request.param)
    lance.write_dataset(_table(NAMES, is_wild=request.param == "wild"), uri, data_storage_version="2.2")
    return Pair(uri)


@pytest.fixture(scope="module", params=["mild", "wild"])
def instants(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A table of dates and timestamps only, because Arrow expressions with some other types fail in the reference."""
    uri = str(tmp_path_factory.mktemp("instants") / request.param)
    lance.write_dataset(_table(INSTANTS, is_wild=request.param == "wild"), uri, data_storage_version="0.1")
    return Pair(uri)


FRACTIONS = [0, 1, 999, 1000, 1001, 999_999, 10**6, 5 * 10**8, 10**9 - 10**6, 10**9 - 1]
"""Nanoseconds of a second: below and at every unit."""
PLACES = [0, -1, 1, 86400, *SECONDS[3:11]]
"""Seconds around midnights of 1970 and 2020, of every zone."""
FRACTION_FORMS = [
    *COMPARISONS,
    *("{1} <> {0}", "{1} is distinct from {0}", "not ({0} > {1})", "{1} in ({0})", "{0} in ({1})", "{0} in ({1}, {2})"),
    *("{0} not in ({1}, {2}, null)", "{0} in ({1}, {3})", "{1} in ({0}, {3})", "coalesce({0}, {3}) = {1}"),
    *("{0} between {1} and {2}", "{0} not between {2} and {1}", "{0} between {3} and {1}", "{0} between {1} and {3}"),
    *("{1} between {0} and {3}", "not ({0} between {3} and {1})"),
]
CASTS = ["{0}"] * 3 + [f"cast({{0}} as timestamp{size})" for size in ("(0)", "(3)", "(6)", "(9)", "")]
CASTS += ["cast({0} as date)", "cast(cast({0} as timestamp(0)) as timestamp(9))", "coalesce({0}, {0})"]


@pytest.fixture(scope="module", params=["legacy", "2.1"])
def fractions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A table of dates and timestamps with fractional seconds, in files with and without statistics."""
    choose = random.Random(13)
    columns = {}
    for name in INSTANTS:
        dtype = COLUMNS[name][0]
        values = [None if choose.random() < 0.1 else _moment(choose) for _ in range(NUM_ROWS)]
        coarse = [None if value is None else value // _nanoseconds(dtype) for value in values]
        columns[name] = _array(dtype, coarse)
    uri = str(tmp_path_factory.mktemp("fractions") / request.param)
    table = pa.table({**columns, "key": pa.array(range(NUM_ROWS))})
    lance.write_dataset(table, uri, data_storage_version=request.param)
    return Pair(uri)


def _moment(choose: random.Random) -> int:
    return choose.choice(PLACES) * 10**9 + choose.choice([0, *FRACTIONS])


def _nanoseconds(dtype: pa.DataType) -> int:
    return 86400 * 10**9 if dtype == pa.date32() else 10**9 // UNITS[getattr(dtype, "unit", "ms")]


def _moment_literal(choose: random.Random) -> str:
    """Return a date or a timestamp with 0 to 9 fractional digits."""
    seconds, fraction = divmod(_moment(choose), 10**9)
    text = str(np.datetime64(seconds, "s")).replace("T", " ")
    if choose.random() < 0.2:
        return f"date '{text[:10]}'"
    size = choose.choice(["", "", "", "(0)", "(3)", "(6)", "(9)"])
    digits = choose.randrange(10)
    fraction_text = f".{fraction:09}"[: digits + 1] if digits else ""
    return f"timestamp{size} '{text}{fraction_text}{choose.choice(['', '', 'Z', '-02:00'])}'"


def _check_fractions(fractions: Pair, left: str, seed: int) -> None:
    choose = random.Random(f"{left} {seed}")
    operand = choose.choice(CASTS).format(left)
    other = choose.choice(CASTS).format(choose.choice(INSTANTS))
    form = choose.choice(FRACTION_FORMS)
    predicate = form.format(operand, _moment_literal(choose), _moment_literal(choose), other)
    fractions.check(predicate, {"date", "timestamp"})


@pytest.mark.parametrize(
    "predicate",
    [
        "coalesce(cast(at_ns as timestamp), in_UTC_ns) > timestamp '2020-01-01 00:00:00'",
        "coalesce(at_us = cast(at_ns as timestamp), at_ns > timestamp '2020-01-01 00:00:00.000000001')",
        "coalesce(at_ns, timestamp '2020-01-01 00:00:00.000000999') = timestamp(9) '2020-01-01 00:00:00.000000999'",
    ],
)
def test_timestamps_without_a_precision_are_nanoseconds_in_function_arguments(fractions: Pair, predicate: str) -> None:
    fractions.check(predicate, {"timestamp"})


@pytest.mark.parametrize("left", INSTANTS)
@pytest.mark.sampled(4)
def test_fractions_of_seconds_compare_as_in_pylance(fractions: Pair, left: str) -> None:
    for seed in range(40):
        _check_fractions(fractions, left, seed)


@pytest.mark.soak
@pytest.mark.parametrize("left", INSTANTS)
def test_many_fractions_of_seconds_compare_as_in_pylance(fractions: Pair, left: str) -> None:
    for seed in range(1000, 2000):
        _check_fractions(fractions, left, seed)


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.sampled(24)
def test_columns_of_any_two_types_compare_as_in_pylance(tables: Pair, left: str) -> None:
    choose = random.Random(left)
    always = INSTANTS if left in INSTANTS else []
    for right in [*always, *choose.sample(NAMES, 8)]:
        tables.check(choose.choice(COMPARISONS).format(left, right), KINDS[left] | KINDS[right])


@pytest.mark.soak
@pytest.mark.parametrize("left", NAMES)
def test_columns_of_any_two_types_compare_with_every_operator_as_in_pylance(tables: Pair, left: str) -> None:
    for right, form in itertools.product(NAMES, COMPARISONS):
        tables.check(form.format(left, right), KINDS[left] | KINDS[right])


def _check_random(tables: Pair, seed: int) -> None:
    choose = random.Random(seed)
    first = choose.choice(NAMES)
    # Half of the other values have a type that can be compared with the first.
    near = [name for name, kinds in OPERANDS.items() if kinds == KINDS[first] or {*kinds, *KINDS[first]} <= TIMES]
    others = [choose.choice(near if choose.random() < 0.5 else list(OPERANDS)) for _ in range(2)]
    form = choose.choice(FORMS)
    kinds = set().union(*(OPERANDS[name] for name in (first, *others)))
    tables.check(form.format(first, *others), kinds | ({"date"} if "as date" in form else set()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.sampled(2)
def test_predicates_with_mixed_types_find_the_same_rows_as_pylance(tables: Pair, seed: int) -> None:
    for number in range(40):
        _check_random(tables, 40 * seed + number)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_predicates_with_mixed_types_find_the_same_rows_as_pylance(tables: Pair, seed: int) -> None:
    for number in range(100):
        _check_random(tables, 100 * seed + number)


EXPRESSIONS = {
    "=": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    ">=": lambda left, right: left >= right,
    "in": lambda left, right: left.isin([right]) if isinstance(right, pa.Scalar) else left == right,
    "not": lambda left, right: ~(left == right),
}


@pytest.mark.parametrize("left", INSTANTS)
@pytest.mark.sampled(10)
def test_arrow_expressions_of_dates_and_timestamps_find_the_same_rows_as_pylance(instants: Pair, left: str) -> None:
    choose = random.Random(left)
    for right in INSTANTS:
        dtype, mild, _ = COLUMNS[right]
        operand = choose.choice([pc.field(right), _array(dtype, mild[-1:])[0]])
        build = EXPRESSIONS[choose.choice(list(EXPRESSIONS))]
        instants.check(build(pc.field(left), operand), KINDS[left] | KINDS[right])


@pytest.mark.parametrize(
    "predicate",
    [
        "in_Europe_Berlin_us < date '2020-01-01'",
        "date32 <= in_plus0200_us",
        "in_America_New_York_ns in (date '2020-01-01', date '2020-03-29')",
        "in_plus0530_ms between date '2020-01-01' and date '2020-03-29'",
        "date64 is distinct from in_minus0800_us",
    ],
)
def test_deletes_interpret_a_date_as_midnight_utc(tables: Pair, tmp_path: Path, predicate: str) -> None:
    _check_delete(tables, tmp_path, predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        "at_ns > timestamp '2020-01-01 00:00:00'",
        "at_ns in (timestamp '2020-01-01 00:00:00.000000', timestamp '1970-01-02 00:00:00')",
        "in_UTC_ns between date '1970-01-01' and timestamp '1970-01-02 00:00:00'",
        "in_America_New_York_ns is not distinct from timestamp '2019-12-31 19:00:00'",
        "cast(at_ns as timestamp(3)) >= timestamp '2020-01-01 00:00:00.000001'",
        "cast(in_UTC_us as timestamp(0)) <> timestamp '2020-01-01 00:00:00'",
        "at_us between in_plus0530_ms and timestamp '2020-01-01 01:00:00'",
    ],
)
def test_deletes_compare_fractions_of_seconds(fractions: Pair, tmp_path: Path, predicate: str) -> None:
    _check_delete(fractions, tmp_path, predicate)


def test_literals_outside_the_nanosecond_range_compare_as_before_or_after_every_value(fractions: Pair) -> None:
    is_known = fractions.ours.count_rows("at_ns is not null")
    assert fractions.ours.count_rows("at_ns > timestamp '1000-01-01 00:00:00'") == is_known
    assert fractions.ours.count_rows("cast(at_ns as timestamp(0)) < timestamp '3000-01-01 00:00:00'") == is_known
    assert fractions.ours.count_rows("at_ns not in (timestamp '3000-01-01 00:00:00')") == is_known


def _check_delete(tables: Pair, tmp_path: Path, predicate: str) -> None:
    left = []
    for library in (lance, lance_core):
        with tempfile.TemporaryDirectory(dir=tmp_path) as directory:
            copy = shutil.copytree(tables.uri, f"{directory}/t")
            try:
                library.dataset(copy).delete(predicate)
            except (ValueError, OSError, pa.ArrowException) as error:
                assert library is lance
                pytest.skip(f"the reference cannot compare the years of these dates: {error}")
            left.append(lance.dataset(copy).to_table(columns=["key"])["key"].to_pylist())
    assert left[0] == left[1] != list(range(NUM_ROWS))
