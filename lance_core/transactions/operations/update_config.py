"""UpdateConfig: change settings and metadata; rows and fragments stay.

Four maps can change, each by its own :class:`MapUpdate`: the table config, the table metadata, the metadata of the
schema and that of single fields. Releases before 0.20 wrote plain maps instead, whose schema and field metadata
replaced what was there; they are read as such updates.

Source: ``lance.table.Transaction.UpdateConfig``; behaviour of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from lance_core.proto import pb_transaction
from lance_core.table.feature_flags import require_writable
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.key_rules import declare_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.table.manifest import Manifest

__all__ = ["MapUpdate", "UpdateConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapUpdate:
    """A change of one map.

    Attributes:
        entries: new values; None removes the key.
        replace: drop every other entry.
    """

    entries: Mapping[str, str | None]
    replace: bool = False

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateMap) -> Self:
        """Parse the message."""
        return cls(
            entries={entry.key: entry.value if entry.HasField("value") else None for entry in message.update_entries},
            replace=message.replace,
        )

    def to_proto(self) -> pb_transaction.Transaction.UpdateMap:
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateMap(
            update_entries=[
                pb_transaction.Transaction.UpdateMapEntry(key=key, value=value) for key, value in self.entries.items()
            ],
            replace=self.replace,
        )

    def applied_to(self, values: Mapping[str, str]) -> dict[str, str]:
        """The map after the change."""
        changed = {} if self.replace else dict(values)
        for key, value in self.entries.items():
            if value is None:
                changed.pop(key, None)
            else:
                changed[key] = value
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfig:
    """Change settings.

    Attributes:
        config: change of the table config; None leaves it alone, as with the others.
        table_metadata: change of the table metadata.
        schema_metadata: change of the schema metadata.
        field_metadata: changes of the metadata of fields, by field id.
    """

    arm: ClassVar[str] = "update_config"

    config: MapUpdate | None = None
    table_metadata: MapUpdate | None = None
    schema_metadata: MapUpdate | None = None
    field_metadata: Mapping[int, MapUpdate] = field(default_factory=dict)

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.UpdateConfig) -> Self:
        """Parse the message."""
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
        """The message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.UpdateConfig(
            config_updates=None if self.config is None else self.config.to_proto(),
            table_metadata_updates=None if self.table_metadata is None else self.table_metadata.to_proto(),
            schema_metadata_updates=None if self.schema_metadata is None else self.schema_metadata.to_proto(),
            field_metadata_updates={
                field_id: update.to_proto() for field_id, update in sorted(self.field_metadata.items())
            },
        )

    def apply(self, current: Manifest) -> ManifestDraft:
        """The version after ``current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            SchemaMismatchError: a field is not in the schema.
            InvalidSchemaError: a key would change that is declared already, or be declared by no valid value or on a
                column that cannot be one.
        """
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
    """As :meth:`MapUpdate.applied_to`; values that do not change keep their bytes, whether text or not."""
    kept = {} if update.replace else {key: value for key, value in values.items() if key not in update.entries}
    return {**kept, **{key: value.encode() for key, value in update.entries.items() if value is not None}}


def _optional(message: pb_transaction.Transaction.UpdateConfig, name: str) -> MapUpdate | None:
    return MapUpdate.from_proto(getattr(message, name)) if message.HasField(name) else None


def _old_config(message: pb_transaction.Transaction.UpdateConfig) -> MapUpdate | None:
    entries: dict[str, str | None] = {**dict.fromkeys(message.delete_keys), **message.upsert_values}
    return MapUpdate(entries=entries) if entries else None


def _old_map(values: Mapping[str, str]) -> MapUpdate | None:
    return MapUpdate(entries=dict(values), replace=True) if values else None
