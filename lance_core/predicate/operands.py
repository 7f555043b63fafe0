"""Checks and converts the operands of predicates."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.predicate.coercion import convert, is_string, rescaled
from lance_core.predicate.expressions import Computed, Constant, computed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.predicate.expressions import Expression
    from lance_core.predicate.syntax import Node

__all__ = ["converted", "is_text", "mismatch", "text_type", "without_casts"]


def converted(operand: Expression, dtype: pa.DataType) -> Expression:
    """Convert an operand to another type."""
    if operand.dtype == dtype:
        return operand
    return computed(partial(convert, dtype=dtype), dtype, operand)


def is_text(dtype: pa.DataType) -> bool:
    """Return whether a type is a string type or the null type."""
    return is_string(dtype) or bool(pa.types.is_null(dtype))


def text_type(dtype: pa.DataType) -> pa.DataType:
    """Return the string type in which values are matched: ``string`` for the null type, otherwise the type itself."""
    return pa.string() if pa.types.is_null(dtype) else dtype


def mismatch(node: Node, *operands: Expression, expected: str | None = None) -> InvalidInputError:
    """Return the error for operands that are not as expected; by default, for operands that cannot be compared."""
    types = " and ".join(dict.fromkeys(str(operand.dtype) for operand in operands))
    problem = f"{types} cannot be compared" if expected is None else f"expected {expected}, found {types}"
    return InvalidInputError(f"predicate: {node.text}: {problem}")


def without_casts(
    operand: Expression, others: Sequence[Expression], dtype: pa.DataType | None
) -> tuple[Expression, Sequence[Expression], pa.DataType | None]:
    """Remove casts between timestamp types from an operand that is compared with constants.

    The constants are converted to the type that the operand has without the casts, regardless of time zones.
    The operand is not cast to the common type of the comparison either. Other comparisons are left unchanged.

    Source: predicates tested with pylance 14.0.2, and pylance's query plans.

    Args:
        operand: the operand.
        others: the operands with which it is compared.
        dtype: the type of the comparison; None if the operands have no common type.

    Returns:
        The operand, the other operands, and the type in which they are compared.
    """
    if dtype is None or isinstance(operand, Constant) or not pa.types.is_timestamp(dtype):
        return operand, others, dtype
    constants = [converted(other, dtype) for other in others]
    inner: Expression | None = operand
    while inner is not None and pa.types.is_timestamp(inner.dtype):
        moments = [constant.scalar for constant in constants if isinstance(constant, Constant)]
        if len(moments) < len(others):
            break
        try:
            constants = [Constant(rescaled(moment, inner.dtype)) for moment in moments]
        except pa.ArrowInvalid:
            # The constant is outside the range of nanoseconds.
            break
        operand, others, dtype = inner, constants, inner.dtype
        inner = inner.operands[0] if isinstance(inner, Computed) and inner.is_cast else None
    return operand, others, dtype
