"""Predicates evaluated on batches in memory: values, columns, and errors."""

import datetime as dt
import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_core.errors import InvalidInputError, InvalidTypeError, LanceError, NotSupportedError
from lance_core.predicate.predicate import Predicate
from lance_core.schema.convert import schema_from_arrow

NAN = float("nan")
BATCH = pa.record_batch(
    {
        "i": pa.array([1, 2, None, -3], pa.int64()),
        "i8": pa.array([1, 127, None, -128], pa.int8()),
        "u64": pa.array([1, 2**64 - 1, None, 0], pa.uint64()),
        "f": pa.array([1.0, NAN, None, -0.0], pa.float64()),
        "g": pa.array([0.1, NAN, None, 2.0], pa.float32()),
        "h": pa.array(np.array([0.1, NAN, 1, 2], np.float16)),
        "t": pa.array(["a", "B%", None, "a\nb"], pa.string()),
        "b": pa.array([True, False, None, True]),
        "d": pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1), None, dt.date(1969, 12, 31)]),
        "ts": pa.array(
            [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1, 1), None, dt.datetime(1969, 12, 31)], pa.timestamp("ms")
        ),
        "berlin": pa.array([dt.datetime(2020, 1, 1), None, None, None], pa.timestamp("us", "Europe/Berlin")),
        "s": pa.array([{"x": 1, "y z": "q"}, {"x": None, "y z": None}, None, {"x": 5, "y z": ""}]),
        "dec": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25"), decimal.Decimal("-1.10")]),
        "bin": pa.array([b"a", b"", None, b"\xff"]),
        "dict": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "list": pa.array([[1], [], None, [2, 3]]),
        "Upper": pa.array([1, 2, 3, 4]),
        "twin": pa.array([1, 2, 3, 4]),
        "TWIN": pa.array([4, 3, 2, 1]),
        "nothing": pa.nulls(4),
    }
)
SCHEMA = schema_from_arrow(BATCH.schema)


