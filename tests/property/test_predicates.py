"""Generated predicates select the same rows as in pylance, in scans, counts, and deletes."""

import datetime as dt
import shutil
import tempfile

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core

NEGATIVE_NAN = np.array([0xFFF8 << 48], np.uint64).view(np.float64)[0]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, float("nan"), NEGATIVE_NAN, float("inf"), float("-inf"), 2.0**53, 1e-300, None]
TEXTS = ["", "a", "A", "ab", "a%", "a_b", "a\\b", "ß", "SS", "ſ", "K", "été", "a\nb", "it's", "zz", None]
DAYS = [dt.date(2020, 1, 1), dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(1700, 1, 1), None]
TIMES = [
    dt.datetime(2020, 1, 1),
    dt.datetime(2020, 1, 1, 0, 0, 0, 1),
    dt.datetime(2020, 2, 29, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
    None,
]


def _rows(seed: int, num_rows: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def draw(values: list, dtype: pa.DataType) -> pa.Array:
        return pa.array([values[index] for index in rng.integers(0, len(values), num_rows)], dtype)

    inner = pa.StructArray.from_arrays(
        [draw([0, 1, -1, 7, None], pa.int32()), draw(TEXTS, pa.string())],
        names=["x", "a name"],
        mask=pa.array(rng.random(num_rows) < 0.2),
    )
    return pa.table(
        {
            "i": draw([0, 1, 2, 3, -1, -7, 100, 2**53 + 1, 2**63 - 1, -(2**63), None], pa.int64()),
            "i8": draw([0, 1, 2, -1, 100, 127, -128, None], pa.int8()),
            "u8": draw([0, 1, 2, 100, 200, 255, None], pa.uint8()),
            "u64": draw([0, 1, 2**63, 2**64 - 1, None], pa.uint64()),
            "f": draw(FLOATS, pa.float64()),
            "g": draw(FLOATS, pa.float32()),
            "s": draw(TEXTS, pa.string()),
            "ls": draw(TEXTS, pa.large_string()),
            "b": draw([True, False, None], pa.bool_()),
            "d": draw(DAYS, pa.date32()),
            "ts": draw(TIMES, pa.timestamp("us")),
            "ms": draw([time and time.replace(microsecond=500000) for time in TIMES], pa.timestamp("ms")),
            "tz": draw(TIMES, pa.timestamp("us", "UTC")),
            "st": inner,
            "Key": pa.array(range(num_rows), pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three fragments, of which one has deleted rows."""
    uri = str(tmp_path_factory.mktemp("predicates") / "t")
    lance.write_dataset(_rows(7, 240), uri, max_rows_per_file=80)
    lance.dataset(uri).delete("Key % 10 = 3 and Key < 80")
    return uri


COMPARISONS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
INTEGERS = {
    "i": st.sampled_from(["0", "1", "-1", "2", "100", "9007199254740993", "9223372036854775807", "null"]),
    "i8": st.sampled_from(["0", "1", "-1", "100", "127", "-128"]),
    "u8": st.sampled_from(["0", "1", "200", "255"]),
    "st.x": st.sampled_from(["0", "1", "-1", "7", "8"]),
}
NUMBERS = st.sampled_from(["0", "0.0", "-0.0", "1", "-1.5", "0.1", "1e300", "cast('nan' as double)", "null"])
QUOTED = st.sampled_from(["''", "'a'", "'A'", "'ab'", "'a%'", "'ß'", "'it''s'", '"zz"', "'K'"])
PATTERNS = st.sampled_from(
    [
        "'%'",
        "'a%'",
        "'%b'",
        "'a_b'",
        "'A%'",
        "'_'",
        "'__'",
        "''",
        r"'a\%'",
        r"'a\\b'",
        r"'%\'",
        "'ss'",
        "'S%'",
        "'ß'",
        "'k'",
        "'été'",
        "'%.%'",
        "null",
    ]
)
MOMENTS = st.sampled_from(
    [
        "timestamp '2020-01-01 00:00:00'",
        "timestamp '2020-01-01T00:00:00.000001'",
        "timestamp '1969-12-31 23:59:59.5'",
        "timestamp '2020-02-29 23:59:59.999999999'",
        "date '2020-01-01'",
        "date '1969-12-31'",
    ]
)
TEXT_COLUMNS = st.sampled_from(["s", "ls", "st.`a name`", "lower(s)", "upper(s)", "s || 'b'"])
TIME_COLUMNS = st.sampled_from(["d", "ts", "ms", "tz"])


def _integer_tests() -> st.SearchStrategy[str]:
    def of(column: str) -> st.SearchStrategy[str]:
        values = INTEGERS[column]
        plain = values.filter(lambda value: value != "null")
        return st.one_of(
            st.builds("{} {} {}".format, st.just(column), COMPARISONS, values),
            st.builds("{1} {2} {0}".format, st.just(column), values, COMPARISONS),
            st.builds("{} in ({})".format, st.just(column), st.lists(values, min_size=1, max_size=4).map(", ".join)),
            st.builds(
                "{} not in ({})".format, st.just(column), st.lists(values, min_size=1, max_size=3).map(", ".join)
            ),
            st.builds("{} between {} and {}".format, st.just(column), values, values),
            st.builds("{} not between {} and {}".format, st.just(column), plain, plain),
            st.builds("{} + {} {} {}".format, st.just(column), plain, COMPARISONS, plain),
            st.builds("{} * {} {} {}".format, st.just(column), plain, COMPARISONS, plain),
            st.builds("{} % {} = {}".format, st.just(column), st.sampled_from(["2", "3", "-3", "7"]), plain),
            st.builds("{} / {} {} {}".format, st.just(column), st.sampled_from(["2", "-3"]), COMPARISONS, plain),
            st.builds("coalesce({}, 1) {} {}".format, st.just(column), COMPARISONS, plain),
            st.builds("cast({} as double) {} {}".format, st.just(column), COMPARISONS, NUMBERS),
        )

    return st.sampled_from(sorted(INTEGERS)).flatmap(of)


FLOAT_TESTS = st.sampled_from(["f", "g"]).flatmap(
    lambda column: st.one_of(
        st.builds("{} {} {}".format, st.just(column), COMPARISONS, NUMBERS),
        st.builds("{} in ({})".format, st.just(column), st.lists(NUMBERS, min_size=1, max_size=4).map(", ".join)),
        st.builds("{} not in ({})".format, st.just(column), st.lists(NUMBERS, min_size=1, max_size=3).map(", ".join)),
        st.builds("{} between {} and {}".format, st.just(column), NUMBERS, NUMBERS),
        st.builds("{} * 2 {} {}".format, st.just(column), COMPARISONS, NUMBERS),
        st.builds("abs({}) {} {}".format, st.just(column), COMPARISONS, NUMBERS),
        st.builds("({} {} distinct from {})".format, st.just(column), st.sampled_from(["is", "is not"]), NUMBERS),
        st.just(f"isnan({column})"),
    )
)
TEXT_TESTS = st.one_of(
    st.builds("{} {} {}".format, TEXT_COLUMNS, COMPARISONS, QUOTED),
    st.builds("{} in ({})".format, TEXT_COLUMNS, st.lists(QUOTED, min_size=1, max_size=4).map(", ".join)),
    st.builds("{} between {} and {}".format, TEXT_COLUMNS, QUOTED, QUOTED),
    st.builds("{} like {}".format, TEXT_COLUMNS, PATTERNS),
    st.builds("{} not like {}".format, TEXT_COLUMNS, PATTERNS),
    st.builds("{} ilike {}".format, TEXT_COLUMNS, PATTERNS),
    st.builds("length({}) {} {}".format, TEXT_COLUMNS, COMPARISONS, st.sampled_from("0123")),
    st.builds("octet_length({}) > {}".format, TEXT_COLUMNS, st.sampled_from("0123")),
    st.builds(
        "{}({}, {})".format,
        st.sampled_from(["starts_with", "ends_with", "contains"]),
        st.sampled_from(["s", "ls"]),
        QUOTED,
    ),
)
TIME_TESTS = st.one_of(
    st.builds("{} {} {}".format, TIME_COLUMNS, COMPARISONS, MOMENTS),
    st.builds("{} in ({})".format, TIME_COLUMNS, st.lists(MOMENTS, min_size=1, max_size=3).map(", ".join)),
    st.builds("{} between {} and {}".format, TIME_COLUMNS, MOMENTS, MOMENTS),
    st.builds("{} {} {}".format, TIME_COLUMNS, COMPARISONS, TIME_COLUMNS),
)
COLUMN_TESTS = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["i", "i8", "u8", "u64", "f", "g", "st.x"]),
        COMPARISONS,
        st.sampled_from(["i", "i8", "u8", "u64", "f", "g", "st.x"]),
    ),
    st.builds("{} {} {}".format, st.sampled_from(["s", "ls"]), COMPARISONS, st.sampled_from(["s", "ls"])),
    st.builds(
        "{} is {} null".format,
        st.sampled_from(["i", "f", "s", "b", "d", "ts", "st", "st.x", "key", "st.`a name`"]),
        st.sampled_from(["", "not"]),
    ),
)
TRUTHS = st.one_of(
    st.sampled_from(["b", "b = true", "b <> false", "b < true", "b in (true, null)", "true", "false"]),
    st.builds("b is {}".format, st.sampled_from(["true", "false", "not true", "not false", "null", "not null"])),
    st.sampled_from(["KEY % 2 = 0", "`Key` < 100", "key > 20"]),
)
TESTS = st.one_of(_integer_tests(), FLOAT_TESTS, TEXT_TESTS, TIME_TESTS, COLUMN_TESTS, TRUTHS)
# NOT, IS, and = apply only to single conditions, because the reference evaluates "x AND NOT x" to false for nulls.
CONDITIONS = st.recursive(
    st.one_of(
        TESTS,
        st.builds("not {}".format, TESTS),
        st.builds("not ({})".format, TESTS),
        st.builds("({}) = ({})".format, TESTS, TESTS),
        st.builds("({}) is not true".format, TESTS),
        st.builds("({}) is null".format, TESTS),
    ),
    lambda below: st.one_of(
        st.builds("{} and {}".format, below, below),
        st.builds("{} or {}".format, below, below),
        st.builds("({} or {}) and {}".format, below, below, below),
        st.builds("({} and {}) or {}".format, below, below, below),
    ),
    max_leaves=4,
)


def _check_answers(uri: str, predicate: str) -> None:
    expected = lance.dataset(uri).to_table(columns=["Key"], filter=predicate)["Key"].to_pylist()
    dataset = lance_core.dataset(uri)
    assert dataset.to_table(columns=["Key"], filter=predicate)["Key"].to_pylist() == expected
    assert dataset.count_rows(predicate) == len(expected)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(predicate=CONDITIONS)
def test_a_random_predicate_finds_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    _check_answers(uri, predicate)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(predicate=CONDITIONS)
def test_more_random_predicates_find_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    _check_answers(uri, predicate)


@pytest.mark.soak
@settings(max_examples=2000, deadline=None, derandomize=True, database=None)
@given(predicate=CONDITIONS)
def test_many_random_predicates_find_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    _check_answers(uri, predicate)


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(predicate=CONDITIONS)
def test_a_delete_by_a_random_predicate_removes_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    results = []
    for implementation in (lance, lance_core):
        with tempfile.TemporaryDirectory() as directory:
            copy = f"{directory}/t"
            shutil.copytree(uri, copy)
            deleted = implementation.dataset(copy).delete(predicate)["num_deleted_rows"]
            reference = lance.dataset(copy)
            reference.validate()
            fragments = [(each.fragment_id, each.num_deletions) for each in reference.get_fragments()]
            results.append((deleted, reference.to_table(columns=["Key"])["Key"].to_pylist(), fragments))
    assert results[0] == results[1]
