"""Evaluates SQL expressions with DataFusion.

Expressions are parsed once, for batches of a schema, and planned for each batch, which takes about half a millisecond.
A plan that is kept needs a table in Python, whose methods DataFusion calls from threads of its own; these wait for
Python's lock, and do not exist in a forked process.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Self

import datafusion
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.predicate.coercion import evaluated_type
from lance_core.predicate.literals import as_filter, with_typed_literals
from lance_core.predicate.sql_text import SqlText

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.schema.field import Schema

__all__ = ["SqlExpressions"]

_OPTIONS: Final = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.batch_size": str(2**20),
}


class SqlExpressions:
    """SQL expressions on the columns of a schema, planned once and evaluated for many batches.

    Attributes:
        paths: paths of the columns and struct members that the expressions read.
        types: types in which these are evaluated, in the same order.
        schema: names and types of the results.
    """

    def __init__(
        self, paths: tuple[tuple[str, ...], ...], source: pa.Schema, expressions: Sequence[datafusion.Expr]
    ) -> None:
        """See :meth:`plan`."""
        self.paths = paths
        self.types = tuple(source.types)
        self._source = source
        self._expressions = expressions
        planned = self._frame([pa.array([], dtype) for dtype in source.types], 0).schema()
        # Whether a result may be null depends on how DataFusion simplifies the expression.
        self.schema = pa.schema([(result.name, result.type) for result in planned])

    @classmethod
    def plan(cls, schema: Schema, expressions: Mapping[str, str], *, as_condition: bool = False) -> Self:
        """Parse expressions, and plan their evaluation.

        Args:
            schema: schema of the table.
            expressions: maps the name of each result to SQL text.
            as_condition: whether the expressions are used as conditions.

        Raises:
            InvalidInputError: an expression cannot be parsed, refers to an unknown column, or mixes incompatible types.
            NotSupportedError: an expression contains SQL that is not supported.
        """
        texts = {name: SqlText.of(schema, text) for name, text in expressions.items()}
        columns = {shown: column for text in texts.values() for shown, column in text.columns.items()}
        types = {shown: dtype for shown, (_, dtype) in columns.items()}
        source = pa.schema([(shown, evaluated_type(dtype)) for shown, dtype in types.items()])
        try:
            frame = _session().read_batch(pa.RecordBatch.from_pylist([], source))
            parsed = []
            for name, text in texts.items():
                expression = with_typed_literals(frame.parse_sql_expr(f"({text.text})"), types)
                parsed.append((as_filter(expression) if as_condition else expression).alias(name))
            planned = cls(tuple(path for path, _ in columns.values()), source, parsed)
            # Some expressions, such as aggregates, are refused only when they are executed.
            planned._frame([pa.array([], dtype) for dtype in source.types], 0).execution_plan()
            return planned
        except InvalidInputError:
            raise
        except Exception as error:  # DataFusion raises nothing narrower
            raise _refused(expressions.values(), error) from error

    def evaluate(self, columns: Sequence[pa.Array], num_rows: int) -> pa.RecordBatch:
        """Evaluate the expressions.

        Args:
            columns: the columns of :attr:`paths`, without dictionaries or views.
            num_rows: number of rows.

        Returns:
            A batch of :attr:`schema` with as many rows.

        Raises:
            InvalidInputError: an expression cannot be evaluated for a row.
        """
        try:
            found = self._frame(columns, num_rows).collect()
        except Exception as error:  # DataFusion raises nothing narrower
            raise InvalidInputError(_reason(error)) from error
        results = zip(*(batch.columns for batch in found), strict=True) if num_rows else ((),) * len(self.schema)
        arrays = [
            pa.chunked_array(parts, dtype).combine_chunks()
            for parts, dtype in zip(results, self.schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def _frame(self, columns: Sequence[pa.Array], num_rows: int) -> datafusion.DataFrame:
        # The last column, which no expression reads, keeps the number of rows.
        batch = pa.record_batch([*columns, pa.nulls(num_rows)], names=[*self._source.names, ""])
        return _session().read_batch(batch).select(*self._expressions)


@cache
def _session() -> datafusion.SessionContext:
    return datafusion.SessionContext(datafusion.SessionConfig(_OPTIONS))


def _refused(texts: Iterable[str], error: Exception) -> InvalidInputError:
    shown = ", ".join(repr(text if len(text) <= 200 else f"{text[:200]} …") for text in texts)
    return InvalidInputError(f"SQL {shown}: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error).removeprefix("DataFusion error: ").strip()
