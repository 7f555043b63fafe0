"""Parses a predicate, and converts sqlglot's expressions to the nodes of ``syntax``.

sqlglot splits the text into tokens (``tokenizer``) and builds a tree (``parser``). This module uses a table to convert
each supported class of sqlglot expressions to the corresponding node. All other classes are rejected.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from sqlglot import exp

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.parser import SPAN, parse_tree
from lance_core.predicate.syntax import (
    MAX_HEIGHT,
    Between,
    Call,
    Cast,
    Infix,
    Like,
    Logical,
    Membership,
    Name,
    Negation,
    Node,
    Not,
    Test,
    Value,
    checked_height,
)
from lance_core.predicate.type_names import type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["parse"]

_OPERATORS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.NullSafeNEQ: "DISTINCT",
    exp.NullSafeEQ: "NOT DISTINCT",
    exp.And: "AND",
    exp.Or: "OR",
}

_CONSTANTS: Final[Mapping[str, pa.Scalar]] = MappingProxyType(
    {"TRUE": pa.scalar(True), "FALSE": pa.scalar(False), "NULL": pa.scalar(None)}
)
"""Maps keywords to the constants that they represent."""

_INT64: Final = range(-(2**63), 2**63)
_UINT64: Final = range(2**64)


def parse(text: str) -> Node:
    """Parse a predicate.

    Raises:
        InvalidInputError: the text cannot be parsed, or is nested too deeply.
        NotSupportedError: the text contains SQL that predicates do not support.
    """
    try:
        return _Reader(text).read(parse_tree(text))
    except RecursionError as error:
        raise InvalidInputError("the predicate is nested too deeply") from error


class _Reader:
    """Converts the expressions of one text to nodes of ``syntax``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._calls = 0

    def read(self, tree: exp.Expr) -> Node:
        """Convert an expression to a node."""
        while isinstance(tree, exp.Paren):
            tree = tree.this
        convert = _CONVERTERS.get(type(tree))
        if convert is None:
            raise NotSupportedError(f"predicate {self._text!r}: {type(tree).__name__.upper()} is not supported")
        self._depth += 1
        if self._depth > MAX_HEIGHT:
            raise InvalidInputError(f"the predicate is nested more than {MAX_HEIGHT} levels deep")
        node = convert(self, tree)
        self._depth -= 1
        return node

    def text(self, tree: exp.Expr) -> str:
        """Return the part of the text from which an expression was parsed."""
        start, stop = tree.meta[SPAN]
        return self._text[start:stop]

    def name(self, tree: exp.Expr) -> Node:
        """Convert a column or a member of a column: ``a``, ``a.b``, ``a['b']``."""
        members: list[exp.Expr] = []
        below = tree
        while not isinstance(below, exp.Column):
            members.append(self._bracketed(below) if isinstance(below, exp.Bracket) else below.expression)
            below = below.this
        parts = below.parts
        path = tuple(part.name for part in (*parts, *reversed(members)))
        return Name(text=self.text(tree), path=path, exact=bool(parts[0].args.get("quoted")))

    def _bracketed(self, tree: exp.Bracket) -> exp.Literal:
        [*others, member] = tree.expressions
        if others or not isinstance(member, exp.Literal) or not member.is_string:
            raise NotSupportedError(f"predicate {self._text!r}: only names of struct members are supported in brackets")
        return member

    def literal(self, tree: exp.Literal) -> Node:
        """Convert a number or a string."""
        scalar = pa.scalar(tree.this, pa.string()) if tree.is_string else _number(tree.this)
        return Value(text=self.text(tree), scalar=scalar)

    def bytes_literal(self, tree: exp.ByteString) -> Node:
        """Convert a binary literal ``X'6162'``."""
        return Value(text=self.text(tree), scalar=pa.scalar(bytes.fromhex(tree.this), pa.binary()))

    def constant(self, tree: exp.Expr) -> Node:
        """Convert TRUE, FALSE, or NULL."""
        return Value(text=self.text(tree), scalar=_CONSTANTS[_word(tree)])

    def logical(self, tree: exp.Expr) -> Node:
        """Convert a chain of ANDs or a chain of ORs, which is nested to the left and may have any length."""
        chain = type(tree)
        operands = []
        below = tree
        while type(below) is chain:
            operands.append(below.args["expression"])
            below = below.this
        nodes = tuple(self.read(operand) for operand in (below, *reversed(operands)))
        height = checked_height(*nodes)
        return Logical(text=self.text(tree), height=height, operator=_OPERATORS[chain], operands=nodes)

    def infix(self, tree: exp.Expr) -> Node:
        """Convert a binary operation."""
        left, right = self.read(tree.this), self.read(tree.args["expression"])
        height = checked_height(left, right)
        return Infix(text=self.text(tree), height=height, operator=_OPERATORS[type(tree)], left=left, right=right)

    def negation(self, tree: exp.Neg) -> Node:
        """Convert a minus sign; before a number, it is part of the number."""
        if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
            return Value(text=self.text(tree), scalar=_number(f"-{tree.this.this}"))
        operand = self.read(tree.this)
        return Negation(text=self.text(tree), height=checked_height(operand), operand=operand)

    def inversion(self, tree: exp.Not) -> Node:
        """Convert ``NOT x``, or an operator such as ``x NOT IN …``."""
        negatable = _NEGATABLE.get(type(tree.this))
        if negatable is not None:
            return negatable(self, tree.this, self.text(tree), negated=True)
        operand = self.read(tree.this)
        return Not(text=self.text(tree), height=checked_height(operand), operand=operand)

    def test(self, tree: exp.Expr, text: str, *, negated: bool) -> Node:
        """Convert IS [NOT] NULL, TRUE, or FALSE."""
        operand = self.read(tree.this)
        height = checked_height(operand)
        return Test(text=text, height=height, operand=operand, what=_word(tree.expression), negated=negated)

    def membership(self, tree: exp.Expr, text: str, *, negated: bool) -> Node:
        """Convert [NOT] IN."""
        operand = self.read(tree.this)
        items = tuple(self.read(item) for item in tree.expressions)
        height = checked_height(operand, *items)
        return Membership(text=text, height=height, operand=operand, items=items, negated=negated)

    def between(self, tree: exp.Expr, text: str, *, negated: bool) -> Node:
        """Convert [NOT] BETWEEN."""
        operand, low, high = (self.read(tree.args[part]) for part in ("this", "low", "high"))
        height = checked_height(operand, low, high)
        return Between(text=text, height=height, operand=operand, low=low, high=high, negated=negated)

    def like(self, tree: exp.Expr, text: str, *, negated: bool) -> Node:
        """Convert [NOT] LIKE and ILIKE."""
        operand, pattern = self.read(tree.this), self.read(tree.expression)
        return Like(
            text=text,
            height=checked_height(operand, pattern),
            operand=operand,
            pattern=pattern,
            negated=negated,
            ignores_case=isinstance(tree, exp.ILike),
        )

    def positive(self, tree: exp.Expr) -> Node:
        """Convert IS, IN, BETWEEN, or LIKE without NOT."""
        return _NEGATABLE[type(tree)](self, tree, self.text(tree), negated=False)

    def cast(self, tree: exp.Cast) -> Node:
        """Convert CAST, ``::``, or a typed literal."""
        # The reference parses function arguments with a different parser, which has different defaults.
        target = type_of(tree.to, default_unit="ns" if self._calls else "us")
        if target is None:
            raise NotSupportedError(f"predicate: {self.text(tree)}: unknown type")
        operand = self.read(tree.this)
        return Cast(text=self.text(tree), height=checked_height(operand), operand=operand, target=target)

    def call(self, tree: exp.Anonymous) -> Node:
        """Convert a function call."""
        self._calls += 1
        arguments = tuple(self.read(argument) for argument in tree.expressions)
        self._calls -= 1
        height = checked_height(*arguments)
        return Call(text=self.text(tree), height=height, function=tree.this.lower(), arguments=arguments)


