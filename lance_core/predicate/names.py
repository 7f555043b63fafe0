"""Resolving names to columns.

The name of a column is matched exactly; if there is no exact match and the name is not quoted, case is ignored. Members
of structs are always matched exactly.

Source: predicates tested with pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.schema.extension_types import storage_type
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.projection import project

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_core.predicate.syntax import Name
    from lance_core.schema.field import Schema

__all__ = ["find_column"]

_SYSTEM_COLUMNS: Final = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)


def find_column(schema: Schema, name: Name) -> tuple[tuple[str, ...], pa.DataType]:
    """Resolve a name to the path of a column or member, in the schema's spelling, and its type.

    Raises:
        InvalidInputError: the name is unknown; close matches are suggested.
        NotSupportedError: the name is a system column.
    """
    head = _top_level(schema, name)
    path = (head, *name.path[1:])
    dtype = arrow_type(next(top for top in schema.fields if top.name == head))
    for depth, member in enumerate(path[1:], start=1):
        struct = storage_type(dtype)
        members = _member_names(struct)
        if member not in members:
            project(schema, [".".join(path[: depth + 1])])
            raise InvalidInputError(
                f"predicate: {'.'.join(path[:depth])!r} is of type {dtype} and has no member {member!r}",
                column=name.text,
            )
        dtype = struct.field(members.index(member)).type
    return path, dtype


def _top_level(schema: Schema, name: Name) -> str:
    head = name.path[0]
    if head in schema.names:
        return head
    matches = [] if name.exact else [each for each in schema.names if each.lower() == head.lower()]
    if len(matches) > 1:
        raise InvalidInputError(
            f"predicate: {head!r} is ambiguous: it matches {matches}; quote the column name in backticks", column=head
        )
    if matches:
        return matches[0]
    if head in _SYSTEM_COLUMNS:
        raise NotSupportedError(f"predicate: the column {head!r} cannot be used in predicates", column=head)
    project(schema, [head])
    raise InvalidInputError(f"predicate: unknown column {head!r}", column=head)


def _member_names(dtype: pa.DataType) -> list[str]:
    import pyarrow as pa

    return [dtype.field(index).name for index in range(dtype.num_fields)] if pa.types.is_struct(dtype) else []
