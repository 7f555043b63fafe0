"""Filters and filtered scans return the same rows, columns, and addresses as in pylance, or raise a typed error."""

import datetime as dt
import decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_core
from lance_core.errors import InvalidInputError, LanceError, NotSupportedError

MOMENTS = [
    dt.datetime(2020, 1, 1),
    dt.datetime(2020, 7, 1, 10, 0, 0, 500000),
    None,
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    dt.datetime(2021, 1, 1),
]
ROWS = pa.table(
    {
        "k": pa.array(range(5), pa.int64()),
        "i": pa.array([1, 2, None, -3, 2**53 + 1], pa.int64()),
        "i8": pa.array([1, 127, None, -128, 100], pa.int8()),
        "u8": pa.array([1, 2, None, 200, 0], pa.uint8()),
        "u64": pa.array([1, 2, None, 2**64 - 1, 0], pa.uint64()),
        "f": pa.array([1.0, float("nan"), None, -0.0, 0.1], pa.float64()),
        "g": pa.array([1.0, float("nan"), None, 0.0, 0.1], pa.float32()),
        "h": pa.array(np.array([0.1, np.nan, 1, 2, 3], np.float16)),
        "t": pa.array(["a", "B%", None, "5", "a_b"]),
        "lt": pa.array(["a", "B%", None, "5", "a_b"], pa.large_string()),
        "dict": pa.array(["x", "y", None, "x", "z"]).dictionary_encode(),
        "b": pa.array([True, False, None, True, False]),
        "d": pa.array([moment and moment.date() for moment in MOMENTS]),
        "d64": pa.array([moment and moment.date() for moment in MOMENTS], pa.date64()),
        "sec": pa.array([moment and moment.replace(microsecond=0) for moment in MOMENTS], pa.timestamp("s")),
        "ms": pa.array(MOMENTS, pa.timestamp("ms")),
        "us": pa.array(MOMENTS, pa.timestamp("us")),
        "ns": pa.array(MOMENTS, pa.timestamp("ns")),
        "utc": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        "plus2": pa.array(MOMENTS, pa.timestamp("us", "+02:00")),
        "berlin": pa.array(MOMENTS, pa.timestamp("us", "Europe/Berlin")),
        "time": pa.array([1, 2, None, 4, 5], pa.time32("ms")),
        "dec": pa.array([decimal.Decimal(text) if text else None for text in ("1.50", "", "2.25", "0.00", "-1.10")]),
        "bin": pa.array([b"a", b"", None, b"\xff", b"zz"]),
        "fsb": pa.array([b"ab", b"cd", None, b"ef", b"gh"], pa.binary(2)),
        "st": pa.array(
            [{"x": 1, "y z": "q"}, {"x": None, "y z": None}, None, {"x": 5, "y z": "r"}, {"x": 5, "y z": ""}],
            pa.struct([("x", pa.int32()), ("y z", pa.string())]),
        ),
        "l": pa.array([[1], [2, 3], None, [], [4]]),
        "Up": pa.array([1, 2, 3, 4, 5]),
        "nothing": pa.nulls(5),
    }
)

