"""Evaluates SQL expressions with DataFusion. Queries are executed by ``scan/sql_table.py``.

Expressions are parsed once, for batches of a schema, and planned for each batch, which takes about half a millisecond.
A reusable plan would need a table that is implemented in Python, whose methods DataFusion calls from its own threads;
these threads wait for the interpreter's lock, and do not exist in a forked process.
"""

from __future__ import annotations

import os
import re
from ast import literal_eval
from functools import cache
from typing import TYPE_CHECKING, Final, Self

import datafusion
import pyarrow as pa

from lance_core.errors import InvalidInputError
from lance_core.predicate.coercion import evaluated_type
from lance_core.predicate.json_functions import JSON_FUNCTIONS
from lance_core.predicate.literals import as_filter, with_typed_literals
from lance_core.predicate.sql_text import SqlText
from lance_core.schema.extension_types import storage_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.schema.field import Schema

__all__ = ["SqlExpressions", "failure", "lacks_threads", "new_context", "reason", "session"]

_OPTIONS: Final = {
    "datafusion.sql_parser.enable_ident_normalization": "false",
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    "datafusion.execution.target_partitions": "1",
    "datafusion.execution.batch_size": str(2**20),
}

_PROCESS: Final = os.getpid()

_RAISED: Final = re.compile(r"PyErr \{ type: .*?, value: \w+\((?P<message>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


class SqlExpressions:
    """SQL expressions on the columns of a schema, parsed once and evaluated for many batches.

    Attributes:
        paths: paths of the columns and struct members that the expressions read.
        types: types in which the columns and members are evaluated, in the same order.
        schema: names and types of the results, and whether they may be null.
    """

    def __init__(
        self, paths: tuple[tuple[str, ...], ...], source: pa.Schema, expressions: Sequence[datafusion.Expr]
    ) -> None:
        """See :meth:`plan`."""
        self.paths = paths
        self.types = tuple(source.types)
        self._source = source
        self._expressions = expressions
        frame = self._frame([pa.array([], dtype) for dtype in source.types], 0)
        # Some types, such as that of the sum of a signed and an unsigned integer, are known only when the plan is
        # executed. Some expressions, such as aggregates, are refused only then.
        self.schema: pa.Schema = next((batch.schema for batch in frame.collect()), frame.schema())

    @classmethod
    def plan(cls, schema: Schema, expressions: Mapping[str, str], *, as_condition: bool = False) -> Self:
        """Parse expressions, and plan their evaluation.

        Args:
            schema: schema of the table.
            expressions: maps the name of each result to SQL text.
            as_condition: whether the expressions are used as conditions. If so, dictionaries are evaluated as values.

        Raises:
            InvalidInputError: an expression cannot be parsed, refers to an unknown column, or mixes incompatible types.
            NotSupportedError: an expression contains SQL that is not supported.
        """
        texts = {name: SqlText.of(schema, text) for name, text in expressions.items()}
        columns = {shown: column for text in texts.values() for shown, column in text.columns.items()}
        types = {shown: dtype for shown, (_, dtype) in columns.items()}
        source = pa.schema(
            [
                pa.field(shown, evaluated_type(dtype))
                if as_condition
                else pa.field(shown, storage_type(dtype), nullable=_is_nullable(schema, path))
                for shown, (path, dtype) in columns.items()
            ]
        )
        try:
            frame = session().read_batch(pa.RecordBatch.from_pylist([], source))
            parsed = []
            for name, text in texts.items():
                expression = with_typed_literals(frame.parse_sql_expr(f"({text.text})"), types)
                parsed.append((as_filter(expression) if as_condition else expression).alias(name))
            return cls(tuple(path for path, _ in columns.values()), source, parsed)
        except InvalidInputError:
            raise
        except BaseException as error:  # DataFusion raises nothing narrower
            raise _refused(expressions.values(), failure(error)) from error

    def cast(self, types: Sequence[pa.DataType]) -> SqlExpressions:
        """Return the same expressions with results of other types.

        Raises:
            InvalidInputError: a result cannot be converted to its type, or a constant is out of the range of the type.
        """
        names = self.schema.names
        expressions = [
            expression.cast(dtype).alias(name)
            for name, expression, dtype in zip(names, self._expressions, types, strict=True)
        ]
        try:
            return SqlExpressions(self.paths, self._source, expressions)
        except BaseException as error:  # DataFusion raises nothing narrower
            wanted = ", ".join(f"{name!r}: {dtype}" for name, dtype in zip(names, types, strict=True))
            raise InvalidInputError(
                f"the results of the expressions cannot be converted ({wanted}): {reason(failure(error))}"
            ) from error

    def evaluate(self, columns: Sequence[pa.Array], num_rows: int) -> pa.RecordBatch:
        """Evaluate the expressions.

        Args:
            columns: the columns of :attr:`paths`, as arrays of :attr:`types`.
            num_rows: number of rows.

        Returns:
            A batch of :attr:`schema` with as many rows.

        Raises:
            InvalidInputError: an expression cannot be evaluated for a row.
        """
        try:
            found = self._frame(columns, num_rows).collect()
        except BaseException as error:  # DataFusion raises nothing narrower
            raise InvalidInputError(reason(failure(error))) from error
        results = zip(*(batch.columns for batch in found), strict=True) if num_rows else ((),) * len(self.schema)
        arrays = [
            pa.chunked_array(parts, dtype).combine_chunks()
            for parts, dtype in zip(results, self.schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def _frame(self, columns: Sequence[pa.Array], num_rows: int) -> datafusion.DataFrame:
        # The last column, which no expression reads, keeps the number of rows.
        batch = pa.record_batch([*columns, pa.nulls(num_rows)], schema=self._source.append(pa.field("", pa.null())))
        return session().read_batch(batch).select(*self._expressions)


def _is_nullable(schema: Schema, path: tuple[str, ...]) -> bool:
    siblings = schema.fields
    for name in path:
        found = next(node for node in siblings if node.name == name)
        if found.nullable:
            return True
        siblings = found.children
    return False


@cache
def session() -> datafusion.SessionContext:
    """Return the context in which all expressions are evaluated; it contains no tables."""
    return new_context(_OPTIONS)


def new_context(
    options: Mapping[str, str], runtime: datafusion.RuntimeEnvBuilder | None = None
) -> datafusion.SessionContext:
    """Return a context with the functions for JSON columns.

    Args:
        options: options of DataFusion.
        runtime: limits of memory and disk; None means no limits.
    """
    context = datafusion.SessionContext(datafusion.SessionConfig(dict(options)), runtime)
    for each in JSON_FUNCTIONS:
        taken = [pa.large_binary(), *[pa.string()] * each.num_texts]
        context.register_udf(datafusion.udf(each, taken, each.gives, "immutable", each.name))
    return context


def lacks_threads() -> bool:
    """Return whether this process was forked from one that used DataFusion, whose threads do not exist here.

    Expressions are evaluated by the calling thread, but queries also need DataFusion's threads.
    """
    return os.getpid() != _PROCESS


def failure(error: BaseException) -> BaseException:
    """Return an error of DataFusion; raise other errors, such as an interrupt.

    A panic in DataFusion, for example caused by a division of the greatest decimal, is not an ``Exception``.
    """
    is_failure = isinstance(error, Exception) and not isinstance(error, MemoryError)
    if is_failure or type(error).__name__ == "PanicException":
        return error
    raise error


def _refused(texts: Iterable[str], error: BaseException) -> InvalidInputError:
    shown = ", ".join(repr(text if len(text) <= 200 else f"{text[:200]} …") for text in texts)
    return InvalidInputError(f"SQL {shown}: {reason(error)}")


def reason(error: BaseException) -> str:
    """Return the message of an error of DataFusion, or of an error raised by a function of this library."""
    # The latter stands inside DataFusion's message, as a Python literal.
    raised = _RAISED.search(str(error))
    if raised is not None:
        return str(literal_eval(raised["message"]))
    # A failed step of the planning is reported before its cause.
    return str(error).removeprefix("DataFusion error: ").rpartition("\ncaused by\n")[2].strip()