def _rows(condition: object) -> list[int]:
    return np.flatnonzero(Predicate.plan(SCHEMA, condition).matches(BATCH)).tolist()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("i = 1", [0]),
        ("i <> 1", [1, 3]),
        ("not (i = 1 and b)", [1, 3]),
        ("i in (1, null)", [0]),
        ("i not in (1, null)", []),
        ("i is null", [2]),
        ("b is not true", [1, 2]),
        ("b or i is null", [0, 2, 3]),
        ("upper = 2", [1]),
        ("twin = 1", [0]),
        ("TWIN = 1", [3]),
        ("f > 1", [1]),
        ("f = 0", [3]),
        ("f >= 0", [0, 1, 3]),
        ("f = f", [0, 1, 3]),
        ("g = 0.1", [0]),
        ("not (g <> 0.1)", []),
        ("h = 0.1", [0]),
        ("i8 + i8 < 0", [1]),
        ("i % 2 = -1", [3]),
        ("7 / 2 = 3", [0, 1, 2, 3]),
        ("i / 2.0 = 0.5", [0]),
        ("f % 2.0 = 1.0", [0]),
        ("i = u64", [0]),
        ("t like 'a%'", [0, 3]),
        ("t ilike 'b\\%'", [1]),
        ("t like null", []),
        ("lower(t) = 'b%'", [1]),
        ("t || '!' = 'a!'", [0]),
        ("starts_with(t, 'a') and not ends_with(t, 'b')", [0]),
        ("length(t) = 3", [3]),
        ("coalesce(i, 7) = 7", [2]),
        ("isnan(f)", [1]),
        ("abs(i) = 3", [3]),
        ("-i = 3", [3]),
        ("d = date '2020-01-01'", [0]),
        ("d < timestamp '2020-01-01 10:00:00'", [0, 3]),
        ("ts = timestamp '2020-01-01T00:00:00Z'", [0]),
        ("ts = timestamp '2020-01-01 01:00:00+01:00'", [0]),
        ("ts = d", [0, 3]),
        ("berlin = timestamp '2020-01-01 01:00:00'", [0]),
        ("s.x = 5", [3]),
        ("s.`y z` = 'q'", [0]),
        ("s['x'] is null", [1, 2]),
        ("s is null", [2]),
        ("s is not null and s.x is null", [1]),
        ("list is null", [2]),
        ("dec > 1", [0, 2]),
        ("dec in (1, 2) or dec not between -1 and 2", [2, 3]),
        ("bin = X'ff'", [3]),
        ("dict = 'x'", [0, 3]),
        ("nothing is null", [0, 1, 2, 3]),
        ("true", [0, 1, 2, 3]),
        ("i = null", []),
        ("null = null", []),
        ("not null", []),
        ("b and null", []),
        ("cast(i as string) = '2'", [1]),
        ("cast(b as int) = 1", [0, 3]),
        ("i is distinct from null", [0, 1, 3]),
    ],
)
def test_sql_predicate_matches_the_expected_rows(condition: str, rows: list[int]) -> None:
    assert _rows(condition) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (pc.field("i") == 1, [0]),
        (pc.field("f") > 0, [0, 1]),
        (pc.field("i").isin([1, None]), [0]),
        (~pc.field("i").isin([1]), [1, 3]),
        (pc.field("s", "x") == 5, [3]),
        ((pc.field("i") == 1) | pc.field("b"), [0, 3]),
        (pc.field("i").is_null() & pc.field("b").is_null(), [2]),
        (pc.field("i").is_valid(), [0, 1, 3]),
        (pc.field("f").is_nan(), [1]),
        (pc.field("i") + 1 == 2, [0]),
        (pc.field("d") == dt.date(2020, 1, 1), [0]),
        (pc.field("ts") >= dt.datetime(2020, 1, 1), [0, 1]),
        (pc.match_like(pc.field("t"), "a%"), [0, 3]),
        (pc.starts_with(pc.field("t"), "B"), [1]),
        (pc.field("i").cast("float64") == 2.0, [1]),
        (pc.scalar(True), [0, 1, 2, 3]),
        (pc.negate(pc.field("i")) == 3, [3]),
    ],
    ids=str,
)
def test_arrow_expression_matches_the_expected_rows(condition: pc.Expression, rows: list[int]) -> None:
    assert _rows(condition) == rows


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("i = 1 and i < 5", ["i"]),
        ("s.x = 1 or s.`y z` = ''", ["s"]),
        ("s is null or s.x = 1", ["s"]),
        ("1 = 1", []),
        ("UPPER = 1 and f > 0", ["Upper", "f"]),
    ],
)
def test_predicate_reads_only_the_columns_it_names(condition: str, names: list[str]) -> None:
    assert list(Predicate.plan(SCHEMA, condition).wanted.names) == names


def test_predicate_reads_struct_members_without_their_siblings() -> None:
    [struct] = Predicate.plan(SCHEMA, "s.x = 1").wanted.fields
    assert [child.name for child in struct.children] == ["x"]


@pytest.mark.parametrize(
    ("condition", "constant"), [("true", True), ("1 > 2", False), ("null = 1", False), ("b", None)]
)
def test_predicate_without_columns_is_constant(condition: str, constant: bool | None) -> None:
    assert Predicate.plan(SCHEMA, condition).constant is constant


