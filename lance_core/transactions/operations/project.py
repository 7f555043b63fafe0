"""Project: change the schema without touching data: drop, rename, or move columns, or change their metadata.

Data files keep the dropped columns. A file that no longer contains any column of the schema is removed from its
fragment, unless it is the last file; indices on dropped columns are removed. The schema metadata becomes that of the
new schema; stored transactions do not contain schema metadata.

Source: ``lance.table.Transaction.Project``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

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

__all__ = ["Project", "PublicProject"]


@named("Project")
@dataclass
class PublicProject(BaseOperation):
    """Drop, rename, or move columns.

    Attributes:
        schema: the remaining fields, with their ids.
        preserves_nullability: promises that no field became required, so that rows written by other writers in the
            meantime do not conflict.
    """

    schema: Schema
    preserves_nullability: bool = False

    def to_record(self) -> Project:
        """Return the internal form of the operation."""
        return Project(schema=schema_with_ids(self.schema), preserves_nullability=bool(self.preserves_nullability))


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Operation):
    """Reduce the schema to the given fields.

    Attributes:
        schema: the remaining fields, with their existing ids.
        preserves_nullability: promises that no field became required.
    """

    arm: ClassVar[str] = "project"
    may_keep_metadata: ClassVar[bool] = True

    schema: Schema
    preserves_nullability: bool = False

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
            SchemaMismatchError: a field is not in the table, or has a different type.
            InvalidInputError: an id occurs twice, or ``preserves_nullability`` does not hold.
        """
        current = context.current
        require_writable(current.message)
        check_field_ids(self.schema)
        known = {field.id for field in current.message.fields}
        unknown = next((field for field in self.schema.walk() if field.id not in known), None)
        if unknown is not None:
            raise SchemaMismatchError(
                f"version {current.version} has no field {unknown.id} ({unknown.name!r}); a projection cannot "
                "add fields",
                field=unknown.id,
            )
        check_field_types(current.schema, self.schema)
        check_promise(current.schema, self.schema, preserves_nullability=self.preserves_nullability)
        draft = ManifestDraft(current)
        draft.replace_schema(fields_to_proto(self.schema), self.schema.metadata)
        draft.keep_dictionaries(self.schema.field_ids())
        draft.drop_dead_files()
        section = without_dropped_fields(draft.index_section, self.schema.field_ids())
        draft.set_index_section(without_empty_indices(section))
        return draft
