"""Project: change the schema without touching data: drop, rename, or move columns, or change their metadata.

Data files keep the dropped columns. A file that no longer contains any column of the schema is removed from its
fragment, unless it is the last file; indices on dropped columns are removed. The schema metadata becomes that of the
new schema; stored transactions do not contain schema metadata.

Source: ``lance.table.Transaction.Project``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Self

import pyarrow as pa

from lance_core.errors import SchemaMismatchError
from lance_core.proto import pb_transaction
from lance_core.public.arguments import schema_with_ids
from lance_core.schema.convert import fields_from_proto, fields_to_proto
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_rules import without_dropped_fields, without_empty_indices
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named
from lance_core.transactions.operations.schema_rules import check_field_ids, check_field_types, check_promise

if TYPE_CHECKING:
    from lance_core.schema.field import Schema
    from lance_core.schema.lance_schema import LanceSchema
    from lance_core.table.manifest import Manifest

__all__ = ["Project", "PublicProject"]

_NEEDS_IDS: Final = (
    "An Arrow schema has no field ids, so its fields were numbered from 0. A projection needs a schema with the field "
    "ids of the table, such as `dataset.lance_schema.project(…)`"
)


@named("Project")
@dataclass
class PublicProject(BaseOperation):
    """Drop, rename, or move columns.

    Attributes:
        schema: the remaining fields, with their ids. The fields of an Arrow schema, which has no ids, are numbered
            depth-first, starting from 0; this is sufficient for renaming columns of a table from which no column was
            ever dropped.
        preserves_nullability: promises that no field became required, so that rows written by other writers in the
            meantime do not conflict.
    """

    schema: LanceSchema | Schema | pa.Schema
    preserves_nullability: bool = False

    def to_record(self) -> Project:
        """Return the internal form of the operation."""
        return Project(
            schema=schema_with_ids(self.schema),
            preserves_nullability=bool(self.preserves_nullability),
            has_assigned_ids=isinstance(self.schema, pa.Schema),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Operation):
    """Reduce the schema to the given fields.

    Attributes:
        schema: the remaining fields, with their existing ids.
        preserves_nullability: promises that no field became required.
        has_assigned_ids: whether the ids were assigned to an Arrow schema, and may therefore not be those of the table.
    """

    arm: ClassVar[str] = "project"
    may_keep_metadata: ClassVar[bool] = True

    schema: Schema
    preserves_nullability: bool = False
    has_assigned_ids: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Project) -> Self:
        """Parse the protobuf message.

        Raises:
            CorruptDataError: the field list is not a tree.
        """
        return cls(schema=fields_from_proto(message.schema), preserves_nullability=message.preserves_nullability)

    def to_proto(self) -> pb_transaction.Transaction.Project:
        """Return the protobuf message; the inverse of :meth:`from_proto`, except for the schema metadata."""
        return pb_transaction.Transaction.Project(
            schema=fields_to_proto(self.schema), preserves_nullability=self.preserves_nullability
        )

    def new_schema(self) -> Schema:
        """Return the schema with the remaining fields."""
        return self.schema

    def to_public(self) -> PublicProject:
        """Return the public form of the operation."""
        return PublicProject(self.schema, self.preserves_nullability)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            SchemaMismatchError: a field is not in the table, or has a different type, or the ids were assigned and the
                table has a field of the same name with another id.
            InvalidInputError: an id occurs twice, or ``preserves_nullability`` does not hold.
        """
        current = context.current
        require_writable(current.message)
        check_field_ids(self.schema)
        self._check_fields(current)
        check_promise(current.schema, self.schema, preserves_nullability=self.preserves_nullability)
        draft = ManifestDraft(current)
        draft.replace_schema(fields_to_proto(self.schema), self.schema.metadata)
        draft.keep_dictionaries(self.schema.field_ids())
        draft.drop_dead_files()
        section = without_dropped_fields(draft.index_section, self.schema.field_ids())
        draft.set_index_section(without_empty_indices(section))
        return draft

    def _check_fields(self, current: Manifest) -> None:
        try:
            known = {each.id for each in current.message.fields}
            unknown = next((each for each in self.schema.walk() if each.id not in known), None)
            if unknown is not None:
                raise SchemaMismatchError(
                    f"version {current.version} has no field {unknown.id} ({unknown.name!r}); a projection cannot "
                    "add fields",
                    field=unknown.id,
                )
            check_field_types(current.schema, self.schema)
            if self.has_assigned_ids:
                _check_names(current.schema, self.schema)
        except SchemaMismatchError as error:
            if not self.has_assigned_ids:
                raise
            raise SchemaMismatchError(f"{error.message}. {_NEEDS_IDS}", **error.context) from error


def _check_names(before: Schema, after: Schema) -> None:
    """Check that no top-level field has the name of a field of the table with another id."""
    ids = {top.name: top.id for top in before.fields}
    moved = next((top for top in after.fields if ids.get(top.name, top.id) != top.id), None)
    if moved is not None:
        raise SchemaMismatchError(
            f"field {moved.name!r} has id {ids[moved.name]} in the table, but id {moved.id} in the projection",
            field=moved.id,
        )
