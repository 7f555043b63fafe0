"""The bound expressions of a predicate: a tree of columns, constants and kernels, and the conditions that it implies.

Values are Arrow arrays; constants are scalars, which Arrow's kernels accept together with arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa


__all__ = [
    "AllOf",
    "AnyOf",
    "Column",
    "Comparison",
    "Computed",
    "Condition",
    "Constant",
    "Expression",
    "Values",
    "computed",
]

Values: TypeAlias = Any
"""A ``pa.Array`` or a ``pa.Scalar``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison ``column operator value``.

    Attributes:
        column: index among the predicate's columns.
        operator: the comparison operator: ``=``, ``<``, ``<=``, ``>`` or ``>=``.
        value: the constant, converted to the type in which both sides are compared.
    """

    column: int
    operator: str
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class AllOf:
    """AND; None represents a part about which nothing is known."""

    parts: tuple[Condition | None, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """OR; None represents a part about which nothing is known."""

    parts: tuple[Condition | None, ...]


Condition: TypeAlias = Comparison | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the predicate references.

    Attributes:
        index: index among the referenced columns.
        dtype: type in which its values are evaluated.
        stored: type of its values in the table.
    """

    index: int
    dtype: pa.DataType
    stored: pa.DataType

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Return the column."""
        return columns[self.index]


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for all rows.

    Attributes:
        scalar: the value.
    """

    scalar: pa.Scalar

    @property
    def dtype(self) -> pa.DataType:
        """The type of the value."""
        return self.scalar.type

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Return the value."""
        return self.scalar


@dataclass(frozen=True, slots=True)
class Computed:
    """A kernel applied to operands.

    Attributes:
        kernel: accepts as many values as there are operands.
        operands: evaluated first, from left to right.
        dtype: type of the result.
        condition: bounds on columns that the expression implies; None if nothing is known.
        is_cast: whether it only casts its single operand to another type.
    """

    kernel: Callable[..., Values]
    operands: tuple[Expression, ...]
    dtype: pa.DataType
    condition: Condition | None = None
    is_cast: bool = False

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Evaluate the expression."""
        return self.kernel(*(operand.evaluate(columns) for operand in self.operands))


Expression: TypeAlias = Column | Constant | Computed


def computed(
    kernel: Callable[..., Values],
    dtype: pa.DataType,
    *operands: Expression,
    condition: Condition | None = None,
    is_cast: bool = False,
) -> Expression:
    """Apply a kernel to operands; if all of them are constants, return the result as a constant."""
    node = Computed(kernel, operands, dtype, condition, is_cast)
    if all(isinstance(operand, Constant) for operand in operands):
        return Constant(node.evaluate(()))
    return node