SAME = """
i = 1; I = 1; up = 1; `i` = 1; "i" = 'i'; t = "a"; st.x = 5; ST.x = 5; `st`.`y z` = 'q'; st['x'] = 5; 1 = i; 1 < i
i == 1; i <> 1; i8 = 100; u64 = 18446744073709551615; i = 9007199254740993; i = 9007199254740992; f = 0.1; g = 0.1
g < 0.1; f > 1; f != f; f = f; f = 0; f = -0.0; g = 0; f < 0; f <= 0; f >= g; f = g; isnan(f); isnan(i); isnan(h)
h = 0.1; h > 1; f = cast('nan' as double); f < cast('nan' as double); f in (cast('nan' as double)); f in (0)
g in (0.1); f between 0 and 1; f is distinct from 0; f is not distinct from f; i is distinct from 1
i is not distinct from null; i = null; i != null; not (i = 1.5); not (i8 < 300); (i8 < 300) is true; not (g <> 0.1)
(g = 0.1) = true; not g in (0.1); g = 0.05 + 0.05; i8 between 100 + 100 and 5; i8 = 100 + 100; i8 < i8 + 1
i8 + i8 = -56; i8 - 1 = -129; u8 + u8 = 144; u8 - 10 = -10; i8 / 3 = 42; i % 2 = -1; -7 % 3 = -1; 7 / 2 = 3
1 / 2 = 0.5; i / 2.0 = 0.5; f / 0 > 1; -i = 3; - - i = 1; u8 + i8 > 100; i + 9223372036854775807 > 0; i = f; i8 = u8
i = u64; u64 = f; h = i; t = lt; i + 0 = 9007199254740992.0; b; not b; b = true; b > false; b is true; b is not true
b is false; b is null; not b is null; i is null = b; b in (true, null); b not in (true, null); b and null; b or null
not null; null = null; 1 is null; i < 2 = true; b = (i = 1); (i = 1) = (i = 1); i in (1, null); i not in (1, null)
i in (i8); i in (1+1); i in (null); t in ('a', null); st.x in (5); i is not null is true; i between 1 and 2
i not between 1 and 2; i not between null and 0; t between 'a' and 'b'; i between 2 and 1; t like 'a%'; t like 'A%'
t ilike 'A%'; t not like 'a%'; t like 'B\\%'; t like 'a\\_b'; t like '%'; t like null; lt like 'a%'; t like ''
dict like 'x%'; t || 'x' = 'ax'; starts_with(t, 'a'); ends_with(t, 'b'); contains(t, '_'); lower(t) = 'b%'
upper(t) = 'A'; length(t) = 1; char_length(t) = 1; octet_length(t) = 3; abs(i) = 3; coalesce(i, 0) = 0
ifnull(i, 7) = 7; d = date '2020-01-01'; d > timestamp '2020-01-01 00:00:00'; d < timestamp '2020-01-01 10:00:00'
us = date '2020-01-01'; us = timestamp '2020-01-01 00:00:00'; us >= date '2020-01-01'
us = timestamp '2020-01-01T01:00:00+01:00'; d = date '2020-1-1'; utc = timestamp '2020-01-01 00:00:00'
plus2 = timestamp '2020-01-01 02:00:00'; plus2 = timestamp '2020-01-01 00:00:00Z'
berlin = timestamp '2020-01-01 01:00:00'; berlin > timestamp '2020-07-01 12:00:00'; us = utc; us = plus2; us < plus2
d = us; ms = timestamp '2020-07-01 10:00:00.5'; sec = timestamp '2020-07-01 10:00:00.5'
sec < timestamp '1969-12-31 23:59:59.5'; ns = timestamp '2020-07-01 10:00:00.500000001'
ns < timestamp(9) '2020-07-01 10:00:00.500000001'; sec = ms; ms = us; ns = us; us = cast('2020-01-01' as timestamp)
cast(d as timestamp) = us; cast(us as date) = d; cast(berlin as date) = d; cast(plus2 as timestamp(0)) = sec
d64 = date '2020-01-01'; us in (timestamp '2020-01-01 00:00:00')
us between date '2020-01-01' and date '2020-01-02'; d in (timestamp '2020-01-01 00:00:00'); time = 1; time in (2, 4)
dec = 1; dec > 1; dec = decimal(10,2) '1.5'; bin = X'61'; bin in (X'ff'); fsb = x'6162'; dict = 'x'; t > bin
dict in ('x', 'z'); l is null; st is null; st.x is null; st is not null and st.x is null; nothing is null
cast(i as string) = '1'; i::string = '1'; cast(b as int) = 1; cast(i as double) = 1
cast(i as float) = 9007199254740992; true; false; 1 = 1; 2 > 1.5; not i = 1 and b; i = 1 or b and f > 0; not not b
i = 1 /* a comment */ or i = 2; i8 > i8 + 100; i8 < 1 + i8; i8 between 1 and i8 + 100; i8 in (100 + 100)
t not like null; not (t like null); t like null is null
i = 1 -- a comment
"""
BY_DATAFUSION = """
regexp_like(t, '^a'); regexp_match(t, '^a'); not regexp_match(t, '^a') and i = 1; regexp_match(t, '^a') is null
array_has(l, 1); array_length(l) = 2; array_contains(l, k); l[1] = 2; l[-1] = 3; l = make_array(1); [1] = l
cardinality(l) = 2; array_has(l, st.x) or Up = 2; now() > us; date_part('year', us) = 2020
date_trunc('year', us) = us; round(f) = 1; btrim(t) = 'a'; strpos(t, '%') = 2; left(t, 1) = 'a'; power(i, 2) = 4
try_cast(t as int) = 5; cast(1.5 as bigint) = i; g::string = '1.0'
cast(us as timestamp(3)) = ms and round(f) = 1; coalesce(ns, cast(us as timestamp)) = ns
dec * 2 = 3; dec + f > 1; dec::double > 1; dec + dec = 3; d - d = 0; t || 1 = 'a1'; u64 + 1 > 0; nullif(i, 1) is null
concat(t, "x") = 'ax'; concat(`Up`, '') = '1'; greatest(i, 2) = 2; coalesce(case when i = 1 then true end, false)
abs(ceil(f)) = 1; coalesce(substring(t, 1, 1), '') = 'a'; coalesce(i::varchar, '') = '1'; is_valid(i); not is_valid(t)
round(f) = 1 and f = 0.1 or g = 0.1; round(i) = 1 or f = 0; round(i) = 1 or f <= -0.0; round(i) = 1 or f > 0
round(i) = 1 or f < 0; round(i) = 1 or f >= -0.0; round(i) = 1 or f <> 0; round(i) = 1 or f in (0, 1)
round(i) = 9 or f is distinct from 0; round(i) = 9 or f is not distinct from 0; round(i) = 9 or not f = 0
round(i) = 9 or not g in (0, 0.1); round(i) = 9 or g between 0 and 0.1; round(i) = 9 or not (f between -0.0 and 0.1)
round(i) = 9 or (f = 0) is not true; round(i) = 9 or (f > 0) is false; round(i) = 9 or (0 < f) = true
round(i) = 9 or 0.1 <= g; round(i) = 9 or (g = 0.1) is null; round(i) = 9 or g <> 0.05 + 0.05; i << 1 = 4
round(i) = 9 or g is distinct from 0.1; round(i) = 9 or f is not distinct from g; round(st.x) = 5 and st['y z'] = "r"
coalesce(i & 3, 1) = 1; coalesce(i | 1, 0) = 1; coalesce(i ^ 2, 1) = 3
round(f) = 1 /* and another */; round(2.4) = 2; round(2.4) = 3; random() < 2
round(dec, 1) = dec; round(dec, 1) <> round(dec); dec > round(dec, -1); not (round(dec, 3) = dec); round(i, 1) = i
"""
PREDICATES = [predicate.strip() for line in SAME.strip().splitlines() for predicate in line.split("; ")]
ENGINE_PREDICATES = [predicate.strip() for predicate in BY_DATAFUSION.strip().replace("\n", "; ").split("; ")]

