"""Derives bounds on columns from a predicate: comparisons with constants, combined with AND and OR.

Comparing the bounds with the minimum and maximum values of a group of rows can prove that no row in the group satisfies
the predicate. Any part of the predicate that is not such a comparison is assumed to be satisfied by every row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.predicate.coercion import convert
from lance_core.predicate.expressions import AllOf, AnyOf, Column, Comparison, Computed, Constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lance_core.predicate.expressions import Condition, Expression

__all__ = ["Bounds", "comparison_of", "condition_of", "joined", "may_match"]

Bounds: TypeAlias = "tuple[pa.Array, pa.Array]"
"""The minimum and the maximum of a column in each group of rows: two arrays of shape (num_groups,); null = unknown."""

FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Maps each comparison operator to the one that is equivalent when the operands are exchanged."""


def may_match(condition: Condition | None, bounds: Mapping[int, Bounds], num_groups: int) -> NDArray[np.bool_]:
    """Determine which groups of rows may contain a row that satisfies the condition.

    Args:
        condition: condition of a predicate; None if nothing is known about it.
        bounds: maps the index of a column of the predicate to its bounds; columns may be missing.
        num_groups: number of groups.

    Returns:
        A mask of shape (num_groups,); False only for groups in which no row satisfies the condition.
    """
    if isinstance(condition, AllOf | AnyOf):
        combine = np.logical_and if isinstance(condition, AllOf) else np.logical_or
        parts = [may_match(part, bounds, num_groups) for part in condition.parts]
        return np.asarray(combine.reduce(parts), np.bool_)
    if condition is None or condition.column not in bounds:
        return np.ones(num_groups, np.bool_)
    try:
        possible = _compared(condition, *bounds[condition.column])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The bounds cannot be converted to the type of the comparison.
        return np.ones(num_groups, np.bool_)
    return np.asarray(possible.fill_null(True))


def condition_of(expression: Expression) -> Condition | None:
    """Return the bounds on columns that an expression implies; None if there are none."""
    if isinstance(expression, Column):
        return Comparison(expression.index, "=", pa.scalar(True))
    return expression.condition if isinstance(expression, Computed) else None


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


def _compared(condition: Comparison, least: pa.Array, greatest: pa.Array) -> pa.Array:
    """Return a mask of the groups in which a value may satisfy a comparison; null if unknown."""
    value = condition.value
    if _is_nan(value) or (pa.types.is_floating(least.type) and condition.operator != "="):
        # Bounds ignore NaN, which is greater than every number, or less than every number if its sign is negative.
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
