"""Adds columns to a table: all-null columns by a metadata-only commit, others by additional data files.

::

    fragments    nulls: unchanged, because a nullable column that no file contains is read as null
                 values: an additional file for each fragment
    schema       the new fields after the others, with ids that no field or file has used
    operation    Merge, which lists all fragments

If other writers add rows or columns at the same time, the addition is planned again on the latest version, because the
list of fragments must be complete. A column with the name of a struct of the table adds members to that struct. Members
without values can also be added to structs within lists.

Source: ``add_columns`` of pylance 14.0.2, which reports the conflict instead of planning again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lance_core.columns.column_files import commit_columns, new_files, with_deleted_rows
from lance_core.commit.commit import commit_change
from lance_core.commit.replanning import Replanning, RetryPolicy
from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.file.prepared_input import PreparedInput
from lance_core.schema.blob_fields import declared_schema
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.schema.projection import project_by_ids
from lance_core.schema.storable import check_storable
from lance_core.table.feature_flags import require_writable
from lance_core.table.field_ids import next_field_id
from lance_core.transactions.operations.merge import Merge
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lance_core.columns.column_files import ColumnFiles
    from lance_core.columns.column_values import ColumnValues
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field
    from lance_core.table.fragment import Fragment
    from lance_core.table.manifest import Manifest

__all__ = ["AddedColumns", "add_computed_columns", "add_null_columns", "add_to_fragment", "null_columns"]


def null_columns(transforms: object) -> pa.Schema | None:
    """Return the all-null columns that the first argument of ``add_columns`` describes; None if it describes values."""
    if isinstance(transforms, pa.Schema):
        return transforms
    fields = [transforms] if isinstance(transforms, pa.Field) else transforms
    if isinstance(fields, list) and fields and all(isinstance(field, pa.Field) for field in fields):
        return pa.schema(fields)
    return None


def add_null_columns(view: TableView, columns: pa.Schema, properties: Mapping[str, str] | None = None) -> TableView:
    """Add nullable columns without values, and return a view of the new version.

    Args:
        view: the version on which the first attempt is based.
        columns: the columns; metadata of the schema is added to that of the table.
        properties: properties of the transaction.

    Raises:
        InvalidInputError: a column is not nullable.
        InvalidSchemaError: a name is repeated, reserved, or not valid.
        SchemaMismatchError: the table already has one of the columns.
        UnsupportedVersionError: files of the table's version cannot store one of the columns.
        NotSupportedError: the table has format 0.1, or a format earlier than 2.2 and one of the columns adds members
            to a struct.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    added = declared_schema(schema_from_arrow(columns))
    attempts = Replanning(view, "addition of columns", RetryPolicy())
    while True:
        with attempts as latest:
            return commit_change(latest, _null_plan(latest.counted_manifest, added), properties=properties)


def add_computed_columns(
    view: TableView, values: ColumnValues, properties: Mapping[str, str] | None = None
) -> TableView:
    """Add columns with values, and return a view of the new version.

    Args:
        view: the version on which the first attempt is based.
        values: the new columns and their values.
        properties: properties of the transaction.

    Raises:
        InvalidInputError: an expression is invalid, a function fails, or the number of values differs from the number
            of rows.
        InvalidSchemaError: a name is repeated, reserved, or not valid.
        SchemaMismatchError: the table already has one of the columns, or a function returns other columns.
        UnsupportedVersionError: files of the table's version cannot store one of the columns.
        NotSupportedError: the table has format 0.1, or a format earlier than 2.2 and one of the columns adds members
            to a struct.
        TooMuchWriteContentionError: every attempt conflicted with another writer, or the first attempt did, and the
            values come from a stream, which cannot be read again.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """

    def planned(latest: TableView, files: ColumnFiles) -> Merge:
        operation = AddedColumns.of(latest, values).operation(latest, files)
        values.finish()
        return operation

    policy = RetryPolicy() if values.can_repeat else RetryPolicy(retries=0)
    return commit_columns(view, "addition of columns", planned, policy, properties)


