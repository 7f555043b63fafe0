"""Makes DataFusion treat the types of literals, and literal zeros, as the reference implementation does.

Two rules of the reference differ from those of DataFusion:

* A literal that is compared with a column, in comparisons that only AND and OR join, takes the column's type, or the
  expression is refused (:func:`~lance_core.predicate.coercion.adapt`). The same applies to a literal that is added to a
  column.
* A literal zero equals both -0.0 and 0.0, which DataFusion distinguishes.

Source: predicates tested with pylance 14.0.2; DataFusion 54.1.
"""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from datafusion import Expr, functions, lit

from lance_core.errors import InvalidInputError
from lance_core.predicate.coercion import adapt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["as_filter", "with_typed_literals"]

_COMPARISONS: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "IS DISTINCT FROM": lambda left, right: ~_not_distinct(left, right),
        "IS NOT DISTINCT FROM": lambda left, right: _not_distinct(left, right),
    }
)
_FLIPPED: Final = MappingProxyType({"<": ">", "<=": ">=", ">": "<", ">=": "<="})
_ARITHMETIC: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = MappingProxyType(
    {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "%": operator.mod}
)
_LOGICAL: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = MappingProxyType(
    {"AND": operator.and_, "OR": operator.or_}
)
_FLOATS: Final = MappingProxyType(
    {
        f"Float{bits}({zero})": pa.scalar(np.dtype(f"f{bits // 8}").type(float(zero)), dtype)
        for bits, dtype in ((16, pa.float16()), (32, pa.float32()), (64, pa.float64()))
        for zero in ("0", "-0")
    }
)
"""Maps the text form of each zero literal to its value."""

_DIGITS: Final = frozenset(f"Int64({digits})" for digits in range(-76, 77))
"""The text forms of all literals that are valid as the number of digits in ``round``."""


def with_typed_literals(expression: Expr, types: Mapping[str, pa.DataType]) -> Expr:
    """Apply both rules to an expression.

    Args:
        expression: a parsed expression.
        types: maps the name of each column to its type in the table.

    Raises:
        InvalidInputError: a literal is not a valid value of the type of its column.
    """
    return _Literals(types).rewritten(expression, adapts=True)


def as_filter(expression: Expr) -> Expr:
    """Replace ``regexp_match``, whose result is a list, with a condition that is true where the pattern is found."""
    kind = expression.variant_name()
    if kind == "ScalarFunction" and expression.schema_name().startswith("regexp_match("):
        return expression.is_not_null()
    if kind == "Not":
        return ~as_filter(_wrapped(expression.to_variant().expr()))
    if kind == "BinaryExpr":
        left, symbol, right = _sides(expression)
        if symbol in _LOGICAL:
            return _LOGICAL[symbol](as_filter(left), as_filter(right))
    return expression


