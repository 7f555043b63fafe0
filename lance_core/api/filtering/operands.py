"""What operations ask of their operands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.api.filtering.coercion import convert, is_string
from lance_core.api.filtering.expressions import computed
from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from lance_core.api.filtering.expressions import Expression
    from lance_core.api.filtering.syntax import Node

__all__ = ["converted", "is_text", "mismatch", "text_type"]


def converted(operand: Expression, dtype: pa.DataType) -> Expression:
    """The operand as another type."""
    if operand.dtype == dtype:
        return operand
    return computed(partial(convert, dtype=dtype), dtype, operand)


def is_text(dtype: pa.DataType) -> bool:
    """Whether values are text, or nothing but nulls."""
    return is_string(dtype) or bool(pa.types.is_null(dtype))


def text_type(dtype: pa.DataType) -> pa.DataType:
    """The type as which text is matched."""
    return pa.string() if pa.types.is_null(dtype) else dtype


def mismatch(node: Node, *operands: Expression) -> InvalidInputError:
    """The error for operands that have no common type."""
    types = " and ".join(dict.fromkeys(str(operand.dtype) for operand in operands))
    return InvalidInputError(f"predicate: {node.text}: {types} cannot be compared")
