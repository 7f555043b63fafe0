"""ComputedColumns: the columns of a scan or take that SQL expressions compute from columns of the table.

Expressions that consist of the name of a column need no computation: the column is returned with another name, and
keeps its type, metadata, and nullability. JSON columns are then returned as text; other expressions are computed from
their binary form, which the functions for JSON need.

**Source:** ``columns`` as a dict in pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_core.errors import InvalidTypeError, NotSupportedError
from lance_core.scan.output_schema import shown_schema
from lance_core.scan.shown_columns import with_json_text
from lance_core.schema.extension_types import storage_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.predicate.engine import SqlExpressions
    from lance_core.schema.field import Field, Schema

__all__ = ["ComputedColumns", "array_at", "field_at", "index_path"]


@dataclass(frozen=True, slots=True)
class ComputedColumns:
    """Named SQL expressions on the columns of a table.

    Attributes:
        wanted: the fields to read, with JSON columns in their binary form.
        paths: maps the name of each result that is a column of the table to the indices from the top-level field of
            ``wanted`` down to the column.
        names: the names of all results, in order.
    """

    wanted: Schema
    paths: Mapping[str, tuple[int, ...]]
    names: tuple[str, ...]
    _expressions: SqlExpressions | None

    @classmethod
    def plan(cls, schema: Schema, columns: Mapping[Any, Any]) -> ComputedColumns:
        """Parse the expressions.

        Args:
            schema: schema of the table, in the form that is returned to callers, except that JSON columns are binary.
            columns: maps the name of each result to SQL text.

        Raises:
            InvalidInputError: an expression cannot be parsed, refers to an unknown column, or mixes incompatible types.
            InvalidTypeError: a name or an expression is not a string.
            NotSupportedError: an expression contains SQL that is not supported, or uses a blob column; or no expression
                uses any column.
        """
        for name, text in columns.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise InvalidTypeError(f"columns must map names to SQL expressions, found {name!r}: {text!r}")
        if not columns:
            return cls(schema.project([]), {}, (), None)
        # sqlglot and DataFusion are large packages, so they are loaded only when they are needed.
        from lance_core.predicate.sql_text import SqlText

        paths = {name: SqlText.of(schema, text).column for name, text in columns.items()}
        expressions = None
        if None in paths.values():
            from lance_core.predicate.engine import SqlExpressions

            computed = {name: text for name, text in columns.items() if paths[name] is None}
            expressions = SqlExpressions.plan(schema, computed)
        read = [path for path in paths.values() if path is not None]
        used = [] if expressions is None else list(expressions.paths)
        if not read and not used:
            raise NotSupportedError(
                f"no expression of the columns {list(columns)} uses a column of the table; at least one must"
            )
        wanted = schema.project(list(dict.fromkeys(map(_dotted, [*read, *used]))))
        for path in used:
            _check_computable(wanted, path)
        found = {name: index_path(wanted, path) for name, path in paths.items() if path is not None}
        return cls(wanted, found, tuple(columns), expressions)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the results."""
        read = shown_schema(self.wanted)
        fields = {name: field_at(read, path).with_name(name) for name, path in self.paths.items()}
        if self._expressions is not None:
            fields |= {field.name: field for field in self._expressions.schema}
        return pa.schema([fields[name] for name in self.names], metadata=read.metadata)

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Compute the results for a batch of :attr:`wanted`.

        Raises:
            InvalidInputError: an expression cannot be evaluated for a row.
        """
        arrays = {
            name: with_json_text(array_at(batch, path), _node_at(self.wanted, path))
            for name, path in self.paths.items()
        }
        if self._expressions is not None:
            used = [array_at(batch, index_path(self.wanted, path)) for path in self._expressions.paths]
            found = self._expressions.evaluate([storage_array(array) for array in used], batch.num_rows)
            arrays |= dict(zip(found.schema.names, found.columns, strict=True))
        return [arrays[name] for name in self.names]


def index_path(schema: Schema, path: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices from the top-level field down to the struct member at a path, which must exist."""
    found = []
    siblings = schema.fields
    for name in path:
        found.append(next(index for index, node in enumerate(siblings) if node.name == name))
        siblings = siblings[found[-1]].children
    return tuple(found)


def field_at(schema: pa.Schema, path: tuple[int, ...]) -> pa.Field:
    """Return the field at a path of indices; it is nullable if any field on the path is."""
    field: Any = schema.field(path[0])
    nullable = field.nullable
    for index in path[1:]:
        dtype = field.type
        field = (dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype).field(index)
        nullable = nullable or field.nullable
    return field.with_nullable(nullable)


def array_at(batch: pa.RecordBatch, path: tuple[int, ...]) -> pa.Array:
    """Return the array at a path of indices; where a struct on the path is null, so is the result."""
    array: Any = batch.column(path[0])
    for index in path[1:]:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        # flatten() propagates nulls of the struct to its members.
        array = array.flatten()[index]
    return array


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


def _node_at(schema: Schema, path: tuple[int, ...]) -> Field:
    node = schema.fields[path[0]]
    for index in path[1:]:
        node = node.children[index]
    return node


def _check_computable(schema: Schema, path: tuple[str, ...]) -> None:
    """Raise an error for columns with blobs, whose values are not stored in the column."""
    if any(each.is_blob for each in _node_at(schema, index_path(schema, path)).walk()):
        raise NotSupportedError(
            f"an expression cannot use the blob column {'.'.join(path)!r}; a blob column can only be selected by name"
        )
