"""Binds a parsed predicate to a schema: resolves names to columns, and assigns types to every operation.

Whether a literal adopts the type of the column with which it is compared depends on the position of the comparison. In
comparisons that are joined only by the outermost AND and OR of the predicate, the literal adopts the column's type.
Inside a NOT, an IS, or another comparison, both sides are converted to their common type instead. For example, if ``g``
is a single-precision column, ``g = 0.1`` finds the value nearest to 0.1, but ``NOT (g <> 0.1)`` does not.

Source: predicates tested with pylance 14.0.2, which adapts literals only in these positions.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.predicate.casts import cast_kernel
from lance_core.predicate.coercion import (
    adapt,
    arithmetic_type,
    comparison_type,
    convert,
    evaluated_type,
    range_type,
)
from lance_core.predicate.column_bounds import comparison_of, condition_of, joined, negation_of
from lance_core.predicate.expressions import Column, Constant, Expression, NullTest, computed
from lance_core.predicate.functions import bind_call
from lance_core.predicate.kernels import (
    ARITHMETIC,
    COMPARISONS,
    TESTS,
    all_of,
    any_of,
    compare_floats,
    is_member,
    like,
    negate,
)
from lance_core.predicate.names import find_column
from lance_core.predicate.operands import converted, is_text, mismatch, text_type, without_casts
from lance_core.predicate.syntax import (
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
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_core.predicate.expressions import Condition, Values
    from lance_core.schema.field import Schema

__all__ = ["Binder"]

_BOOL: Final = pa.bool_()

_FEW_ITEMS: Final = 256
"""Maximum length of an IN list for which the bounds of columns are used; each item is compared with the bounds."""


class Binder:
    """Binds one predicate to a schema.

    Args:
        schema: schema of the table.

    Attributes:
        paths: paths of the columns and struct members referenced so far; a :class:`Column` contains an index into this
            list.
    """

    def __init__(self, schema: Schema) -> None:
        """Initialize without any referenced columns."""
        self._schema = schema
        self.paths: list[tuple[str, ...]] = []

    @singledispatchmethod
    def bind(self, node: Node, adapts: bool = False) -> Expression:
        """Convert a node of the syntax tree to an expression that can be evaluated.

        Args:
            node: the node.
            adapts: whether literals in this position adopt the type of the column that they are compared with.

        Raises:
            InvalidInputError: a column is unknown, or types are incompatible.
            NotSupportedError: a function or a combination of types is not supported.
        """
        raise NotSupportedError(f"predicate: {node.text} is not supported")

    @bind.register
    def _(self, node: Name, adapts: bool = False) -> Expression:
        path, stored = find_column(self._schema, node)
        if path not in self.paths:
            self.paths.append(path)
        return Column(self.paths.index(path), evaluated_type(stored), stored)

    @bind.register
    def _(self, node: Value, adapts: bool = False) -> Expression:
        return Constant(node.scalar)

    @bind.register
    def _(self, node: Logical, adapts: bool = False) -> Expression:
        operands = [self._condition(operand, adapts) for operand in node.operands]
        is_and = node.operator == "AND"
        condition = joined([condition_of(operand) for operand in operands], all_needed=is_and)
        return computed(all_of if is_and else any_of, _BOOL, *operands, condition=condition)

    @bind.register
    def _(self, node: Not, adapts: bool = False) -> Expression:
        operand = self._condition(node.operand)
        return computed(pc.invert, _BOOL, operand, condition=negation_of(operand))

    @bind.register
    def _(self, node: Test, adapts: bool = False) -> Expression:
        operand = self.bind(node.operand) if node.what == "NULL" else self._condition(node.operand)
        test = computed(TESTS[node.what], _BOOL, operand, condition=_condition_of_test(node.what, operand))
        return computed(pc.invert, _BOOL, test, condition=negation_of(test)) if node.negated else test

    @bind.register
    def _(self, node: Negation, adapts: bool = False) -> Expression:
        operand = self.bind(node.operand)
        if not (pa.types.is_signed_integer(operand.dtype) or pa.types.is_floating(operand.dtype)):
            raise InvalidInputError(f"predicate: {node.text}: a value of type {operand.dtype} cannot be negated")
        return computed(negate, operand.dtype, operand)

    @bind.register
    def _(self, node: Infix, adapts: bool = False) -> Expression:
        if node.operator in COMPARISONS:
            left, right = self._sides(node, adapts)
            dtype = comparison_type(left.dtype, right.dtype)
            return self._comparison(node, node.operator, left, right, dtype)
        left, right = self.bind(node.left), self.bind(node.right)
        return self._concatenation(node, left, right) if node.operator == "||" else self._arithmetic(node, left, right)

    @bind.register
    def _(self, node: Between, adapts: bool = False) -> Expression:
        operand = self.bind(node.operand)
        low, high = (self._beside(bound, operand, adapts) for bound in (node.low, node.high))
        dtype = range_type(operand.dtype, low.dtype, high.dtype)
        if dtype is not None and pa.types.is_timestamp(dtype):
            tests = [self._comparison(node, *bound, dtype) for bound in ((">=", operand, low), ("<=", operand, high))]
            condition = joined([condition_of(each) for each in tests], all_needed=True)
            test = computed(all_of, _BOOL, *tests, condition=condition)
        else:
            test = self._comparisons(node, (">=", "<="), operand, (low, high), dtype, all_of)
        return computed(pc.invert, _BOOL, test) if node.negated else test

    @bind.register
    def _(self, node: Membership, adapts: bool = False) -> Expression:
        operand = self.bind(node.operand)
        items = [self._beside(item, operand, adapts) for item in node.items]
        dtype = comparison_type(operand.dtype, *(item.dtype for item in items))
        if dtype is not None and all(isinstance(item, Constant) for item in items):
            return self._constant_list(node, operand, items, dtype)
        if len(items) == 1:
            test = self._comparison(node, "=", operand, items[0], dtype)
        else:
            test = self._comparisons(node, ["="] * len(items), operand, items, dtype, any_of)
        return computed(pc.invert, _BOOL, test) if node.negated else test

    @bind.register
    def _(self, node: Like, adapts: bool = False) -> Expression:
        operand, pattern = self.bind(node.operand), self.bind(node.pattern)
        if not is_text(operand.dtype) or not is_text(pattern.dtype):
            raise mismatch(node, operand, pattern, expected="strings")
        if not isinstance(pattern, Constant):
            raise NotSupportedError(f"predicate: {node.text}: the pattern must be a constant")
        kernel = like(pattern.scalar.as_py(), ignores_case=node.ignores_case)
        test = computed(kernel, _BOOL, converted(operand, text_type(operand.dtype)))
        return computed(pc.invert, _BOOL, test) if node.negated else test

    @bind.register
    def _(self, node: Cast, adapts: bool = False) -> Expression:
        operand = self.bind(node.operand)
        kernel = cast_kernel(operand, node)
        return computed(kernel, node.target, operand, is_cast=True)

    @bind.register
    def _(self, node: Call, adapts: bool = False) -> Expression:
        return bind_call(node, [self.bind(argument) for argument in node.arguments])

    def _condition(self, node: Node, adapts: bool = False) -> Expression:
        """Bind an operand whose value must be true, false, or null."""
        operand = self.bind(node, adapts)
        if pa.types.is_null(operand.dtype):
            return converted(operand, _BOOL)
        if not pa.types.is_boolean(operand.dtype):
            raise InvalidInputError(f"predicate: {node.text}: expected a condition, found type {operand.dtype}")
        return operand

    def _sides(self, node: Infix, adapts: bool) -> tuple[Expression, Expression]:
        """Bind both sides of a comparison."""
        left = self.bind(node.left)
        # Literals in sums that contain columns are not adapted here, unlike in BETWEEN and IN.
        right = self._beside(node.right, left, adapts and _has_literals_only(node.right))
        if adapts and isinstance(node.left, Value) and node.left.adapts and isinstance(right, Column):
            return _literal(node.left, right), right
        return left, right

    def _beside(self, node: Node, other: Expression, adapts: bool) -> Expression:
        """Bind an operand of a comparison; if ``other`` is a column, literals (even in sums) adopt its type."""
        if not (adapts and isinstance(other, Column)):
            return self.bind(node)
        if isinstance(node, Value) and node.adapts:
            return _literal(node, other)
        if isinstance(node, Infix) and node.operator in ARITHMETIC:
            left, right = self._beside(node.left, other, adapts), self._beside(node.right, other, adapts)
            return self._arithmetic(node, left, right)
        return self.bind(node)

    def _comparison(
        self, node: Node, operator: str, left: Expression, right: Expression, dtype: pa.DataType | None
    ) -> Expression:
        """Compare two operands."""
        if isinstance(right, Constant):
            left, [right], dtype = without_casts(left, [right], dtype)
        elif isinstance(left, Constant):
            right, [left], dtype = without_casts(right, [left], dtype)
        return self._comparisons(node, (operator,), left, (right,), dtype, all_of)

    def _comparisons(
        self,
        node: Node,
        operators: Sequence[str],
        operand: Expression,
        others: Sequence[Expression],
        dtype: pa.DataType | None,
        combine: Callable[..., Values],
    ) -> Expression:
        """Compare an operand with each of the others. The operand is evaluated only once."""
        if dtype is None:
            raise mismatch(node, operand, *others)
        tests: list[Callable[[Values, Values], Values]] = []
        for operator, other in zip(operators, others, strict=True):
            kernel = COMPARISONS[operator]
            if pa.types.is_floating(dtype):
                kernel = compare_floats(kernel, joins_zeros=_is_zero(operand) or _is_zero(other))
            tests.append(kernel)
        sides = [converted(other, dtype) for other in others]

        def compare(value: Values, *values: Values) -> Values:
            same = convert(value, dtype)
            return combine(*(test(same, each) for test, each in zip(tests, values, strict=True)))

        known = [comparison_of(operand, operator, side) for operator, side in zip(operators, sides, strict=True)]
        condition = joined(known, all_needed=combine is all_of)
        return computed(compare, _BOOL, operand, *sides, condition=condition)

    def _constant_list(
        self, node: Membership, operand: Expression, items: Sequence[Expression], dtype: pa.DataType
    ) -> Expression:
        operand, items, dtype = without_casts(operand, items, dtype)
        scalars = [converted(item, dtype) for item in items]
        values = pa.array([item.scalar for item in scalars if isinstance(item, Constant)], dtype)
        found = None
        if not node.negated and len(items) <= _FEW_ITEMS:
            found = joined([comparison_of(operand, "=", item) for item in scalars], all_needed=False)
        return computed(is_member(values, negated=node.negated), _BOOL, converted(operand, dtype), condition=found)

    def _arithmetic(self, node: Infix, left: Expression, right: Expression) -> Expression:
        if pa.types.is_null(left.dtype) or pa.types.is_null(right.dtype):
            return Constant(pa.scalar(None))
        dtype = arithmetic_type(left.dtype, right.dtype)
        if dtype is None:
            raise NotSupportedError(
                f"predicate: {node.text}: {node.operator!r} is not supported between {left.dtype} and {right.dtype}"
            )
        return computed(ARITHMETIC[node.operator], dtype, converted(left, dtype), converted(right, dtype))

    def _concatenation(self, node: Infix, left: Expression, right: Expression) -> Expression:
        if not (is_text(left.dtype) and is_text(right.dtype)):
            raise NotSupportedError(
                f"predicate: {node.text}: only strings can be concatenated, found {left.dtype} and {right.dtype}"
            )
        dtype = pa.large_string()
        operands = [converted(left, dtype), converted(right, dtype), Constant(pa.scalar("", dtype))]
        return computed(pc.binary_join_element_wise, dtype, *operands)


def _condition_of_test(what: str, operand: Expression) -> Condition | None:
    """Return the conditions that IS NULL, IS TRUE, or IS FALSE implies."""
    if what == "NULL":
        return NullTest(operand.index, is_null=True) if isinstance(operand, Column) else None
    return condition_of(operand) if what == "TRUE" else negation_of(operand)


def _literal(node: Value, column: Column) -> Expression:
    scalar = adapt(node.scalar, column.stored)
    if scalar is None:
        raise InvalidInputError(f"predicate: the literal {node.text} is not a valid value of type {column.stored}")
    return Constant(scalar)


def _has_literals_only(node: Node) -> bool:
    if isinstance(node, Infix):
        return _has_literals_only(node.left) and _has_literals_only(node.right)
    return isinstance(node, Value)


def _is_zero(operand: Expression) -> bool:
    return isinstance(operand, Constant) and operand.scalar.is_valid and operand.scalar.as_py() == 0
