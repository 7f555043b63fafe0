"""NewValues: the values that an update gives to columns, computed from the old ones by SQL expressions.

Expressions see the values before the update, so columns can be swapped. Results are cast to the types of the
columns: numbers and text are converted to each other, fractions are cut off, and a value that does not fit is an error.
A JSON column is set to JSON, or to text that contains JSON. An expression without columns is evaluated once.

Source: ``update`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError, NotSupportedError, SchemaMismatchError
from lance_core.predicate.predicate import is_volatile
from lance_core.scan.computed_columns import array_at, index_path
from lance_core.schema.blob_fields import is_blob_v2
from lance_core.schema.extension_types import storage_array
from lance_core.schema.field import Schema, suggestion
from lance_core.schema.json_columns import encode_json
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.predicate.engine import SqlExpressions
    from lance_core.schema.field import Field

__all__ = ["NewValues"]

_JSON: Final = "json"


@dataclass(frozen=True, slots=True)
class NewValues:
    """The new values of some columns of a table.

    Attributes:
        field_ids: the ids of the columns and of all fields below them.
    """

    field_ids: tuple[int, ...]
    _columns: Mapping[int, _NewColumn]

    @classmethod
    def plan(cls, schema: Schema, updates: Mapping[str, str]) -> Self:
        """Parse the expressions.

        Args:
            schema: schema of the table.
            updates: maps the names of columns to SQL expressions.

        Raises:
            InvalidTypeError: ``updates`` is not a mapping of strings to strings.
            InvalidInputError: there are no updates; a column does not exist, is a member of a struct or list, or has
                blobs that can only be written; or an expression cannot be parsed, uses an unknown column, has a type or
                value that does not fit the column, or contains SQL that is not supported.
        """
        _check_updates(updates)
        targets = {name: _target(schema, name) for name in updates}
        positions = {top.id: index for index, top in enumerate(schema.fields)}
        columns = {
            positions[target.id]: _NewColumn.plan(schema, target, updates[name]) for name, target in targets.items()
        }
        return cls(tuple(field.id for target in targets.values() for field in target.walk()), columns)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of all columns of the table with the new values.

        Raises:
            SchemaMismatchError: a value cannot be computed, or does not fit its column.
        """
        arrays, fields = batch.columns, list(batch.schema)
        for index, column in self._columns.items():
            arrays[index] = column.values(batch)
            fields[index] = fields[index].with_type(arrays[index].type)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=batch.schema.metadata))


def _check_updates(updates: object) -> None:
    """Check that the argument of an update maps at least one name to SQL text.

    Raises:
        InvalidTypeError: the argument is not a mapping of strings to strings.
        InvalidInputError: the mapping is empty.
    """
    if not isinstance(updates, dict):
        raise InvalidTypeError(
            f"updates must be a dict that maps columns to SQL expressions, found {type(updates).__name__}",
            argument="updates",
        )
    for name, text in updates.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidTypeError(
                f"updates must map the names of columns to SQL expressions, found {name!r:.80}: {text!r:.80}",
                argument="updates",
            )
    if not updates:
        raise InvalidInputError("updates must name at least one column", argument="updates")


@dataclass(frozen=True, slots=True)
class _NewColumn:
    """The new values of one column.

    Attributes:
        target: the column.
        paths: for each column that the expression reads, the indices from the top-level field down to it.
        expression: computes the values.
        constant: the value, if the expression reads no column and is the same for all rows.
    """

    target: Field
    paths: tuple[tuple[int, ...], ...]
    expression: SqlExpressions
    constant: pa.Array | None = None

    @classmethod
    def plan(cls, schema: Schema, target: Field, text: str) -> Self:
        # DataFusion is a large package, so it is loaded only by the first update.
        from lance_core.predicate.engine import SqlExpressions

        try:
            parsed = SqlExpressions.plan(schema, {target.name: text})
        except NotSupportedError as error:
            # The reference raises a ValueError for SQL that it does not support.
            raise InvalidInputError(f"column {target.name!r}: {error}", column=target.name) from error
        for path in parsed.paths:
            _check_readable(schema, path)
        made = parsed.schema.field(0).type
        if target.logical_type != _JSON:
            expression = parsed.cast([arrow_type(target)])
        elif pa.types.is_large_binary(made) and parsed.paths:
            expression = parsed
        elif _is_text(made) or pa.types.is_null(made):
            expression = parsed.cast([pa.string()])
        else:
            raise InvalidInputError(
                f"column {target.name!r} contains JSON, so it can be set only to JSON or text; the type of "
                f"{text!r:.200} is {made}",
                column=target.name,
            )
        column = cls(target, tuple(index_path(schema, path) for path in expression.paths), expression)
        if expression.paths or is_volatile(text):
            return column
        return replace(column, constant=column.cast(expression.evaluate([], 1).column(0)))

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the new values for a batch of all columns."""
        if self.constant is not None:
            return self.constant.take(pa.array(np.zeros(batch.num_rows, np.int64)))
        used = [storage_array(array_at(batch, path)) for path in self.paths]
        try:
            found = self.expression.evaluate(used, batch.num_rows).column(0)
        except InvalidInputError as error:
            raise SchemaMismatchError(
                f"a new value of column {self.target.name!r} cannot be computed: {error}", column=self.target.name
            ) from error
        return self.cast(found)

    def cast(self, array: pa.Array) -> pa.Array:
        """Convert a result of the expression to the representation that is stored."""
        if self.target.logical_type != _JSON or not pa.types.is_string(array.type):
            return array
        try:
            return encode_json(array, self.target.name)
        except InvalidInputError as error:
            raise SchemaMismatchError(str(error), column=self.target.name) from error


def _target(schema: Schema, name: str) -> Field:
    """Return the column to update."""
    target = next((top for top in schema.fields if top.name == name), None)
    if target is None:
        if schema.find(name) not in (None, *schema.fields):
            raise InvalidInputError(
                f"{name!r} is a nested field; only whole columns can be updated", argument="updates", column=name
            )
        raise InvalidInputError(
            f"the table has no column {name!r}{suggestion(name, schema.names)}", argument="updates", column=name
        )
    if any(map(is_blob_v2, target.leaves())):
        raise InvalidInputError(
            f"column {name!r} contains blobs, which cannot be computed", argument="updates", column=name
        )
    return target


def _check_readable(schema: Schema, path: tuple[str, ...]) -> None:
    """Raise an error if an expression uses a column that contains blobs, whose values are not read."""
    top = next(top for top in schema.fields if top.name == path[0])
    if any(leaf.is_blob for leaf in top.leaves()):
        raise InvalidInputError(
            f"values cannot be computed from column {'.'.join(path)!r}, which contains blobs", column=path[0]
        )


def _is_text(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype))