BOTH_REFUSE = [
    *(
        "i = 1.5",
        "i = '5'",
        "i8 = 300",
        "u8 > -1",
        "t = 5",
        "b = 1",
        "b = 'true'",
        "d = '2020-01-01'",
        "us = '2020-01-01'",
    ),
    *("`I` = 1", "`st.x` = 5", "st.X = 5", "nope = 1", "st.nope = 1", "nope(i) = 1", "i", "i + 1", "1", "null", ""),
    *("i = ", "(i = 1", "i in ()", "i ! 1", "i & 1 = 1", "t ~ 'a'", "i <=> 1", "i is true", "b is unknown", "not i"),
    *(
        "t = b",
        "i = b",
        "i = 1 and t",
        "l = 1",
        "t like 'a!_b' escape '!'",
        "i like '1'",
        "exists (select 1)",
        "+i = 1",
    ),
    *("case when b then b else b end", "i in (select 1)", "interval '1 day' = 1", "d = date 'x'", "us = timestamp 'x'"),
    *(
        "substring(t, 1, 1) = 'a'",
        "trim(t) = 'a'",
        "ceil(f) = 1",
        "extract(year from us) = 2020",
        "position('a' in t) = 1",
    ),
    *("i & 3 = 1", "i | 3 = 3", "round(i & 3) = 1 and i | 1 = 1"),
    *("t similar to 'a%'", "us + interval '1 day' > us", "i ^ 2 = 3", "cast(i as varchar) = '1'", "i::text = '1'"),
    *(
        "cast(i as decimal) = 1",
        "sum(i) = 1",
        "t = E'a'",
        "i = any(l)",
        "i > all(l)",
        "b is unknown",
        "round(nope) = 1",
    ),
    *("round(st.nope) = 1", "round(`I`) = 1", "round(f) = 1 and i = 1.5", "i in (1.5) or round(f) = 1", "round(f"),
    *("l[1:2] = l", "round(f) = 1 or i between 0.5 and 1", "round(f)", "round(f) = 1 and t", "make_array(i)"),
    *(
        "us = timestamp '2020-02-30 00:00:00'",
        "us = timestamp '2020-01-01 00:00'",
        "i / 0 = 1",
        "dec = 1.5",
        "b = i is null",
    ),
]

