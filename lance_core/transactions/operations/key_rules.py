"""Rules for declaring keys on existing columns.

Each kind of key (primary or clustering) is declared once, by a single change of settings that includes all columns of
the key. After that, the entries of the key in the field metadata cannot change; other entries of the same fields can.

Source: behavior of pylance 14.0.2, which rejects even a repetition of the same value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.errors import InvalidSchemaError
from lance_core.schema.convert import fields_from_proto
from lance_core.schema.keys import (
    CLUSTERING_POSITION,
    PRIMARY_KEY,
    PRIMARY_POSITION,
    check_primary_keys,
    is_primary_key,
    position,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_core.proto import pb_file
    from lance_core.table.manifest import Manifest
    from lance_core.table.manifest_draft import ManifestDraft
    from lance_core.transactions.operations.map_update import MapUpdate

__all__ = ["declare_keys"]

_PRIMARY: Final = frozenset({PRIMARY_KEY, PRIMARY_POSITION})
_CLUSTERING: Final = frozenset({CLUSTERING_POSITION})


def declare_keys(current: Manifest, draft: ManifestDraft, updates: Mapping[int, MapUpdate]) -> None:
    """Check the key entries in a change of field metadata, and set the keys.

    Args:
        current: the version to build on.
        draft: the next version, with the metadata already changed.
        updates: the changes to field metadata, by field id.

    Raises:
        InvalidSchemaError: a key is already declared, or the new entries do not declare a valid key.
    """
    before = current.message.fields
    primary = {field_id for field_id, update in updates.items() if _touches(current, field_id, update, _PRIMARY)}
    clustering = {field_id for field_id, update in updates.items() if _touches(current, field_id, update, _CLUSTERING)}
    metadata = [dict(field.metadata) for field in draft.message.fields] if primary | clustering else []
    if primary:
        _check("primary", any(_is_in_primary_key(field) for field in before), any(map(is_primary_key, metadata)))
    if clustering:
        _check(
            "clustering",
            any(field.unenforced_clustering_key_position for field in before),
            any(position(each, CLUSTERING_POSITION) is not None for each in metadata),
        )
    for field_id in primary | clustering:
        draft.derive_keys(field_id)
    if primary:
        check_primary_keys(fields_from_proto(draft.message.fields).fields)


def _is_in_primary_key(field: pb_file.Field) -> bool:
    return field.unenforced_primary_key or is_primary_key(dict(field.metadata))


def _touches(current: Manifest, field_id: int, update: MapUpdate, keys: frozenset[str]) -> bool:
    """Return whether an update sets, removes, or replaces entries of a key."""
    if not keys.isdisjoint(update.entries):
        return True
    field = next(each for each in current.message.fields if each.id == field_id)
    return update.replace and not keys.isdisjoint(field.metadata)


def _check(kind: str, is_declared: bool, is_valid: bool) -> None:
    if is_declared:
        raise InvalidSchemaError(f"the {kind} key is already declared and cannot be changed")
    if not is_valid:
        raise InvalidSchemaError(f"the {kind} key would have no columns: its entry in the field metadata is invalid")
