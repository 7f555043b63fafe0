"""3,000 generated predicates and 300 generated columns give the results of pylance, or both libraries refuse them.

Every function call contains a column, and no NaN is negated: see the differences in ``docs/concepts/predicates.md``.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

NUM_ROWS = 40
PREDICATES_PER_SEED = 50
COLUMNS_PER_SEED = 30

COLUMNS = {
    "int": ["i", "i8", "u", "req", "st.x", "l[1]", "st['x']"],
    "float": ["f", "g", "v[1]", "st.deep.y"],
    "text": ["t", "big", "d", "st.name", "words[1]"],
    "bool": ["b", "st.flag"],
    "decimal": ["dec", "small"],
    "time": ["ts", "ms", "day"],
    "list": ["l", "words"],
}
_CONSTANT = object()
LITERALS = {
    "int": ["0", "1", "2", "-3", "7", "100"],
    "float": ["0.0", "1.5", "-2.5", "0.1", "2"],
    "text": ["'a'", "''", "'b%'", "'abc'", "'10'", "'Ä'"],
    "bool": ["true", "false"],
    "decimal": ["1", "0", "2.5", "-1"],
    "time": ["date '2020-01-01'", "timestamp '2020-01-02 00:00:00'", "timestamp '1969-12-31 23:59:59'"],
    "list": [],
}
CALLS: dict[str, list[str]] = {
    "int": [
        *("abs({int})", "{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} % 7", "length({text})", "-{int}"),
        *("strpos({text}, 'a')", "array_length({list})", "coalesce({int}, {int})", "nullif({int}, {int})"),
        *("cast({float} as bigint)", "octet_length({text})", "ascii({text})", "greatest({int}, {int})", "{bool}::int"),
        *("character_length({text})", "bit_length({text})", "{int} / 3", "array_position({list}, 1)", "{int} & 3"),
    ],
    "float": [
        *("round({float})", "{float} + {float}", "{float} * {float}", "{int}::double", "cast({int} as float)"),
        *("sqrt(abs({float}))", "floor(round({float}))", "coalesce({float}, {float})", "power({float}, 2)"),
        *("date_part('year', {time})", "trunc({float})", "nanvl({float}, {float})", "least({float}, {float})"),
        *("cast({text} as double)", "try_cast({text} as double)", "signum({float})"),
    ],
    "text": [
        *("lower({text})", "upper({text})", "{text} || {text}", "concat({text}, {text})", "left({text}, 2)"),
        *(
            "cast({int} as string)",
            "btrim({text})",
            "reverse({text})",
            "replace({text}, 'a', 'bc')",
            "repeat({text}, 2)",
        ),
        *("coalesce({text}, {text})", "nullif({text}, {text})", "split_part({text}, 'a', 1)", "md5({text})"),
        *("lpad({text}, 4, 'x')", "initcap({text})", "regexp_replace({text}, '[ab]', 'c')", "{bool}::string"),
        *("array_to_string({list}, ',')", "concat_ws('-', {text}, {text})", "substr({text}, 2)"),
    ],
    "bool": [
        *(
            "{int} = {int}",
            "{int} < {int}",
            "{float} >= {float}",
            "{text} <> {text}",
            "{time} < {time}",
            "{decimal} > {decimal}",
        ),
        *(
            "{text} like 'a%'",
            "{text} ilike '%B%'",
            "{text} in ('a', 'b')",
            "{int} in (1, 2, 7)",
            "{int} between 0 and 7",
        ),
        *("{int} is null", "{text} is not null", "not ({bool})", "({bool}) and ({bool})", "({bool}) or ({bool})"),
        *("regexp_like({text}, '^a')", "starts_with({text}, 'a')", "array_has({list}, 1)", "isnan({float})"),
        *("({bool}) is true", "({bool}) is not false", "{int} is distinct from {int}", "coalesce({bool}, false)"),
        *("contains({text}, 'a')", "ends_with({text}, 'b')", "{list} = {list}", "empty({list})", "{int} = {float}"),
        *("{decimal} = {int}", "{text} = {int}", "array_has_any({list}, {list})", "{float} not between 0.0 and 1.5"),
    ],
    "decimal": [
        *("{decimal} + {decimal}", "{decimal} * 2", "abs({decimal})", "cast({int} as decimal(12, 2))"),
        *("coalesce({decimal}, {decimal})", "{decimal} - {int}", "-{decimal}"),
    ],
    "time": [
        *(
            "date_trunc('month', {time})",
            "coalesce({time}, {time})",
            "cast({time} as timestamp)",
            "to_timestamp({int})",
        ),
        *("cast({time} as date)", "greatest({time}, {time})", "nullif({time}, {time})"),
    ],
    "list": [
        *("make_array({int}, {int})", "array_append({list}, 1)", "array_sort({list})", "array_reverse({list})"),
        *("array_distinct({list})", "array_concat({list}, {list})", "array_slice({list}, 1, 2)"),
    ],
}


def expression(choose: random.Random, kind: str, depth: int) -> str:
    """Return an expression that mostly has a type of the given kind."""
    if depth == 0 or (not CALLS[kind]) or choose.random() < 0.15:
        literals = LITERALS[kind]
        return choose.choice(literals if literals and choose.random() < 0.3 else COLUMNS[kind])
    text = choose.choice(CALLS[kind])
    has_column = False
    while (start := text.find("{")) >= 0:
        stop = text.index("}", start)
        wanted = text[start + 1 : stop]
        inner = expression(choose, wanted, depth - 1)
        if inner in LITERALS[wanted] and "{" not in text[stop:] and not has_column:
            inner = choose.choice(COLUMNS[wanted])
        has_column = has_column or inner not in LITERALS[wanted]
        text = text[:start] + inner + text[stop + 1 :]
    return text


def _rows() -> pa.Table:
    choose = random.Random(5)

    def column(dtype: pa.DataType, make: Callable[[], object]) -> pa.Array:
        return pa.array([None if choose.random() < 0.15 else make() for _ in range(NUM_ROWS)], dtype)

    def number() -> int:
        return choose.choice([0, 1, 2, 3, 7, 100, -3])

    def real() -> float:
        return choose.choice([0.0, -0.0, 1.5, -2.5, 0.1, 1e9, float("nan"), float("inf")])

    def word() -> str:
        return choose.choice(["a", "", "ab", "B", "10", "a%b", "Ä", "abc"])

    def struct() -> dict[str, object]:
        return {"x": number(), "name": word(), "flag": choose.random() < 0.5, "deep": {"y": real()}}

    structs = pa.struct(
        [
            ("x", pa.int32()),
            ("name", pa.string()),
            ("flag", pa.bool_()),
            ("deep", pa.struct([("y", pa.float32())])),
        ]
    )
    columns = {
        "i": column(pa.int64(), number),
        "i8": column(pa.int8(), number),
        "u": column(pa.uint32(), lambda: abs(number())),
        "f": column(pa.float32(), real),
        "g": column(pa.float64(), real),
        "t": column(pa.string(), word),
        "big": column(pa.large_string(), word),
        "d": column(pa.string(), word).dictionary_encode(),
        "b": column(pa.bool_(), lambda: choose.random() < 0.5),
        "dec": column(pa.decimal128(10, 2), lambda: Decimal(number())),
        "small": column(pa.decimal128(5, 1), lambda: Decimal(number())),
        "ts": column(pa.timestamp("us"), lambda: choose.choice([0, 1, -1, 1577836800 * 10**6, 1580000000 * 10**6])),
        "ms": column(pa.timestamp("ms"), lambda: choose.choice([0, 1577836800000, 1580000000000])),
        "day": column(pa.date32(), lambda: choose.choice([0, -1, 18262, 18263])),
        "l": column(pa.list_(pa.int64()), lambda: [number() for _ in range(choose.randrange(4))]),
        "words": column(pa.list_(pa.string()), lambda: [word() for _ in range(choose.randrange(3))]),
        "v": column(pa.list_(pa.float32(), 2), lambda: [1.0, real()]),
        "st": column(structs, struct),
    }
    required = pa.field("req", pa.int64(), nullable=False)
    return pa.table(columns).append_column(required, pa.array(range(NUM_ROWS), pa.int64()))


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("generated") / "t.lance")
    lance.write_dataset(_rows(), path, max_rows_per_file=15)
    return path


def _theirs(read: Callable[[], object]) -> object:
    """Return the result of pylance, None if it refuses, or a special object for constants, which it does not scan."""
    try:
        return read()
    except BaseException as error:  # a panic is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return _CONSTANT if "only dynamic expressions" in str(error) else None


def _ours(read: Callable[[], object]) -> object:
    try:
        return read()
    except (InvalidInputError, NotSupportedError):
        return None


def _rows_of(table: pa.Table) -> object:
    return table.schema.types, repr(table.to_pydict())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(60))
def test_generated_predicates_find_the_rows_that_pylance_finds(uri: str, seed: int) -> None:
    choose = random.Random(seed)
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    answered = 0
    for _ in range(PREDICATES_PER_SEED):
        text = expression(choose, "bool", choose.randint(1, 3))
        expected = _theirs(lambda text=text: _rows_of(theirs.to_table(columns=["req"], filter=text)))
        assert (text, _ours(lambda text=text: _rows_of(ours.to_table(columns=["req"], filter=text)))) == (
            text,
            expected,
        )
        answered += expected is not None
    assert answered > PREDICATES_PER_SEED / 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(10))
def test_generated_columns_have_the_values_that_pylance_computes(uri: str, seed: int) -> None:
    choose = random.Random(1000 + seed)
    ours, theirs = lance_core.dataset(uri), lance.dataset(uri)
    answered = 0
    for _ in range(COLUMNS_PER_SEED):
        text = expression(choose, choose.choice(list(CALLS)), choose.randint(1, 3))
        expected = _theirs(lambda text=text: _rows_of(theirs.to_table(columns={"found": text})))
        if expected is _CONSTANT:
            continue
        assert (text, _ours(lambda text=text: _rows_of(ours.to_table(columns={"found": text})))) == (text, expected)
        answered += expected is not None
    assert answered > COLUMNS_PER_SEED / 3
