"""The expression tree of a bound predicate: columns, constants, kernels, and the conditions on columns that they imply.

Values are Arrow arrays; constants are Arrow scalars, which Arrow's kernels accept in combination with arrays.

A column may be an Arrow dictionary. The part of a predicate that depends on no other column is then evaluated once for
each item of the dictionary instead of each row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lance_core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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

    @property
    def columns(self) -> frozenset[int]:
        """The indices of the columns that the expression depends on."""
        return frozenset((self.index,))

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Return the column."""
        values = columns[self.index]
        return values.cast(self.dtype) if pa.types.is_dictionary(values.type) else values


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

    @property
    def columns(self) -> frozenset[int]:
        """The indices of the columns that the expression depends on."""
        return frozenset()

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
        is_volatile: whether the result for a row may differ from that for another row with the same values.
        columns: the indices of the columns that the expression depends on.
    """

    kernel: Callable[..., Values]
    operands: tuple[Expression, ...]
    dtype: pa.DataType
    condition: Condition | None = None
    is_cast: bool = False
    is_volatile: bool = False
    columns: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the columns of the operands."""
        object.__setattr__(self, "columns", frozenset().union(*[operand.columns for operand in self.operands]))

    def evaluate(self, columns: Sequence[pa.Array]) -> Values:
        """Evaluate the expression."""
        if len(self.columns) == 1 and not self.is_volatile:
            [index] = self.columns
            column = columns[index]
            if pa.types.is_dictionary(column.type) and len(column.dictionary) < len(column):
                return self._evaluate_items(index, columns)
        return self.kernel(*(operand.evaluate(columns) for operand in self.operands))

    def _evaluate_items(self, index: int, columns: Sequence[pa.Array]) -> Values:
        """Evaluate the expression for the items of the dictionary of its only column."""
        column = columns[index]
        items, indices = column.dictionary, column.indices
        if indices.null_count:
            # Null rows refer to an additional item.
            indices = indices.cast(pa.int64()).fill_null(len(items))
            items = pa.concat_arrays([items, pa.nulls(1, items.type)])
        try:
            result = self.evaluate([*columns[:index], items, *columns[index + 1 :]])
        except (pa.ArrowException, InvalidInputError):
            # The expression may be invalid for an item that no row refers to.
            return self.evaluate([*columns[:index], column.dictionary_decode(), *columns[index + 1 :]])
        return result.take(indices) if isinstance(result, pa.Array) else result


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
