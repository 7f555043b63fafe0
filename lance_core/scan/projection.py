"""Projection: the columns that a scan returns.

Columns are specified as in pylance: a top-level name selects a column, and a dotted path into structs selects a member.
In a scan, the member becomes a separate column whose name is the path; in a take, it stays inside its struct, which
then contains only the requested members. A dict maps names to SQL expressions (``computed_columns``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.scan.computed_columns import ComputedColumns, array_at, field_at
from lance_core.scan.output_schema import OutputSchema, batch_without_columns
from lance_core.schema.field import trail_of

if TYPE_CHECKING:
    from lance_core.schema.field import Schema

__all__ = ["Projection"]


@dataclass(frozen=True, slots=True)
class Projection:
    """The fields to read, and the result columns to build from them.

    Attributes:
        wanted: the fields to read.
        schema: the Arrow schema of the result.
        paths: for each result column, the indices from the top-level column down to the member; None if the result
            consists of the columns as read, or of computed columns.
        computed: the columns that SQL expressions compute; None if there are none.
    """

    wanted: Schema
    schema: pa.Schema
    paths: tuple[tuple[int, ...], ...] | None = None
    computed: ComputedColumns | None = None

    @classmethod
    def plan(cls, schema: Schema, columns: Iterable[str] | dict[str, str] | None) -> Projection:
        """Choose the columns of a scan.

        Args:
            schema: schema of the table.
            columns: names or dotted paths; None means all columns. A dict maps names to SQL expressions.

        Raises:
            InvalidInputError: a name is unknown or repeated, or an expression is invalid.
            InvalidTypeError: the argument is neither a list of names nor a dict of expressions.
            NotSupportedError: an expression is not supported.
        """
        if isinstance(columns, dict):
            return cls._computed(schema, columns)
        names = _names(columns)
        nested = cls._of(schema, names)
        wanted, read = nested.wanted, nested.schema
        if names is None or all(name in wanted.names for name in names):
            return nested
        paths = tuple(_path(wanted, name) for name in names)
        fields = [field_at(read, path).with_name(name) for path, name in zip(paths, names, strict=True)]
        return cls(wanted, pa.schema(fields, metadata=read.metadata), paths)

    @classmethod
    def plan_nested(cls, schema: Schema, columns: Iterable[str] | dict[str, str] | None) -> Projection:
        """Choose the columns of a take; see :meth:`plan`."""
        if isinstance(columns, dict):
            return cls._computed(schema, columns)
        return cls._of(schema, _names(columns))

    @classmethod
    def _of(cls, schema: Schema, names: list[str] | None) -> Projection:
        wanted = schema if names is None else schema.project(names)
        return cls(wanted, OutputSchema(wanted).schema)

    @classmethod
    def _computed(cls, schema: Schema, columns: dict[str, str]) -> Projection:
        computed = ComputedColumns.plan(schema, columns)
        return cls(computed.wanted, computed.schema, computed=computed)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch of the fields that were read to a batch of the result columns.

        Raises:
            InvalidInputError: an expression cannot be evaluated for a row.
        """
        if self.computed is not None and self.schema.names:
            return pa.RecordBatch.from_arrays(self.computed.arrays(batch), schema=self.schema)
        if self.paths is None:
            return batch
        if not self.paths:
            return batch_without_columns(batch.num_rows)
        arrays = [array_at(batch, path) for path in self.paths]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _names(columns: Iterable[str] | None) -> list[str] | None:
    """Return the argument as a list; None means all columns."""
    if columns is None:
        return None
    names = None if isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable) else list(columns)
    if names is None or not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"columns must be a list of names, found {columns if names is None else names!r}")
    return names


def _path(wanted: Schema, name: str) -> tuple[int, ...]:
    """Return the indices from the top-level field down to the field with the given name."""
    path: list[int] = []
    siblings = wanted.fields
    trail = trail_of(siblings, name) or []
    for node in trail:
        path.append(next(index for index, sibling in enumerate(siblings) if sibling is node))
        if node is not trail[-1] and not node.is_struct:
            raise InvalidInputError(f"column {name!r}: {node.name!r} is not a struct, so it has no members")
        siblings = node.children
    return tuple(path)
