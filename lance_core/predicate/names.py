"""Resolves the names in a predicate to columns and struct members of a schema.

Column names are matched exactly; if there is no exact match and the name is not quoted, case is ignored. The names of
struct members are always matched exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.schema.convert import RESERVED_NAMES
from lance_core.schema.extension_types import storage_type
from lance_core.schema.logical_types import arrow_type

if TYPE_CHECKING:
    from lance_core.predicate.syntax import Name
    from lance_core.schema.field import Schema

__all__ = ["find_column"]


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
            schema.project([".".join(path[: depth + 1])])
            raise InvalidInputError(
                f"predicate: {'.'.join(path[:depth])!r} of type {dtype} has no member {member!r}",
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
    if head in RESERVED_NAMES:
        raise NotSupportedError(f"predicate: system column {head!r} cannot be used in predicates", column=head)
    schema.project([head])
    raise InvalidInputError(f"predicate: unknown column {head!r}", column=head)


def _member_names(dtype: pa.DataType) -> list[str]:
    return [dtype.field(index).name for index in range(dtype.num_fields)] if pa.types.is_struct(dtype) else []
