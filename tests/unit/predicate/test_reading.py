"""Parsing predicates: operator precedence, and what is refused."""

import contextlib

import pyarrow as pa
import pytest

from lance_core.errors import InvalidInputError, LanceError, NotSupportedError
from lance_core.predicate import syntax
from lance_core.predicate.reading import parse


def _shape(node: syntax.Node) -> str:
    """Return the predicate with all parentheses."""
    match node:
        case syntax.Name():
            return ".".join(node.path)
        case syntax.Value():
            return repr(node.scalar.as_py())
        case syntax.Logical():
            return f"({f' {node.operator} '.join(map(_shape, node.operands))})"
        case syntax.Not():
            return f"(NOT {_shape(node.operand)})"
        case syntax.Negation():
            return f"(-{_shape(node.operand)})"
        case syntax.Infix():
            return f"({_shape(node.left)} {node.operator} {_shape(node.right)})"
        case syntax.Test():
            return f"({_shape(node.operand)} IS {'NOT ' * node.negated}{node.what})"
        case syntax.Membership():
            return f"({_shape(node.operand)} {'NOT ' * node.negated}IN {', '.join(map(_shape, node.items))})"
        case syntax.Between():
            return f"({_shape(node.operand)} {'NOT ' * node.negated}BETWEEN {_shape(node.low)} {_shape(node.high)})"
        case syntax.Like():
            kind = "ILIKE" if node.ignores_case else "LIKE"
            return f"({_shape(node.operand)} {'NOT ' * node.negated}{kind} {_shape(node.pattern)})"
        case syntax.Cast():
            return f"({_shape(node.operand)} AS {node.target})"
        case syntax.Call():
            return f"{node.function}({', '.join(map(_shape, node.arguments))})"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("a = 1 or b = 2 and not c", "((a = 1) OR ((b = 2) AND (NOT c)))"),
        ("a or b or c", "(a OR b OR c)"),
        ("not a = 1", "(NOT (a = 1))"),
        ("not a is null and b", "((NOT (a IS NULL)) AND b)"),
        ("a = b is null", "((a = b) IS NULL)"),
        ("a is null = b", "((a IS NULL) = b)"),
        ("a < 2 = true", "((a < 2) = True)"),
        ("true = a < 2", "((True = a) < 2)"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a - b - c", "((a - b) - c)"),
        ("-a * b", "((-a) * b)"),
        ("- 5", "-5"),
        ("-(5)", "(-5)"),
        ("a == 1 and b != 2", "((a = 1) AND (b <> 2))"),
        ("a between 1 and 2 and b", "((a BETWEEN 1 2) AND b)"),
        ("a not between 1 + 1 and 2", "(a NOT BETWEEN (1 + 1) 2)"),
        ("a not in (1, null, 'x')", "(a NOT IN 1, None, 'x')"),
        ("a not like 'x%' or b ilike 'y'", "((a NOT LIKE 'x%') OR (b ILIKE 'y'))"),
        ("a is not distinct from 1 + 1", "(a NOT DISTINCT (1 + 1))"),
        ("a is distinct from b and c", "(a DISTINCT (b AND c))"),
        ("s.`x y`.z = `t`['u']", "(s.x y.z = t.u)"),
        ("date '2020-01-01' < d", "(('2020-01-01' AS date32[day]) < d)"),
        ("date = 1", "(date = 1)"),
        ("timestamp(3) '2020-01-01' < t", "(('2020-01-01' AS timestamp[ms]) < t)"),
        ("cast(a as bigint unsigned) = 1", "((a AS uint64) = 1)"),
        ("a::string = '1'", "((a AS string) = '1')"),
        ("decimal(10, 2) '1.5' = a", "(('1.5' AS decimal128(10, 2)) = a)"),
        ("Lower(a) || f() = 'x'", "((lower(a) || f()) = 'x')"),
        ("((a))", "a"),
        ("not a in (1)", "(NOT (a IN 1))"),
        ("not a not like 'x'", "(NOT (a NOT LIKE 'x'))"),
        ("not a is not null", "(NOT (a IS NOT NULL))"),
        ("a = not b = c", "(a = (NOT (b = c)))"),
        ("a like b = c", "(a LIKE (b = c))"),
        ("a is null like b", "((a IS NULL) LIKE b)"),
        ("a in (1) + 2 between 3 and 4", "(((a IN 1) + 2) BETWEEN 3 4)"),
        ("-a::int", "(-(a AS int32))"),
        ("-5::int", "(-5 AS int32)"),
        ("- -.5", "(--0.5)"),
        ("Date.Int = As.Select.`Or`", "(Date.Int = As.Select.Or)"),
        ("length(a) + IfNull(b, 1) = 2", "((length(a) + ifnull(b, 1)) = 2)"),
        ("cast(cast as decimal(3, 1)) = cast", "((cast AS decimal128(3, 1)) = cast)"),
        ("a is not true is false", "((a IS NOT TRUE) IS FALSE)"),
    ],
)
def test_operators_bind_by_precedence(text: str, shape: str) -> None:
    assert _shape(parse(text)) == shape


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("9223372036854775808", pa.uint64(), 2**63),
        ("18446744073709551616", pa.float64(), 2.0**64),
        ("1.0", pa.float64(), 1.0),
        ("1e2", pa.float64(), 100.0),
        ("1" + "0" * 400, pa.float64(), float("inf")),
    ],
)
def test_number_literal_has_a_type_that_can_represent_it(text: str, dtype: pa.DataType, value: float) -> None:
    node = parse(text)
    assert isinstance(node, syntax.Value)
    assert node.scalar.type == dtype
    assert node.scalar.as_py() == value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1),
        ("  ", 3),
        ("a = ", 5),
        ("a = 1 and", 10),
        ("(a = 1", 7),
        ("a = 1)", 6),
        ("a = 1 b", 7),
        ("a in ()", 7),
        ("a in (1", 8),
        ("a is", 5),
        ("a is 5", 6),
        ("a between 1", 12),
        ("a between 1 or 2", 13),
        ("a not 5", 3),
        ("a. = 1", 4),
        ("= 1", 1),
        ("and", 1),
        ("f(1,", 5),
        ("cast(a)", 7),
        ("cast(a as int", 14),
        ("(cast(a as int)", 16),
        ("a, b", 2),
        ("a; b", 2),
        ("'a' 'b'", 5),
        ("a.'b'", 3),
        ("a between symmetric 1 and 2", 21),
        ("a in b", 6),
        ("a in [1]", 6),
        ("a in (1,)", 9),
        ("(a, b)", 3),
        ("f(a) over ()", 6),
        ("f(distinct a)", 12),
        ("a isnull", 3),
        ("a <=> b", 5),
        ("[1]", 1),
        ("a::", 4),
    ],
)
def test_malformed_predicate_is_refused_with_the_position_of_the_error(text: str, place: int) -> None:
    with pytest.raises(InvalidInputError, match=f"cannot be parsed at character {place}: expected"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "case when a then b end",
        "exists (select 1)",
        "interval '1 day' = a",
        "a in (select 1)",
        "a like 'x' escape '!'",
        "cast(a as nothing)",
        "cast(a as timestamp(4))",
        "try_cast(a as int)",
        "a[1] = 2",
    ],
)
def test_unsupported_sql_syntax_raises_not_supported(text: str) -> None:
    with pytest.raises(NotSupportedError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "(" * 100 + "a" + ")" * 100,
        "not " * 20_000 + "a",
        "- " * 20_000 + "a",
        "a" + " + 1" * 20_000,
        "a = " * 20_000 + "1",
        "abs(" * 20_000,
        "a" + " is null" * 20_000,
        "a" + "::int" * 20_000,
        "a in (" * 20_000,
        "cast(" * 20_000,
    ],
)
@pytest.mark.sampled(1)
def test_deeply_nested_predicate_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="nested more than"):
        parse(text)


