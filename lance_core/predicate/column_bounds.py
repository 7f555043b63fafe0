"""Derives conditions on columns from a predicate: comparisons with constants, and null tests, joined by AND or OR.

Comparing the conditions with the statistics of a group of rows can prove that no row in the group satisfies the
predicate. Any other part of the predicate is assumed to be satisfied by every row.

NaN needs care, because statistics ignore it: NaN is greater than every number, or less than every number if its sign is
negative. A single bound on floating-point numbers, such as ``x > 1``, therefore proves nothing. A lower bound and an
upper bound together are useful, because NaN satisfies at most one of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.predicate.coercion import convert
from lance_core.predicate.expressions import AllOf, AnyOf, Column, Comparison, Computed, Constant, NullTest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.file.field_source import ColumnStatistics
    from lance_core.predicate.expressions import Condition, Expression

__all__ = ["comparison_of", "condition_of", "joined", "may_match", "negation_of"]

FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Maps each comparison operator to the one that is equivalent when the operands are exchanged."""


_LOWER: Final = frozenset({"=", ">", ">="})
_UPPER: Final = frozenset({"=", "<", "<="})
"""Comparison operators that imply a lower bound, and those that imply an upper bound."""


def may_match(
    condition: Condition | None, statistics: Mapping[int, ColumnStatistics], num_groups: int
) -> NDArray[np.bool_]:
    """Determine which groups of rows may contain a row that satisfies the condition.

    Args:
        condition: condition of a predicate; None if nothing is known about it.
        statistics: maps the index of a column of the predicate to its statistics; columns may be missing.
        num_groups: number of groups.

    Returns:
        A mask of shape (num_groups,); False only for groups in which no row satisfies the condition.
    """
    return _possible(condition, statistics, num_groups, frozenset())


def _possible(
    condition: Condition | None,
    statistics: Mapping[int, ColumnStatistics],
    num_groups: int,
    without_nan: frozenset[int],
) -> NDArray[np.bool_]:
    """See :func:`may_match`; another part of the condition excludes rows with NaN in the columns ``without_nan``."""
    if isinstance(condition, AllOf | AnyOf):
        combine = np.logical_and if isinstance(condition, AllOf) else np.logical_or
        if isinstance(condition, AllOf):
            without_nan |= _bounded_columns(condition)
        parts = [_possible(part, statistics, num_groups, without_nan) for part in condition.parts]
        return np.asarray(combine.reduce(parts), np.bool_)
    if condition is None or condition.column not in statistics:
        return np.ones(num_groups, np.bool_)
    known = statistics[condition.column]
    if isinstance(condition, NullTest):
        return known.may_be_null if condition.is_null else known.may_be_valid
    try:
        possible = _compared(condition, known, ignores_nan=condition.column in without_nan)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The bounds cannot be converted to the type of the comparison.
        return np.ones(num_groups, np.bool_)
    return np.asarray(possible.fill_null(True))


def _bounded_columns(condition: AllOf) -> frozenset[int]:
    """Return the columns that have both a lower and an upper bound, neither of which is NaN."""
    bounds = [each for each in _comparisons(condition) if not _is_nan(each.value)]
    lower = {each.column for each in bounds if each.operator in _LOWER}
    return frozenset(each.column for each in bounds if each.operator in _UPPER and each.column in lower)


def _comparisons(condition: AllOf) -> Iterator[Comparison]:
    """Yield the comparisons that must all be true."""
    for part in condition.parts:
        if isinstance(part, Comparison):
            yield part
        elif isinstance(part, AllOf):
            yield from _comparisons(part)


def condition_of(expression: Expression) -> Condition | None:
    """Return the conditions on columns that an expression implies; None if there are none."""
    if isinstance(expression, Column):
        return Comparison(expression.index, "=", pa.scalar(True))
    return expression.condition if isinstance(expression, Computed) else None


def negation_of(expression: Expression) -> Condition | None:
    """Return the conditions that NOT of an expression implies; None if there are none."""
    if isinstance(expression, Column):
        return Comparison(expression.index, "=", pa.scalar(False))
    condition = condition_of(expression)
    # Only a test for null implies nothing but itself, and is never null.
    return NullTest(condition.column, not condition.is_null) if isinstance(condition, NullTest) else None


def comparison_of(left: Expression, operator: str, right: Expression) -> Condition | None:
    """Return a comparison as a condition if one side is a column and the other a constant; None otherwise."""
    if operator not in FLIPPED:
        return None
    if isinstance(left, Constant) and isinstance(right, Column) and left.dtype == right.dtype:
        return comparison_of(right, FLIPPED[operator], left)
    if isinstance(left, Column) and isinstance(right, Constant) and right.scalar.is_valid:
        return Comparison(left.index, operator, right.scalar)
    return None


def joined(parts: Sequence[Condition | None], *, all_needed: bool) -> Condition | None:
    """Combine conditions with AND or OR; None if nothing is known about the result."""
    known = [part for part in parts if part is not None]
    if not known or (len(known) < len(parts) and not all_needed):
        return None
    return AllOf(tuple(known)) if all_needed else AnyOf(tuple(known))


def _compared(condition: Comparison, known: ColumnStatistics, *, ignores_nan: bool) -> pa.Array:
    """Return a mask of the groups in which a value may satisfy a comparison; null if unknown."""
    value, least, greatest = condition.value, known.least, known.greatest
    is_one_bound = pa.types.is_floating(least.type) and condition.operator != "=" and not ignores_nan
    if _is_nan(value) or is_one_bound:
        return pa.nulls(len(least), pa.bool_())
    # Convert the bounds as values are converted when rows are compared; conversions preserve the order.
    least, greatest = _without_nan(convert(least, value.type)), _without_nan(convert(greatest, value.type))
    if condition.operator == "=":
        return pc.and_kleene(pc.less_equal(least, value), pc.greater_equal(greatest, value))
    if condition.operator in ("<", "<="):
        return (pc.less if condition.operator == "<" else pc.less_equal)(least, value)
    return (pc.greater if condition.operator == ">" else pc.greater_equal)(greatest, value)


def _is_nan(value: pa.Scalar) -> bool:
    return bool(pa.types.is_floating(value.type) and value.is_valid and math.isnan(value.as_py()))


def _without_nan(bounds: pa.Array) -> pa.Array:
    """Replace NaN, which is not a bound, with null."""
    if not pa.types.is_floating(bounds.type):
        return bounds
    return pc.if_else(pc.is_nan(bounds), pa.scalar(None, bounds.type), bounds)
