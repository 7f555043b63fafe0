"""Drops columns of a table by a metadata-only commit.

::

    fragments    unchanged: the data files keep the values, until the fragments are compacted
    schema       without the columns, and without structs and lists that have lost all of their members
    operation    Project

If other writers have committed in the meantime, the columns are dropped from the latest version.

Source: ``drop_columns`` of pylance 14.0.2, which reports the conflict instead, and, up to format 2.1, drops a whole
list if one member of its items is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_core.commit.commit import commit_change
from lance_core.commit.replanning import Replanning, RetryPolicy
from lance_core.errors import InvalidInputError, InvalidTypeError
from lance_core.table.feature_flags import require_writable
from lance_core.transactions.operations.project import Project

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field, Schema

__all__ = ["drop_columns"]


def drop_columns(view: TableView, columns: object) -> TableView:
    """Drop columns, and return a view of the new version.

    Args:
        view: the version on which the first attempt is based.
        columns: a sequence of names of columns, or paths to members of structs ("s.x") or of the items of lists
            ("l.item.x").

    Raises:
        InvalidTypeError: ``columns`` is not a sequence of strings.
        SchemaMismatchError: a column does not exist.
        InvalidInputError: no column would remain, or a part of a map would be dropped.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    paths = _checked_paths(columns)
    attempts = Replanning(view, "removal of columns", RetryPolicy())
    while True:
        with attempts as latest:
            require_writable(latest.manifest.message)
            schema = _without(latest.schema, paths)
            return commit_change(latest, Project(schema=schema, preserves_nullability=True))


def _checked_paths(columns: object) -> list[str]:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidTypeError(f"columns must be a list of names, found {type(columns).__name__}", argument="columns")
    unnamed = next((column for column in columns if not isinstance(column, str)), None)
    if unnamed is not None:
        raise InvalidTypeError(f"columns must contain only names, found {unnamed!r:.80}", argument="columns")
    return list(columns)


def _without(schema: Schema, paths: Sequence[str]) -> Schema:
    dropped = set()
    for path in paths:
        *above, last = schema.trail(path)
        map_field = next((field for field in above if field.is_map), None)
        if map_field is not None:
            raise InvalidInputError(
                f"{path!r} is a part of the map {map_field.name!r}; only the whole map can be dropped", column=path
            )
        dropped.add(last.id)
    kept = _kept(schema.fields, dropped)
    if not kept:
        raise InvalidInputError(f"at least one column must remain; the table has only {schema.names}")
    return replace(schema, fields=kept)


def _kept(fields: Sequence[Field], dropped: Collection[int]) -> tuple[Field, ...]:
    """Return the fields that are not dropped; a field that loses all of its children is dropped too."""
    kept = []
    for field in fields:
        children = _kept(field.children, dropped)
        if field.id not in dropped and (children or not field.children):
            kept.append(field.with_children(children))
    return tuple(kept)