class _Literals:
    """Rewrites expressions on columns of known types."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = types

    def rewritten(self, expression: Expr, *, adapts: bool) -> Expr:
        """Rewrite an expression.

        Args:
            expression: the expression.
            adapts: whether its literals take the types of the columns that they are compared with. Inside NOT, IS, and
                other comparisons, they do not.
        """
        rewrite = _REWRITES.get(expression.variant_name())
        return expression if rewrite is None else rewrite(self, expression, adapts)

    def binary(self, expression: Expr, adapts: bool) -> Expr:
        left, symbol, right = _sides(expression)
        if symbol in _LOGICAL:
            return _LOGICAL[symbol](self.rewritten(left, adapts=adapts), self.rewritten(right, adapts=adapts))
        # A sum of a column and a literal that is the whole expression has the type of the column too.
        if symbol not in _COMPARISONS and not (adapts and symbol in _ARITHMETIC):
            return expression
        if adapts and self._type(left) is not None and _has_literals_only(right):
            right = self._beside(left, right, adapts=True)
        elif adapts and self._type(right) is not None and left.variant_name() == "Literal":
            left = self._beside(right, left, adapts=True)
        else:
            left, right = self.rewritten(left, adapts=False), self.rewritten(right, adapts=False)
            left, right = self._beside(right, left, adapts=False), self._beside(left, right, adapts=False)
        return _compared(left, symbol, right) if symbol in _COMPARISONS else _ARITHMETIC[symbol](left, right)

    def between(self, expression: Expr, adapts: bool) -> Expr:
        parts = expression.to_variant()
        operand, *bounds = (_wrapped(part) for part in (parts.expr(), parts.low(), parts.high()))
        low, high = (self._beside(operand, bound, adapts=adapts) for bound in bounds)
        if not (_zeros(low) or _zeros(high)):
            return operand.between(low, high, parts.negated())
        test = _compared(operand, ">=", low) & _compared(operand, "<=", high)
        return ~test if parts.negated() else test

    def in_list(self, expression: Expr, adapts: bool) -> Expr:
        parts = expression.to_variant()
        operand = _wrapped(parts.expr())
        items = [self._beside(operand, _wrapped(item), adapts=adapts) for item in parts.list()]
        return _is_in(operand, items, negated=parts.negated())

    def call(self, expression: Expr, adapts: bool) -> Expr:
        # DataFusion knows the scale of a rounded decimal before it compares it only if the literal needs no cast.
        if not expression.schema_name().startswith("round("):
            return expression
        operand, *digits = map(_wrapped, expression.rex_call_operands())
        known = [lit(_scalar(each).cast(pa.int32())) for each in digits if _shown(each) in _DIGITS]
        return functions.round(operand, *known) if digits and known else expression

    def test(self, expression: Expr, adapts: bool) -> Expr:
        operand = _wrapped(expression.to_variant().expr())
        return _TESTS[expression.variant_name()](self.rewritten(operand, adapts=False))

    def _type(self, expression: Expr) -> pa.DataType | None:
        """Return the type of a column; None for other expressions."""
        return self._types[expression.to_variant().name()] if expression.variant_name() == "Column" else None

    def _beside(self, column: Expr, expression: Expr, *, adapts: bool) -> Expr:
        """Convert a literal, or the literals of a sum, to the type of a column with which it is compared.

        Without ``adapts``, only zeros are converted, so that they are recognized as zeros.
        """
        dtype = self._type(column)
        if dtype is None or not (adapts or (pa.types.is_floating(dtype) and _shown(expression) == "Int64(0)")):
            return expression
        return _converted(expression, dtype)


def _converted(expression: Expr, dtype: pa.DataType) -> Expr:
    kind = expression.variant_name()
    if kind == "Literal":
        scalar = adapt(_scalar(expression), dtype)
        if scalar is None:
            raise InvalidInputError(f"the literal {_shown(expression)} is not a valid value of type {dtype}")
        return lit(scalar)
    if kind == "BinaryExpr":
        left, symbol, right = _sides(expression)
        if symbol in _ARITHMETIC:
            return _ARITHMETIC[symbol](_converted(left, dtype), _converted(right, dtype))
    return expression


_TESTS: Final[Mapping[str, Callable[[Expr], Expr]]] = MappingProxyType(
    {
        "Not": operator.inv,
        "IsNull": lambda operand: operand.is_null(),
        "IsNotNull": lambda operand: operand.is_not_null(),
        "IsTrue": lambda operand: functions.coalesce(operand, lit(False)),
        "IsNotTrue": lambda operand: ~functions.coalesce(operand, lit(False)),
        "IsFalse": lambda operand: ~functions.coalesce(operand, lit(True)),
        "IsNotFalse": lambda operand: functions.coalesce(operand, lit(True)),
    }
)
_REWRITES: Final[Mapping[str, Callable[[_Literals, Expr, bool], Expr]]] = MappingProxyType(
    {
        "BinaryExpr": _Literals.binary,
        "Between": _Literals.between,
        "InList": _Literals.in_list,
        "ScalarFunction": _Literals.call,
        **dict.fromkeys(_TESTS, _Literals.test),
    }
)


def _compared(left: Expr, symbol: str, right: Expr) -> Expr:
    """Compare two operands; a literal zero on one side stands for both zeros."""
    zeros = _zeros(right)
    if bool(zeros) == bool(_zeros(left)):
        return _COMPARISONS[symbol](left, right)
    if not zeros:
        return _compared(right, _FLIPPED.get(symbol, symbol), left)
    if symbol in _FLIPPED:
        negative, positive = zeros
        return _COMPARISONS[symbol](left, negative if symbol in ("<", ">=") else positive)
    found = functions.in_list(left, zeros, symbol == "!=")
    if symbol in ("=", "!="):
        return found
    is_same = functions.coalesce(found, lit(False))
    return is_same if "NOT" in symbol else ~is_same


def _is_in(operand: Expr, items: list[Expr], *, negated: bool) -> Expr:
    return functions.in_list(operand, [each for item in items for each in _zeros(item) or [item]], negated)


def _not_distinct(left: Expr, right: Expr) -> Expr:
    """Return whether two operands are equal, or both null."""
    return functions.coalesce(left == right, left.is_null() & right.is_null())


def _zeros(expression: Expr) -> list[Expr]:
    """Return -0.0 and 0.0 if the expression is a literal floating-point zero; otherwise, return an empty list."""
    zero = _FLOATS.get(_shown(expression)) if expression.variant_name() == "Literal" else None
    if zero is None:
        return []
    number = type(zero.as_py())(0.0)
    return [lit(pa.scalar(value, zero.type)) for value in (-number, number)]


def _has_literals_only(expression: Expr) -> bool:
    if expression.variant_name() == "BinaryExpr":
        left, _, right = _sides(expression)
        return _has_literals_only(left) and _has_literals_only(right)
    return expression.variant_name() == "Literal"


def _scalar(literal: Expr) -> pa.Scalar:
    """Return the value of a literal; numbers are int64, or uint64 or float64 if they do not fit."""
    value: Any = literal.python_value()
    if isinstance(value, pa.Scalar):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 2**63:
        return pa.scalar(value, pa.uint64())
    return pa.scalar(value)


def _sides(expression: Expr) -> tuple[Expr, str, Expr]:
    parts = expression.to_variant()
    return _wrapped(parts.left()), parts.op(), _wrapped(parts.right())


def _wrapped(part: Any) -> Expr:
    """Wrap a part of an expression in its Python class, which the ``datafusion`` package fails to do."""
    return part if isinstance(part, Expr) else Expr(part)


def _shown(expression: Expr) -> str:
    return repr(expression).removeprefix("Expr(").removesuffix(")")
