"""UpdateConfig: change settings and metadata; rows and fragments do not change.

Four maps can change, each with its own :class:`MapUpdate`: the table config, the table metadata, the schema metadata,
and the metadata of individual fields. Releases before 0.20 recorded maps instead of updates. For schema and field
metadata, such a map contains the complete new metadata; it is read as an update that replaces all entries.

Source: ``lance.table.Transaction.UpdateConfig``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.proto import pb_transaction
from lance_core.public.arguments import checked_number
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.key_rules import declare_keys
from lance_core.transactions.operations.map_update import MapUpdate, PublicUpdateMap, map_update
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PublicUpdateConfig", "UpdateConfig"]


@named("UpdateConfig")
@dataclass
class PublicUpdateConfig(BaseOperation):
    """Change settings and metadata. A map whose attribute is None does not change.

    Attributes:
        config_updates: changes to the table config.
        table_metadata_updates: changes to the table metadata.
        schema_metadata_updates: changes to the schema metadata.
        field_metadata_updates: changes to the metadata of fields, by field id.
    """

    config_updates: PublicUpdateMap | None = None
    table_metadata_updates: PublicUpdateMap | None = None
    schema_metadata_updates: PublicUpdateMap | None = None
    field_metadata_updates: dict[int, PublicUpdateMap] | None = None

    def to_record(self) -> UpdateConfig:
        """Return the internal form of the operation."""
        return UpdateConfig(
            config=_optional_update("config_updates", self.config_updates),
            table_metadata=_optional_update("table_metadata_updates", self.table_metadata_updates),
            schema_metadata=_optional_update("schema_metadata_updates", self.schema_metadata_updates),
            field_metadata={
                checked_number("field id", field_id, 0, 2**31): map_update(
                    "field_metadata_updates", update.updates, replace=update.replace
                )
                for field_id, update in (self.field_metadata_updates or {}).items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig(Operation):
    """Change settings and metadata. A map whose attribute is None does not change.

    Attributes:
        config: the change to the table config.
        table_metadata: the change to the table metadata.
        schema_metadata: the change to the schema metadata.
        field_metadata: the changes to the metadata of fields, by field id.
    """

    arm: ClassVar[str] = "update_config"
    may_change_rows: ClassVar[bool] = False
    is_planned_on_any_version: ClassVar[bool] = True

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateConfig) -> Self:
        """Parse the protobuf message."""
        return cls(
            config=_optional(message, "config_updates") or _old_config(message),
            table_metadata=_optional(message, "table_metadata_updates"),
            schema_metadata=_optional(message, "schema_metadata_updates") or _old_map(message.schema_metadata),
            field_metadata={
                **{
                    field_id: MapUpdate(entries=dict(update.metadata), replace=True)
                    for field_id, update in message.field_metadata.items()
                },
                **{
                    field_id: MapUpdate.from_proto(update)
                    for field_id, update in message.field_metadata_updates.items()
                },
            },
        )

    def to_proto(self) -> pb_transaction.Transaction.UpdateConfig:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateConfig(
            config_updates=None if self.config is None else self.config.to_proto(),
            table_metadata_updates=None if self.table_metadata is None else self.table_metadata.to_proto(),
            schema_metadata_updates=None if self.schema_metadata is None else self.schema_metadata.to_proto(),
            field_metadata_updates={
                field_id: update.to_proto() for field_id, update in sorted(self.field_metadata.items())
            },
        )

    def to_public(self) -> PublicUpdateConfig:
        """Return the public form of the operation."""
        return PublicUpdateConfig(
            config_updates=_update_from_core(self.config),
            table_metadata_updates=_update_from_core(self.table_metadata),
            schema_metadata_updates=_update_from_core(self.schema_metadata),
            field_metadata_updates={
                field_id: PublicUpdateMap(dict(update.entries), update.replace)
                for field_id, update in self.field_metadata.items()
            }
            or None,
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            SchemaMismatchError: a field is not in the schema.
            InvalidSchemaError: a primary or clustering key is already declared, has an invalid value, or includes an
                unsuitable column.
        """
        current = context.current
        require_writable(current.message)
        draft = ManifestDraft(current)
        if self.config is not None:
            draft.set_config(self.config.applied_to(draft.message.config))
        if self.table_metadata is not None:
            draft.set_table_metadata(self.table_metadata.applied_to(draft.message.table_metadata))
        if self.schema_metadata is not None:
            draft.set_schema_metadata(_applied_to_bytes(self.schema_metadata, draft.message.schema_metadata))
        for field_id, update in self.field_metadata.items():
            draft.set_field_metadata(field_id, _applied_to_bytes(update, draft.field_metadata(field_id)))
        declare_keys(current, draft, self.field_metadata)
        return draft


def _applied_to_bytes(update: MapUpdate, values: Mapping[str, bytes]) -> dict[str, bytes]:
    """Apply an update as :meth:`MapUpdate.applied_to` does; unchanged values need not be valid text."""
    kept = {} if update.replace else {key: value for key, value in values.items() if key not in update.entries}
    return {**kept, **{key: value.encode() for key, value in update.entries.items() if value is not None}}


def _optional(message: pb_transaction.Transaction.UpdateConfig, name: str) -> MapUpdate | None:
    return MapUpdate.from_proto(getattr(message, name)) if message.HasField(name) else None


def _old_config(message: pb_transaction.Transaction.UpdateConfig) -> MapUpdate | None:
    entries: dict[str, str | None] = {**dict.fromkeys(message.delete_keys), **message.upsert_values}
    return MapUpdate(entries=entries) if entries else None


def _old_map(values: Mapping[str, str]) -> MapUpdate | None:
    return MapUpdate(entries=dict(values), replace=True) if values else None


def _optional_update(what: str, update: PublicUpdateMap | None) -> MapUpdate | None:
    return None if update is None else map_update(what, update.updates, replace=update.replace)


def _update_from_core(update: MapUpdate | None) -> PublicUpdateMap | None:
    return None if update is None else PublicUpdateMap(dict(update.entries), update.replace)
