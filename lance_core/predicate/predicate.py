"""Predicate: selects the rows of a batch for which a condition is true.

A row for which the condition is null is not selected. For the propagation of nulls through comparisons, AND, and OR,
see :mod:`lance_core.predicate.kernels`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError
from lance_core.predicate.arrow_expressions import read_arrow_expression
from lance_core.predicate.binding import Binder
from lance_core.predicate.coercion import evaluated_type
from lance_core.predicate.column_bounds import condition_of
from lance_core.predicate.expressions import Column, Computed, Constant, Expression
from lance_core.predicate.kernels import all_of
from lance_core.schema.extension_types import storage_array

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lance_core.predicate.engine import SqlExpressions
    from lance_core.predicate.expressions import Condition
    from lance_core.predicate.syntax import Node
    from lance_core.schema.field import Field, Schema

__all__ = ["Predicate", "is_volatile"]

_VOLATILE: Final = re.compile(r"\b(random|uuid)\b", re.IGNORECASE)
"""Matches the names of the functions whose results may differ even if their arguments are equal."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on the columns of a table, bound to the table's schema.

    Attributes:
        text: the SQL text as given, or the text form of an Arrow expression.
        wanted: the fields that the predicate needs, with the table's field ids; empty if the predicate is constant.
        field_ids: ids of the referenced fields; conditions refer to them by their positions in this list.
    """

    text: str
    wanted: Schema
    field_ids: tuple[int, ...]
    _paths: tuple[tuple[str, ...], ...]
    _expression: Expression

    @classmethod
    def plan(cls, schema: Schema, condition: object) -> Self:
        """Parse and bind a predicate.

        Args:
            schema: schema of the table.
            condition: SQL text, or an Arrow expression.

        Raises:
            InvalidInputError: the predicate cannot be parsed, refers to an unknown column, mixes incompatible types, or
                is not a condition.
            InvalidTypeError: the predicate is neither a string nor an Arrow expression.
            NotSupportedError: part of the predicate is not supported; the message contains that part.
        """
        if isinstance(condition, str):
            _require_text(condition)
            try:
                return cls._of_text(schema, condition)
            except (InvalidInputError, NotSupportedError) as refusal:
                return cls._of_engine(schema, condition, refusal)
        if isinstance(condition, pc.Expression):
            return cls._of_node(schema, *read_arrow_expression(condition))
        raise InvalidTypeError(
            f"a filter must be a string or a pyarrow.compute.Expression, found {type(condition).__name__}"
        )

    @classmethod
    def _of_text(cls, schema: Schema, text: str) -> Self:
        # sqlglot is a large package, so it is loaded only by the first predicate.
        from lance_core.predicate.reading import parse

        return cls._of_node(schema, text, parse(text))

    @classmethod
    def _of_engine(cls, schema: Schema, text: str, refusal: InvalidInputError | NotSupportedError) -> Self:
        """Plan a predicate that this package does not evaluate itself.

        Raises:
            InvalidInputError: DataFusion also rejects the predicate, and ``refusal`` has this type.
            NotSupportedError: DataFusion also rejects the predicate, and ``refusal`` has this type.
        """
        # DataFusion is a large package, so it is loaded only by the first predicate that needs it.
        from lance_core.predicate.engine import SqlExpressions

        try:
            test = SqlExpressions.plan(schema, {"": text}, as_condition=True)
            dtype = test.schema.field(0).type
            if not pa.types.is_boolean(dtype):
                raise refusal
            if not test.paths:
                return cls(text, schema.project([]), (), (), Constant(test.evaluate([], 1).column(0)[0]))
        except (InvalidInputError, NotSupportedError) as error:
            raise refusal from error
        wanted = schema.project(_outermost(list(test.paths)))
        field_ids = tuple(_named(wanted, path).id for path in test.paths)
        columns = [Column(index, test.types[index], test.types[index]) for index in range(len(test.paths))]
        kernel = partial(_evaluated, test)
        expression = Computed(kernel, tuple(columns), dtype, is_volatile=is_volatile(text))
        return cls(text, wanted, field_ids, test.paths, expression)

    @classmethod
    def _of_node(cls, schema: Schema, text: str, node: Node) -> Self:
        binder = Binder(schema)
        try:
            expression = binder.bind(node, adapts=True)
        except RecursionError as error:
            raise InvalidInputError(f"the predicate {_shown(text)} is nested too deeply") from error
        except pa.ArrowException as error:
            # Constants are evaluated during binding.
            raise InvalidInputError(f"the predicate {_shown(text)} cannot be evaluated: {error}") from error
        if not pa.types.is_boolean(expression.dtype):
            raise InvalidInputError(f"predicate {_shown(text)}: expected a condition, found type {expression.dtype}")
        wanted, paths = schema.project(_outermost(binder.paths)), tuple(binder.paths)
        return cls(text, wanted, tuple(_named(wanted, path).id for path in paths), paths, expression)

    @classmethod
    def on_column(
        cls,
        schema: Schema,
        column: tuple[str, pa.DataType],
        test: Callable[[pa.Array], pa.Array],
        text: str,
        other: Predicate | None,
    ) -> Predicate:
        """Return a predicate that is true where a function of one column and another predicate, if any, are true.

        Args:
            schema: schema of the table.
            column: name and type of the column.
            test: returns whether the predicate is true for each item of an array.
            text: describes the function.
            other: the other predicate.
        """
        if other is not None and other.constant is not None:
            if not other.constant:
                return other
            other = None
        before = () if other is None else other._paths
        name, dtype = column
        paths = (*before, (name,))
        wanted = schema.project(_outermost(list(dict.fromkeys(paths))))
        field_ids = tuple(_named(wanted, path).id for path in paths)
        expression = Computed(test, (Column(len(before), dtype, dtype),), pa.bool_())
        if other is None:
            return cls(text, wanted, field_ids, paths, expression)
        both = Computed(all_of, (other._expression, expression), pa.bool_(), condition=other.condition)
        return cls(f"({other.text}) AND {text}", wanted, field_ids, paths, both)

    @property
    def constant(self) -> bool | None:
        """The value of a predicate that is the same for all rows; None if it depends on the row."""
        return bool(self._expression.scalar.as_py()) if isinstance(self._expression, Constant) else None

    @property
    def condition(self) -> Condition | None:
        """The bounds on columns that the predicate implies; None if there are none.

        Columns are specified by their index in :attr:`field_ids`.
        """
        return condition_of(self._expression)

    def matches(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return a mask of the rows for which the predicate is true. Rows for which it is null are not selected.

        Args:
            batch: a batch with at least the columns of ``wanted``.

        Returns:
            A new mask of shape (num_rows,).

        Raises:
            InvalidInputError: the predicate cannot be evaluated for a row, for example because of a division by zero.
        """
        try:
            result = self._expression.evaluate([_column(batch, path) for path in self._paths])
            if isinstance(result, pa.Scalar):
                return np.full(batch.num_rows, bool(result.as_py()))
            known = result.fill_null(False) if result.null_count else result
            return np.asarray(known.to_numpy(zero_copy_only=False))
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"the predicate {_shown(self.text)} cannot be evaluated for a row: {error}"
            ) from error


