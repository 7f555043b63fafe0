"""The expression tree of a bound predicate: columns, constants, kernels, and the conditions on columns that they imply.

Values are Arrow arrays; constants are Arrow scalars, which Arrow's kernels accept in combination with arrays.
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
    "NullTest",
    "Values",
    "computed",
]

Values: TypeAlias = Any
"""Operands and results of kernels: a ``pa.Array`` or a ``pa.Scalar``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison ``column operator value``.

    Attributes:
        column: index of the column among the columns that the predicate references.
        operator: the comparison operator: ``=``, ``<``, ``<=``, ``>``, or ``>=``.
        value: the constant, converted to the type in which both sides are compared.
    """

    column: int
    operator: str
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class NullTest:
    """A test ``column IS NULL`` or ``column IS NOT NULL``.

    Attributes:
        column: index of the column among the columns that the predicate references.
        is_null: whether null passes the test.
    """

    column: int
    is_null: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """A conjunction of conditions; None represents a part about which nothing is known."""

    parts: tuple[Condition | None, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A disjunction of conditions; None represents a part about which nothing is known."""

    parts: tuple[Condition | None, ...]


Condition: TypeAlias = Comparison | NullTest | AllOf | AnyOf


@dataclass(frozen=True, slots=True)
class Column:
    """A column that the predicate references.

    Attributes:
        index: index of the column among the columns that the predicate references.
        dtype: type in which the column's values are evaluated.
        stored: type of the column's values in the table.
    """

    index: int
    dtype: pa.DataType
    stored: pa.DataType

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Return the column."""
        return columns[self.index]


@dataclass(frozen=True, slots=True)
class Constant:
    """An expression that has the same value for all rows.

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
        kernel: function that computes the result from the values of the operands.
        operands: the operands, which are evaluated from left to right before the kernel is called.
        dtype: type of the result.
        condition: bounds on columns that the expression implies; None if nothing is known.
        is_cast: whether the expression only casts its single operand to another type.
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