WE_REFUSE = [
    # Text after the end of a predicate is not ignored.
    *("i = 1)", "i = 1 i", "i = 1; i = 2"),
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("filters") / "t")
    lance.write_dataset(ROWS, uri)
    return uri


def _ours(uri: str, predicate: object) -> list[int]:
    return lance_core.dataset(uri).to_table(columns=["k"], filter=predicate)["k"].to_pylist()


def _theirs(uri: str, predicate: object) -> list[int]:
    return lance.dataset(uri).to_table(columns=["k"], filter=predicate)["k"].to_pylist()


@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.sampled(140)
def test_a_filter_finds_the_rows_that_pylance_finds(uri: str, predicate: str) -> None:
    assert _ours(uri, predicate) == _theirs(uri, predicate)


@pytest.mark.parametrize("predicate", ENGINE_PREDICATES)
def test_a_filter_that_datafusion_evaluates_finds_the_rows_that_pylance_finds(uri: str, predicate: str) -> None:
    assert _ours(uri, predicate) == _theirs(uri, predicate)


@pytest.mark.parametrize("predicate", BOTH_REFUSE)
def test_a_filter_that_pylance_refuses_is_refused(uri: str, predicate: str) -> None:
    with pytest.raises((ValueError, OSError, pa.ArrowException)):
        _theirs(uri, predicate)
    with pytest.raises((InvalidInputError, NotSupportedError)):
        _ours(uri, predicate)