@pytest.mark.parametrize("text", ["a[" * 20_000, "a" + "['x']" * 20_000, "int(" * 20_000, "a[date(1)[" * 20_000])
@pytest.mark.sampled(1)
def test_predicate_nesting_that_would_exhaust_the_stack_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="nested"):
        parse(text)


def test_parsing_a_predicate_logs_and_prints_nothing(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(0):
        for text in ("a['x'] = 1 /* sqlglot.anonymous */", "copy", "show tables", "a[1] = 2", "cast(a as x)", "a :: 5"):
            with contextlib.suppress(LanceError):
                parse(text)
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_parsed_predicate_keeps_the_text_of_its_parts() -> None:
    node = parse("( a ) + 1 = date '2020-01-01' and not (b IN (c, - 2))")
    assert isinstance(node, syntax.Logical)
    comparison, inversion = node.operands
    assert isinstance(comparison, syntax.Infix)
    assert [each.text for each in (comparison, comparison.left, comparison.right, inversion)] == [
        "( a ) + 1 = date '2020-01-01'",
        "( a ) + 1",
        "date '2020-01-01'",
        "not (b IN (c, - 2))",
    ]


def test_predicate_nesting_up_to_the_limit_is_accepted() -> None:
    assert _shape(parse("(" * 50 + "a" + ")" * 50)) == "a"


def test_long_predicate_chains_and_lists_are_accepted() -> None:
    chain = parse(" or ".join(f"a = {number}" for number in range(5_000)))
    assert isinstance(chain, syntax.Logical)
    assert len(chain.operands) == 5_000
    members = parse(f"a in ({', '.join(map(str, range(5_000)))})")
    assert isinstance(members, syntax.Membership)
    assert len(members.items) == 5_000