def add_to_fragment(view: TableView, fragment: Fragment, values: ColumnValues) -> tuple[Fragment, Schema]:
    """Add columns to one fragment, without a commit; return the fragment, and the schema of the table with the columns.

    Args:
        view: a version of the table.
        fragment: one of its fragments.
        values: the new columns, and their values for this fragment.

    Raises:
        LanceError: as for :func:`add_computed_columns`, except that there are no conflicts.
    """
    added = AddedColumns.of(view, values)
    if not added.columns.fields:
        return fragment, added.schema
    with new_files() as files:
        changed = files.fragment(view, fragment, added.columns, added.schema, added.batches(view, fragment))
        values.finish()
        return changed, added.schema


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """Columns that are added to a version.

    Attributes:
        schema: the schema of the table with the new columns.
        columns: the new columns, and new members of structs.
        values: the values, as they were given.
        prepared: converts them to the declared types.
    """

    schema: Schema
    columns: Schema
    values: ColumnValues
    prepared: PreparedInput

    @classmethod
    def of(cls, view: TableView, values: ColumnValues) -> Self:
        """Determine the columns that ``values`` adds to a version."""
        manifest = view.counted_manifest
        prepared = PreparedInput(values.schema(view), upgrades_blobs=manifest.file_version >= LanceFileVersion.V2_2)
        schema = _extended(manifest, declared_schema(schema_from_arrow(prepared.schema)))
        new_ids = set(schema.field_ids()) - set(manifest.schema.field_ids())
        columns = project_by_ids(schema, new_ids)
        known = {field.id for field in manifest.schema.walk() if field.is_list}
        extended = next((field for field in columns.walk() if field.id in known), None)
        if extended is not None:
            raise NotSupportedError(
                f"new struct members with values cannot be added to the items of list {extended.name!r}; add the "
                "members without values, by passing a field or a schema"
            )
        return cls(schema, columns, values, prepared)

    def operation(self, view: TableView, files: ColumnFiles) -> Merge:
        """Return the operation that adds the columns, whose files are written if they do not exist yet."""
        manifest = view.counted_manifest
        if not self.columns.fields:
            return _merge(manifest, self.schema, manifest.fragments)
        fragments = [
            files.fragment(view, fragment, self.columns, self.schema, self.batches(view, fragment))
            for fragment in manifest.fragments
        ]
        return _merge(manifest, self.schema, fragments)

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield the values for all rows of a fragment; nothing is computed before the first batch is needed."""
        live = map(self.prepared.batch, self.values.batches(view, fragment))
        yield from with_deleted_rows(view, fragment, live, schema_to_arrow(self.columns))


def _null_plan(manifest: Manifest, added: Schema) -> Merge:
    if manifest.file_version.is_legacy:
        raise NotSupportedError("a column of nulls cannot be added to a table in format 0.1")
    schema = _extended(manifest, added)
    _check_nullable(schema.fields, set(manifest.schema.field_ids()))
    return _merge(manifest, schema, manifest.fragments)


def _merge(manifest: Manifest, schema: Schema, fragments: Sequence[Fragment]) -> Merge:
    known = set(manifest.schema.field_ids())
    return Merge(
        fragments=tuple(fragments),
        schema=schema,
        preserves_nullability=all(field.nullable for field in schema.walk() if field.id not in known),
    )


def _extended(manifest: Manifest, added: Schema) -> Schema:
    """Return the schema of the table with the new columns."""
    require_writable(manifest.message)
    check_storable(added, manifest.file_version)
    before = manifest.schema
    if manifest.file_version < LanceFileVersion.V2_2:
        given = {top.name: top for top in added.fields}
        extended = next((top.name for top in before.fields if _can_extend(top, given.get(top.name))), None)
        if extended is not None:
            raise NotSupportedError(
                f"struct members cannot be added to column {extended!r} of a table in format "
                f"{manifest.file_version.value}; format 2.2 or later is required",
                column=extended,
            )
    fields = _with_added(before.fields, added.fields, count(next_field_id(manifest.message)))
    return Schema(fields=fields, metadata={**before.metadata, **added.metadata})


def _with_added(
    before: Sequence[Field], added: Sequence[Field], new_ids: Iterator[int], path: tuple[str, ...] = ()
) -> tuple[Field, ...]:
    """Return the fields, extended by new members of structs, then the new fields; ids are assigned depth first."""
    new = {field.name: field for field in added}
    kept = [_with_members(field, new.pop(field.name, None), new_ids, (*path, field.name)) for field in before]
    return (*kept, *(_with_ids(field, new_ids) for field in new.values()))


def _with_members(field: Field, added: Field | None, new_ids: Iterator[int], path: tuple[str, ...]) -> Field:
    if added is None:
        return field
    if not _can_extend(field, added):
        raise SchemaMismatchError(f"column {'.'.join(path)!r} already exists", column=".".join(path))
    if field.is_struct:
        return field.with_children(_with_added(field.children, added.children, new_ids, path))
    (item,), (added_item,) = field.children, added.children
    return field.with_children([_with_members(item, added_item, new_ids, (*path, item.name))])


def _can_extend(field: Field, added: Field | None) -> bool:
    """Return whether a new column adds members to the existing struct (or list of structs) with the same name."""
    if added is None or field.is_leaf or added.is_leaf or field.logical_type != added.logical_type:
        return False
    return field.is_struct or (field.is_list and _can_extend(field.children[0], added.children[0]))


def _check_nullable(fields: Sequence[Field], known: Collection[int], path: tuple[str, ...] = ()) -> None:
    """Check that every new field, which has no values, is nullable; members of new fields need not be."""
    for field in fields:
        here = (*path, field.name)
        if field.id in known:
            _check_nullable(field.children, known, here)
        elif not field.nullable:
            raise InvalidInputError(
                f"column {'.'.join(here)!r} must be nullable, because existing rows have no value for it",
                column=".".join(here),
            )


def _with_ids(field: Field, new_ids: Iterator[int]) -> Field:
    field_id = next(new_ids)
    return replace(field, id=field_id, children=tuple(_with_ids(child, new_ids) for child in field.children))
