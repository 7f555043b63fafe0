"""Rules for the fields that a merge may change or add.

Data files refer to fields by id, so an id must identify the same column as long as any file may contain it:

=========================  ==========================================================================================
a field of the merge …     requirement
=========================  ==========================================================================================
has an id of the table     it keeps its parent field; it does not take the name of another field of the table; its type
                           and nullability do not change, unless every fragment rewrites it
has a new id               the id is greater than all ids in the schema and in all data files and overlays, including
                           dropped columns, and greater than the highest id that the table has recorded
has a new id and the name  every fragment stores it; otherwise the values would be lost
of a field in the table
=========================  ==========================================================================================

A schema that was renumbered from 0 breaks these rules if a column was dropped or moved.

Source: changes that pylance 14.0.2 rejects, and the error messages of pylance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.table.field_ids import next_field_id
from lance_core.table.fragment_files import field_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lance_core.proto import pb_table
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["check_merged_schema"]


def check_merged_schema(
    current: Manifest, schema: Schema, fragments: Sequence[Fragment], kept: Sequence[Fragment]
) -> None:
    """Check the fields of a merge against the rules of this module.

    Args:
        current: the version to build on.
        schema: the schema after the merge.
        fragments: all fragments after the merge.
        kept: those of ``fragments`` that are already in the table.

    Raises:
        SchemaMismatchError: a field would replace a different field, change its type or nullability, or lose its
            values.
        InvalidInputError: a new field has an id that is already in use.
    """
    known = {field.id: (path, parent, field) for path, parent, field in _places(current.schema.fields)}
    id_of = {path: field_id for field_id, (path, _, _) in known.items()}
    before = {fragment.id: fragment for fragment in current.message.fragments}
    anew = _stored_anew(before, kept)
    first_new = next_field_id(current.message)
    for path, parent, field in _places(schema.fields):
        if field.id in known:
            old_path, old_parent, was = known[field.id]
            if parent != old_parent or id_of.get(path, field.id) != field.id:
                raise SchemaMismatchError(
                    f"field id {field.id} is {'.'.join(old_path)!r} in version {current.version} and cannot become "
                    f"{'.'.join(path)!r}: the values of one field would be read as values of the other",
                    field=field.id,
                )
            if before and field.id not in anew:
                _check_unchanged(was, field)
        elif field.id < first_new:
            raise InvalidInputError(
                f"new field {'.'.join(path)!r} has id {field.id}, which is already in use; new field ids start at "
                f"{first_new}",
                field=field.id,
                expected=first_new,
                found=field.id,
            )
        elif path in id_of:
            _check_stored(field, id_of[path], path, fragments)


def _stored_anew(before: Mapping[int, pb_table.DataFragment], kept: Iterable[Fragment]) -> Collection[int]:
    """Return the ids of the fields that every fragment stores in a different file than before."""
    found: set[int] | None = None
    for fragment in kept:
        old = field_files(before[fragment.id])
        anew = {field_id for field_id, place in field_files(fragment.message).items() if old.get(field_id) != place}
        found = anew if found is None else found & anew
    return found or ()


def _places(
    fields: Sequence[Field], above: tuple[str, ...] = (), parent: int | None = None
) -> Iterator[tuple[tuple[str, ...], int | None, Field]]:
    """Yield every field with its path of names and the id of its parent field."""
    for field in fields:
        path = (*above, field.name)
        yield path, parent, field
        yield from _places(field.children, path, field.id)


def _check_unchanged(was: Field, field: Field) -> None:
    if field.logical_type != was.logical_type:
        raise SchemaMismatchError(
            f"a merge can change field {field.id} ({was.name!r}) from type {was.logical_type!r} to type "
            f"{field.logical_type!r} only if it rewrites the field in every fragment",
            field=field.id,
            expected=was.logical_type,
            found=field.logical_type,
        )
    if field.nullable != was.nullable:
        old, new = ("nullable" if each.nullable else "not nullable" for each in (was, field))
        raise SchemaMismatchError(
            f"a merge can change field {field.id} ({was.name!r}) from {old} to {new} only if it rewrites the field in "
            "every fragment",
            field=field.id,
            expected=old,
            found=new,
        )


def _check_stored(field: Field, old_id: int, path: tuple[str, ...], fragments: Sequence[Fragment]) -> None:
    wanted = {field.id, *(leaf.id for leaf in field.leaves())}
    for fragment in fragments:
        if wanted.isdisjoint(field_files(fragment.message)):
            raise SchemaMismatchError(
                f"field {'.'.join(path)!r} has id {old_id} and would get id {field.id}, but fragment {fragment.id} "
                f"stores no values with the new id",
                field=field.id,
                fragment=fragment.id,
            )