@pytest.mark.parametrize("predicate", WE_REFUSE)
def test_a_filter_that_only_pylance_supports_is_refused(uri: str, predicate: str) -> None:
    _theirs(uri, predicate)
    with pytest.raises((InvalidInputError, NotSupportedError)):
        _ours(uri, predicate)


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("i") == 1,
        pc.field("i").isin([1, None]),
        ~pc.field("i").isin([1]),
        pc.field("f").is_nan(),
        pc.field("f") > 0,
        pc.field("f") == 0.0,
        pc.field("t").isin(["a", "5"]),
        pc.field("t") == "a",
        pc.field("b"),
        ~pc.field("b"),
        pc.field("i").is_valid(),
        pc.field("i").is_null(),
        pc.field("d") == dt.date(2020, 1, 1),
        pc.field("us") >= dt.datetime(2020, 1, 1),
        pc.field("i") + 1 == 2,
        pc.starts_with(pc.field("t"), "a"),
        (pc.field("i") == 1) & pc.field("b"),
        (pc.field("i") == 1) | pc.field("b"),
        pc.scalar(True),
    ],
    ids=str,
)
def test_arrow_expressions_find_the_rows_that_pylance_finds(uri: str, expression: pc.Expression) -> None:
    assert _ours(uri, expression) == _theirs(uri, expression)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three fragments, one with deleted rows, one without the newest column."""
    uri = str(tmp_path_factory.mktemp("filters") / "wide")
    rng = np.random.default_rng(5)
    rows = pa.table(
        {
            "id": pa.array(rng.permutation(3000), pa.int64()),
            "s": pa.array([{"x": number, "y": f"y{number}"} if number % 7 else None for number in range(3000)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(12_000, dtype=np.float32)), 4),
            "text": pa.array([f"text {number % 100}" for number in range(3000)]),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=1000)
    lance.dataset(uri).delete("id % 3 = 1 and id < 2000")
    return uri


@pytest.mark.parametrize(
    "predicate", ["id = 17", "id < 5", "id % 2 = 0", "id >= 0", "id < 0", "true", "s.x > 2500", "s is null"]
)
@pytest.mark.parametrize("columns", [None, ["v"], ["id"], ["text", "s.y"], []], ids=str)
@pytest.mark.sampled(4)
def test_a_scan_with_a_filter_equals_that_of_pylance(wide: str, predicate: str, columns: list[str] | None) -> None:
    ours, theirs = lance_core.dataset(wide), lance.dataset(wide)
    for more in (
        {},
        {"limit": 7, "offset": 3},
        {"offset": 1500},
        {"limit": 0},
        {"batch_size": 64},
        {"with_row_id": True, "with_row_address": True},
    ):
        expected = theirs.to_table(columns=columns, filter=predicate, **more)
        found = ours.to_table(columns=columns, filter=predicate, **more)
        assert found.num_rows == expected.num_rows
        if columns != [] or "with_row_id" in more:
            assert found.equals(expected)
        batches = list(ours.to_batches(columns=columns, filter=predicate, **more))
        assert all(0 < batch.num_rows <= more.get("batch_size", 8192) for batch in batches)
    assert ours.count_rows(predicate) == theirs.count_rows(predicate)
    assert ours.head(3, filter=predicate, columns=["id"]).equals(theirs.head(3, filter=predicate, columns=["id"]))


def test_row_id_columns_of_an_unfiltered_scan_equal_those_of_pylance(wide: str) -> None:
    arguments = {"columns": ["id"], "with_row_id": True, "with_row_address": True, "limit": 1500, "offset": 500}
    expected = lance.dataset(wide).to_table(**arguments)
    assert lance_core.dataset(wide).to_table(**arguments).equals(expected)
    scanner = lance_core.dataset(wide).scanner(**arguments)
    assert scanner.projected_schema.equals(expected.schema)
    assert scanner.head(2).equals(expected.slice(0, 2))
    assert scanner.count_rows() == 1500


def test_a_filter_on_fragments_equals_that_of_pylance(wide: str) -> None:
    for ours, theirs in zip(lance_core.dataset(wide).get_fragments(), lance.dataset(wide).get_fragments(), strict=True):
        assert ours.count_rows("id < 100") == theirs.count_rows("id < 100")
        arguments = {"filter": "id < 100", "columns": ["text"], "with_row_address": True}
        assert ours.to_table(**arguments).equals(theirs.to_table(**arguments))
    chosen = lance_core.dataset(wide).get_fragments()[2:0:-1]
    found = lance_core.dataset(wide).scanner(fragments=chosen, filter="id < 100", with_row_address=True).to_table()
    assert sorted(set(found["_rowaddr"].to_numpy() >> 32)) == [1, 2]
    assert found["_rowaddr"][0].as_py() >> 32 == 2


def test_filters_on_columns_that_fragments_lack_equal_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2], "b": [5, None]}), uri)
    lance.write_dataset(pa.table({"a": [3, 4]}), uri, mode="append")
    for predicate in ("b is null", "b = 5", "b is null and a > 2", "not (b = 5)"):
        expected = lance.dataset(uri).to_table(filter=predicate)
        assert lance_core.dataset(uri).to_table(filter=predicate).equals(expected)


def test_stable_row_ids_of_a_scan_equal_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1, 2]}), uri, enable_stable_row_ids=True).update({"a": "3"}, where="a = 1")
    for arguments in ({"with_row_id": True}, {"filter": "a = 2 or _rowid = 0", "with_row_address": True}):
        expected = lance.dataset(uri).to_table(**arguments)
        assert lance_core.dataset(uri).to_table(**arguments).equals(expected)


def test_a_value_error_stops_the_scan_at_the_row_that_raises_it(wide: str) -> None:
    batches = lance_core.dataset(wide).to_batches(columns=["id"], filter="10 / (id - 17) >= 0")
    with pytest.raises(LanceError, match="divide by zero"):
        list(batches)