def _word(constant: exp.Expr) -> str:
    return "NULL" if isinstance(constant, exp.Null) else str(constant.this).upper()


_NEGATABLE: Final[dict[type[exp.Expr], Callable[..., Node]]] = {
    exp.Is: _Reader.test,
    exp.In: _Reader.membership,
    exp.Between: _Reader.between,
    exp.Like: _Reader.like,
    exp.ILike: _Reader.like,
}
_CONVERTERS: Final[dict[type[exp.Expr], Callable[[_Reader, Any], Node]]] = {
    **dict.fromkeys(_OPERATORS, _Reader.infix),
    **dict.fromkeys(_NEGATABLE, _Reader.positive),
    **dict.fromkeys((exp.And, exp.Or), _Reader.logical),
    **dict.fromkeys((exp.Column, exp.Dot, exp.Bracket), _Reader.name),
    **dict.fromkeys((exp.Boolean, exp.Null), _Reader.constant),
    exp.Literal: _Reader.literal,
    exp.ByteString: _Reader.bytes_literal,
    exp.Not: _Reader.inversion,
    exp.Neg: _Reader.negation,
    exp.Cast: _Reader.cast,
    exp.Anonymous: _Reader.call,
}


def _number(text: str) -> pa.Scalar:
    """Parse a number as int64, or as uint64 or float64 if it does not fit."""
    if text.lstrip("-").isdecimal() and len(text) <= 21:
        value = int(text)
        if value in _INT64:
            return pa.scalar(value, pa.int64())
        if value in _UINT64:
            return pa.scalar(value, pa.uint64())
    return pa.scalar(float(text), pa.float64())
