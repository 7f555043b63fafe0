"""Renames columns, changes whether they may contain nulls, and changes their types.

::

    rename, nullable    Project: metadata only; fields keep their ids
    type                Merge: the column becomes a new field with a new id, in an additional file of each fragment

If other writers have committed in the meantime, the change is planned again on the latest version.

Source: ``alter_columns`` of pylance 14.0.2, which reports the conflict instead, drops the metadata of fields whose type
changes, and accepts names that are reserved or, within a struct, occur twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np
import pyarrow as pa

from lance_core.columns.casts import can_cast, cast_batch
from lance_core.columns.column_files import commit_columns, deleted_rows, with_deleted_rows
from lance_core.commit.replanning import RetryPolicy
from lance_core.errors import (
    InvalidInputError,
    InvalidSchemaError,
    InvalidTypeError,
    NotSupportedError,
    SchemaMismatchError,
)
from lance_core.file.read_config import ReadConfig
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.scanner import LanceScanner
from lance_core.schema.convert import check_names, schema_from_arrow, schema_to_arrow
from lance_core.schema.extension_types import has_extension
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.projection import project_by_ids
from lance_core.schema.storable import check_storable
from lance_core.table.feature_flags import require_writable
from lance_core.table.field_ids import next_field_id
from lance_core.transactions.operations.merge import Merge
from lance_core.transactions.operations.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance_core.columns.column_files import ColumnFiles
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field, Schema
    from lance_core.table.fragment import Fragment
    from lance_core.transactions.operations.operation import Operation
    from lance_core.versions import LanceFileVersion

__all__ = ["AlterColumn", "alter_columns"]


class AlterColumn(TypedDict, total=False):
    """The change of one column.

    Attributes:
        path: the column, or a path to a member of a struct ("s.x") or of the items of a list ("l.item.x").
        name: the new name.
        nullable: whether the column may contain nulls. A column that contains nulls cannot be made non-nullable.
        data_type: the new type.
    """

    path: str
    name: str | None
    nullable: bool | None
    data_type: pa.DataType | None


_TENSOR: Final = "arrow.fixed_shape_tensor"
"""The only extension type whose values can be cast; the values are stored as vectors."""
_TYPES = {"path": str, "name": str, "nullable": bool, "data_type": pa.DataType}


@dataclass(frozen=True, slots=True)
class _Change:
    """The changes to one field; None for each property that is kept."""

    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """The planned changes to the schema of a version.

    Attributes:
        schema: the new schema.
        required: paths of the columns that become required, and so must not contain nulls.
        before: the columns that are rewritten.
        after: the same columns with new types, and new ids where values are cast; without fields if no values are cast.
    """

    schema: Schema
    required: Sequence[str]
    before: Schema
    after: Schema


def alter_columns(view: TableView, alterations: Sequence[AlterColumn]) -> TableView:
    """Change columns, and return a view of the new version.

    Args:
        view: the version on which the first attempt is based.
        alterations: the changes; paths refer to the schema before any of the changes. If a property of a column is
            changed twice, the last change applies.

    Raises:
        InvalidTypeError: a change is not a dictionary, or a value has the wrong type.
        InvalidInputError: a change has no path, changes nothing, or has an unknown key.
        SchemaMismatchError: a column does not exist, contains nulls and cannot be made non-nullable, cannot be cast to
            a type, or contains a value that does not fit.
        InvalidSchemaError: a new name is repeated, reserved, or contains a dot.
        NotSupportedError: the table cannot store a type, or has format 0.1 and a type would change.
        TooMuchWriteContentionError: every attempt conflicted with another writer.
        CommitOutcomeUnknownError: it could not be determined whether the version was created.
        StorageError: a storage operation failed.
    """
    changes = [_parsed(alteration) for alteration in alterations]

    def planned(latest: TableView, files: ColumnFiles) -> Operation:
        require_writable(latest.manifest.message)
        plan = _plan(latest, changes)
        _check_without_nulls(latest, plan.required)
        return _operation(latest, plan, files)

    return commit_columns(view, "change of columns", planned, RetryPolicy())


def _parsed(alteration: object) -> tuple[str, _Change]:
    if not isinstance(alteration, Mapping):
        raise InvalidTypeError(f"each column change must be a dict, found {type(alteration).__name__}")
    given: dict[str, Any] = {}
    for key, value in alteration.items():
        kind = _TYPES.get(key)
        if kind is None:
            raise InvalidInputError(f"column change: unknown key {key!r:.80}; known keys: {list(_TYPES)}")
        if value is not None and not isinstance(value, kind):
            raise InvalidTypeError(
                f"column change: {key} must be of type {kind.__name__}, found {type(value).__name__}", argument=key
            )
        if value is not None:
            given[key] = value
    path = given.pop("path", None)
    if path is None:
        raise InvalidInputError(f"column change {dict(alteration)!r:.200} has no path")
    if not given:
        raise InvalidInputError(f"the change to column {path!r} must set name, nullable, or data_type")
    return path, _Change(**given)


def _plan(view: TableView, changes: Sequence[tuple[str, _Change]]) -> _Plan:
    """Apply the changes to the schema of a version."""
    before = view.schema
    of_field: dict[int, _Change] = {}
    required: dict[str, None] = {}
    casts: dict[str, list[Field]] = {}
    for path, change in changes:
        *above, field = before.trail(path)
        was = of_field.get(field.id, _Change())
        of_field[field.id] = _Change(
            change.name if change.name is not None else was.name,
            change.nullable if change.nullable is not None else was.nullable,
            change.data_type if change.data_type is not None else was.data_type,
        )
        if change.nullable is False and field.nullable:
            if not all(each.is_struct for each in above):
                raise NotSupportedError(
                    f"field {path!r} cannot be made non-nullable: it is inside a list or map, where this library "
                    "cannot check for nulls",
                    column=path,
                )
            required[".".join(f"`{each.name.replace('`', '``')}`" for each in (*above, field))] = None
        if change.data_type is not None:
            _check_cast(path, above, field, change.data_type)
            casts[path] = [*above, field]
    if required and casts:
        raise SchemaMismatchError(
            f"columns cannot be cast and made non-nullable in the same call; cast {list(casts)} first"
        )
    ids = count(next_field_id(view.counted_manifest.message))
    new_fields = {
        trail[-1].id: _numbered(_new_field(trail[-1], of_field[trail[-1].id].data_type), ids)
        for trail in casts.values()
    }
    schema = replace(before, fields=tuple(_changed(top, of_field, new_fields) for top in before.fields))
    _check_schema(schema, view)
    written = [_written_field(trail, view.manifest.file_version) for trail in casts.values()]
    rewritten = project_by_ids(before, {node.id for field in written for node in field.walk()})
    return _Plan(
        schema=schema,
        required=list(required),
        before=rewritten,
        after=replace(rewritten, fields=tuple(_changed(top, {}, new_fields) for top in rewritten.fields)),
    )


def _written_field(trail: Sequence[Field], version: LanceFileVersion) -> Field:
    """Return the field that is rewritten when the last field of a path is cast.

    A list stays in one file, because the files of its members would repeat its lengths. In format 2.0, a whole column
    stays in one file: pylance cannot read structs that are split.
    """
    if not version.is_structural:
        return trail[0]
    return next((field for field in trail if not field.is_struct), trail[-1])


def _check_cast(path: str, above: Sequence[Field], field: Field, data_type: pa.DataType) -> None:
    undivided = next((each for each in above if each.is_leaf or each.is_map), None)
    if undivided is not None:
        raise NotSupportedError(
            f"field {path!r} cannot be cast, because it is stored as a part of {undivided.name!r}", column=path
        )
    before = arrow_type(field)
    has_other_values = has_extension(field) and field.extension_name != _TENSOR
    if field.is_blob or has_other_values or not can_cast(before, data_type):
        raise SchemaMismatchError(
            f"column {path!r} cannot be cast from {before} to {data_type}",
            column=path,
            expected=before,
            found=data_type,
        )


def _new_field(field: Field, data_type: pa.DataType | None) -> Field:
    metadata = {key: value for key, value in field.metadata.items() if not key.startswith("ARROW:extension:")}
    arrow = pa.field("column", data_type, field.nullable, metadata=metadata)
    return replace(schema_from_arrow(pa.schema([arrow])).fields[0], name=field.name)


def _numbered(field: Field, ids: Iterator[int]) -> Field:
    return replace(field, id=next(ids), children=tuple(_numbered(child, ids) for child in field.children))


def _changed(field: Field, changes: Mapping[int, _Change], new_fields: Mapping[int, Field]) -> Field:
    new = new_fields.get(field.id)
    if new is None:
        new = field.with_children([_changed(child, changes, new_fields) for child in field.children])
    change = changes.get(field.id, _Change())
    return replace(
        new,
        name=new.name if change.name is None else change.name,
        nullable=new.nullable if change.nullable is None else change.nullable,
    )


def _check_schema(schema: Schema, view: TableView) -> None:
    check_names([name for name in schema.names if name not in view.schema.names])
    for where, fields in [
        ("the table", schema.fields),
        *((f"field {field.name!r}", field.children) for field in schema.walk()),
    ]:
        repeated = next((name for name, times in Counter(field.name for field in fields).items() if times > 1), None)
        if repeated is not None:
            raise InvalidSchemaError(f"{where} would have more than one field named {repeated!r}", column=repeated)
    check_storable(schema, view.manifest.file_version)


def _check_without_nulls(view: TableView, required: Sequence[str]) -> None:
    for path in required:
        if LanceScanner(view.source(), columns=[], filter=f"{path} IS NULL", limit=1).count_rows():
            raise SchemaMismatchError(f"column {path} contains nulls, so it cannot be made non-nullable", column=path)


def _operation(view: TableView, plan: _Plan, files: ColumnFiles) -> Operation:
    if not plan.after.fields:
        return Project(schema=plan.schema, preserves_nullability=not plan.required)
    after = schema_to_arrow(plan.after)
    return Merge(
        fragments=tuple(
            files.fragment(view, fragment, plan.after, plan.schema, _cast_batches(plan.before, after, view, fragment))
            for fragment in view.counted_manifest.fragments
        ),
        schema=plan.schema,
        preserves_nullability=all(field.nullable for field in plan.after.walk()),
    )


def _cast_batches(before: Schema, after: pa.Schema, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    """Yield the new values of all rows of a fragment.

    Deleted rows are cast like all others, which is faster than leaving them out; they become null if the cast fails.
    """
    if not all(field.nullable for field in before.walk()):
        live = (cast_batch(batch, after) for batch in _stored_batches(before, view, fragment))
        yield from with_deleted_rows(view, fragment, live, after)
        return
    deleted = deleted_rows(view, fragment)
    position = 0
    for batch in _stored_batches(before, view, fragment.with_deletion(None)):
        low, high = np.searchsorted(deleted, [position, position + batch.num_rows])
        try:
            cast = cast_batch(batch, after)
        except SchemaMismatchError:
            if low == high:
                raise
            is_deleted = np.zeros(batch.num_rows, bool)
            is_deleted[deleted[low:high] - position] = True
            cast = cast_batch(batch.take(pa.array(np.arange(batch.num_rows), mask=is_deleted)), after)
        yield cast
        position += batch.num_rows


def _stored_batches(columns: Schema, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
    reader = FragmentReader(fragment, view.locator, session=view.session)
    return reader.batches(columns, 0, reader.num_live_rows, ReadConfig())