def is_volatile(text: str) -> bool:
    """Return whether the results of SQL text differ from row to row even if it reads no column."""
    return _VOLATILE.search(text) is not None


def _evaluated(test: SqlExpressions, *columns: pa.Array) -> pa.Array:
    return test.evaluate(columns, len(columns[0])).column(0)


def _require_text(condition: str) -> None:
    """Reject a string that is not valid Unicode: neither columns nor manifests can contain lone surrogates."""
    try:
        condition.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"the predicate {condition!a} has an invalid character at position {error.start + 1}: {error.reason}"
        ) from error


def _outermost(paths: list[tuple[str, ...]]) -> list[str]:
    """Return the paths that are not below another path, as dotted names."""
    kept = [path for path in paths if not any(path[:length] in paths for length in range(1, len(path)))]
    return [".".join(path) for path in kept]


def _named(wanted: Schema, path: tuple[str, ...]) -> Field:
    """Return the field at a path, which must not be empty."""
    siblings = wanted.fields
    for name in path:
        found = next(node for node in siblings if node.name == name)
        siblings = found.children
    return found


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    array: Any = storage_array(batch.column(path[0]))
    for member in path[1:]:
        # flatten() propagates nulls of the struct to its members.
        array = array.flatten()[array.type.get_field_index(member)]
    dtype = evaluated_type(array.type)
    has_items = pa.types.is_dictionary(array.type) and array.type.value_type == dtype
    return array if array.type == dtype or has_items else array.cast(dtype)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]} …")
