"""Operators have the same precedence as in pylance: generated predicates select the same rows, or are refused."""

import itertools

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError

TRUTHS = [True, False, None]
ROWS = pa.table(
    [
        *zip(*itertools.product(TRUTHS, TRUTHS, TRUTHS, [0, 1, 3], [1, 2, None], ["a", "ab", None]), strict=True),
        range(3**6),
    ],
    schema=pa.schema(
        [
            *((name, pa.bool_()) for name in "pqr"),
            *((name, pa.int64()) for name in "ij"),
            ("s", pa.string()),
            ("key", pa.int64()),
        ]
    ),
)
TRUTH, NUMBER = st.sampled_from(["p", "q", "r", "true"]), st.sampled_from(["i", "j", "1", "-2"])
NOT = st.sampled_from(["", "", "not "])
POSTFIX = st.sampled_from(["", "", "", " is null", " is not null", " is true", " is not false"])


def _operand(column: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return an operand: a column with optional operators before and after it."""
    # Lists have one item, because the reference evaluates "r in (p, p) and r in (q, q)" to false.
    ranges = st.one_of(
        st.builds(" {}in ({})".format, NOT, column),
        st.builds(" {}between {} and {}".format, NOT, column, column),
    )
    return st.builds("{}{}{}{}".format, NOT, column, st.one_of(st.just(""), st.just(""), ranges), POSTFIX)


def _chain(operand: st.SearchStrategy[str], operators: list[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda first, more: " ".join([first, *itertools.chain.from_iterable(more)]),
        operand,
        st.lists(st.tuples(st.sampled_from(operators), operand), min_size=1, max_size=4),
    )


COMPARISONS = ["=", "<", "<>", ">=", "and", "or"]
LIKES = st.builds("{}s {}like {}{}".format, NOT, NOT, st.sampled_from(["'a%'", "'_b'", "'%'"]), POSTFIX)
CONDITIONS = st.one_of(
    _chain(_operand(TRUTH), COMPARISONS),
    _chain(st.one_of(LIKES, _operand(TRUTH)), COMPARISONS),
    _chain(TRUTH, ["and", "or", "="]),
)
SUMS = _chain(NUMBER, ["+", "-", "*", "%"])
SUM_CONDITIONS = st.one_of(
    st.builds("{} {} {}".format, SUMS, st.sampled_from(["=", "<", ">=", "<>"]), SUMS),
    st.builds("{} {}between {} and {} {} p".format, SUMS, NOT, SUMS, SUMS, st.sampled_from(["and", "or", "="])),
    st.builds("{}{} {}in ({}){}".format, NOT, SUMS, NOT, SUMS, POSTFIX),
    st.builds("{}{}{}".format, NOT, SUMS, st.sampled_from([" is null", " is not null", " is distinct from 1"])),
)
ANYTHING = _chain(st.one_of(_operand(TRUTH), _operand(NUMBER), LIKES), [*COMPARISONS, "+", "*", "-"])
MIXTURES = st.one_of(CONDITIONS, SUM_CONDITIONS, ANYTHING)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with all combinations of a few values."""
    uri = str(tmp_path_factory.mktemp("precedence") / "t")
    lance.write_dataset(ROWS, uri)
    return uri


def _check_unless_refused(uri: str, predicate: str) -> None:
    try:
        found = lance_core.dataset(uri).to_table(columns=["key"], filter=predicate)
    except (InvalidInputError, NotSupportedError):
        return
    expected = lance.dataset(uri).to_table(columns=["key"], filter=predicate)
    assert found["key"].to_pylist() == expected["key"].to_pylist()


@pytest.mark.parametrize("mixtures", [CONDITIONS, SUM_CONDITIONS, ANYTHING], ids=["conditions", "sums", "anything"])
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_predicates_without_parentheses_find_the_same_rows_as_pylance_or_are_refused(
    uri: str, mixtures: st.SearchStrategy[str], data: st.DataObject
) -> None:
    _check_unless_refused(uri, data.draw(mixtures))


@pytest.mark.slow
@settings(max_examples=450, deadline=None, derandomize=True, database=None)
@given(predicate=MIXTURES)
def test_more_predicates_without_parentheses_find_the_same_rows_as_pylance_or_are_refused(
    uri: str, predicate: str
) -> None:
    _check_unless_refused(uri, predicate)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None, derandomize=True, database=None)
@given(predicate=MIXTURES)
def test_many_predicates_without_parentheses_find_the_same_rows_as_pylance_or_are_refused(
    uri: str, predicate: str
) -> None:
    _check_unless_refused(uri, predicate)
