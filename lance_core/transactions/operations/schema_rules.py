"""Checks that a schema change does not modify properties on which stored data depends.

Data files refer to fields by id. A field that keeps its id must therefore keep its type; otherwise the stored values
would be misread. Its name, position, and metadata may change.

Source: behavior of pylance 14.0.2, which accepts some changes that are rejected here and fails when the table is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, SchemaMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.schema.field import Field, Schema

__all__ = ["check_field_ids", "check_field_types", "check_promise"]


def check_field_ids(schema: Schema) -> None:
    """Check that every field has a unique id.

    Raises:
        InvalidInputError: an id is missing or occurs twice.
    """
    ids = schema.field_ids()
    if min(ids, default=0) < 0:
        unnumbered = next(field for field in schema.walk() if field.id < 0)
        raise InvalidInputError(f"field {unnumbered.name!r} of the new schema has no id")
    if len(set(ids)) != len(ids):
        repeated = next(each for each in ids if ids.count(each) > 1)
        raise InvalidInputError(f"field id {repeated} occurs twice in the new schema", field=repeated)


def check_field_types(before: Schema, after: Schema) -> None:
    """Check that every field that keeps its id also keeps its type and its parent.

    Args:
        before: the table's schema.
        after: the new schema.

    Raises:
        SchemaMismatchError: a field changed its type or parent; the message identifies the field.
    """
    old = {field.id: field for field in before.walk()}
    old_parents, new_parents = _parents(before), _parents(after)
    for field in after.walk():
        was = old.get(field.id)
        if was is None:
            continue
        if field.logical_type != was.logical_type or old_parents[field.id] != new_parents[field.id]:
            change = (
                "move to a different parent"
                if field.logical_type == was.logical_type
                else f"become {field.name!r} of type {field.logical_type!r}"
            )
            raise SchemaMismatchError(
                f"field {field.id} ({was.name!r} of type {was.logical_type!r}) cannot {change} unless its values are "
                "rewritten",
                field=field.id,
                expected=was.logical_type,
                found=field.logical_type,
            )


def check_promise(before: Schema, after: Schema, *, preserves_nullability: bool) -> None:
    """Check the promise that no field became required.

    Raises:
        InvalidInputError: a field became required.
    """
    if not preserves_nullability:
        return
    old = {field.id: field for field in before.walk()}
    for field in after.walk():
        was = old.get(field.id)
        if not field.nullable and (was is None or was.nullable):
            raise InvalidInputError(
                f"preserves_nullability is set, but field {field.name!r} (id {field.id}) "
                f"{'is new and' if was is None else 'becomes'} non-nullable",
                field=field.id,
            )


def _parents(schema: Schema) -> Mapping[int, int | None]:
    """Map each field id to the id of its parent field; None at the top level."""
    found: dict[int, int | None] = {}

    def note(fields: Iterable[Field], parent: int | None) -> None:
        for field in fields:
            found[field.id] = parent
            note(field.children, field.id)

    note(schema.fields, None)
    return found