@pytest.mark.parametrize(
    ("condition", "error", "message"),
    [
        ("ii = 1", InvalidInputError, "'ii' does not exist; did you mean 'i"),
        ("s.z = 1", InvalidInputError, "'s.z' does not exist"),
        ("i.x = 1", InvalidInputError, "'i.x' does not exist"),
        ("`UPPER` = 1", InvalidInputError, "'UPPER' does not exist; known"),
        ("Twin = 1", InvalidInputError, "is ambiguous"),
        ("_rowoffset = 1", NotSupportedError, "'_rowoffset' cannot be used"),
        ("i", InvalidInputError, "expected a condition, found type int64"),
        ("i + 1", InvalidInputError, "expected a condition"),
        ("null", InvalidInputError, "expected a condition"),
        ("i and b", InvalidInputError, "i: expected a condition, found type int64"),
        ("not i", InvalidInputError, "expected a condition"),
        ("i is true", InvalidInputError, "expected a condition"),
        ("i = 1.5", InvalidInputError, "literal 1.5 is not a valid value of type int64"),
        ("i = '1'", InvalidInputError, "literal '1' is not a valid value of type int64"),
        ("i8 < 300", InvalidInputError, "literal 300 is not a valid value of type int8"),
        ("u64 > -1", InvalidInputError, "literal -1 is not a valid value of type uint64"),
        ("t = 5", InvalidInputError, "not a valid value of type string"),
        ("d = '2020-01-01'", InvalidInputError, "not a valid value of type date32"),
        ("dec = 1.5", InvalidInputError, "not a valid value of type decimal"),
        ("b = 1", InvalidInputError, "not a valid value of type bool"),
        ("t = b", InvalidInputError, "string and bool cannot be compared"),
        ("list = 1", InvalidInputError, "not a valid value of type list"),
        ("i like 'a'", InvalidInputError, "expected strings, found int64 and string"),
        ("d = date '2020-02-30'", InvalidInputError, "'2020-02-30' is not a valid value of type date32"),
        ("ts = timestamp '2020-01-01 25:00:00'", InvalidInputError, "is not a valid value of type timestamp"),
        ("nope(i) = 1", NotSupportedError, "function 'nope' is not supported"),
        ("lower(i) = 'a'", InvalidInputError, "expected a string, found int64"),
        ("lower(t, t) = 'a'", InvalidInputError, "wrong number of arguments: expected 1, found 2"),
        ("coalesce() = 1", InvalidInputError, "at least one argument"),
        ("-t = 1", InvalidInputError, "cannot be negated"),
        ("1 / 0 = 1", InvalidInputError, "cannot be evaluated: divide by zero"),
        (pc.field("i").is_null(nan_is_null=True), NotSupportedError, "nan_is_null"),
        (pc.field("nope") == 1, InvalidInputError, "'nope' does not exist"),
        (pc.field(0) == 1, NotSupportedError, "cannot be read"),
        ("a = '\ud800'", InvalidInputError, "invalid character at position 6"),
        (pc.utf8_lower(pc.field("t")) == "a", NotSupportedError, "'utf8_lower' is not supported"),
        (pc.starts_with(pc.field("t"), "a", ignore_case=True), NotSupportedError, "ignore_case"),
        (pc.field("i"), InvalidInputError, "expected a condition"),
        (5, InvalidTypeError, "found int"),
        (None, InvalidTypeError, "found NoneType"),
        (b"i = 1", InvalidTypeError, "found bytes"),
    ],
    ids=str,
)
def test_invalid_predicate_is_refused(condition: object, error: type[LanceError], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        Predicate.plan(SCHEMA, condition)
    assert type(raised.value) is error


@pytest.mark.parametrize(
    "condition", ["1 / (i - 1) = 1", "cast(i as tinyint unsigned) = 1", "u64 = 1 and cast(i as bigint unsigned) = 1"]
)
def test_predicate_that_cannot_be_evaluated_for_a_row_raises_invalid_input(condition: str) -> None:
    predicate = Predicate.plan(SCHEMA, condition)
    with pytest.raises(InvalidInputError, match="cannot be evaluated for a row"):
        predicate.matches(BATCH)


def _nested(wrap: Callable[[pc.Expression], pc.Expression]) -> pc.Expression:
    expression = pc.field("b")
    for _ in range(500):
        expression = wrap(expression)
    return expression


def test_deep_arrow_expressions_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="nested more than"):
        _rows(_nested(lambda below: ~below))


def test_long_arrow_expression_chains_are_accepted() -> None:
    expression = pc.field("i") == 1
    for number in range(3000):
        expression = expression | (pc.field("i") == number + 10)
    assert _rows(expression) == [0]


def test_predicate_on_a_batch_without_rows_has_no_matches() -> None:
    assert Predicate.plan(SCHEMA, "i = 1 and t like 'a%' and f % 2.0 = 0").matches(BATCH.slice(0, 0)).tolist() == []


@pytest.mark.parametrize("test", [" between b and true", " in (b, true)", " = b", " is distinct from b"])
def test_deeply_nested_predicate_is_evaluated_in_linear_time(test: str) -> None:
    depth = 40
    assert len(_rows("(" * depth + "b" + f"{test})" * depth)) <= BATCH.num_rows
