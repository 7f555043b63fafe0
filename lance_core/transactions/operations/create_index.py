"""CreateIndex: add, replace, or drop indices. Rows, fragments, and schema do not change.

An index consists of files written by a query engine, and of an entry in the manifest that records which fields and
fragments the files cover. To drop an index, the operation lists it as removed and lists no new index; to replace an
index, it lists both the old and the new one. Entries are matched by UUID.

While an index was being built, other writers may have changed values of its fields in place. At commit, the fragments
with changed values are removed from the index's bitmap of covered fragments, so that queries scan their rows.

Source: ``lance.table.Transaction.CreateIndex``; behavior of pylance 14.0.2, which also commits an index on a field that
was dropped in the meantime, after which every query fails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

from lance_core.errors import InvalidInputError, SchemaMismatchError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.index_records import index_from_proto, index_to_proto
from lance_core.table.feature_flags import require_writable
from lance_core.table.index_metadata import is_system_index, read_fragment_bitmap
from lance_core.table.index_rules import decode_index_section, with_indices, without_rewritten_fields
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.public.index_records import Index
    from lance_core.table.manifest import Manifest

__all__ = ["CreateIndex", "PublicCreateIndex"]

_UUID_BYTES: Final = 16


@named("CreateIndex")
@dataclass
class PublicCreateIndex(BaseOperation):
    """Add, replace, or drop indices.

    Attributes:
        new_indices: the indices to add; their files already exist.
        removed_indices: the indices to drop, matched by UUID.
    """

    new_indices: list[Index]
    removed_indices: list[Index]

    def to_record(self) -> CreateIndex:
        """Return the internal form of the operation."""
        return CreateIndex(
            new_indices=tuple(map(index_to_proto, self.new_indices)),
            removed_indices=tuple(map(index_to_proto, self.removed_indices)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateIndex(Operation):
    """Change the list of indices.

    Attributes:
        new_indices: the indices to add.
        removed_indices: the indices to drop; an index that no longer exists is skipped.
    """

    arm: ClassVar[str] = "create_index"
    may_change_rows: ClassVar[bool] = False
    holds_values: ClassVar[bool] = True

    new_indices: tuple[pb_table.IndexMetadata, ...]
    removed_indices: tuple[pb_table.IndexMetadata, ...] = ()

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.CreateIndex) -> Self:
        """Parse the protobuf message."""
        return cls(new_indices=tuple(message.new_indices), removed_indices=tuple(message.removed_indices))

    def to_proto(self) -> pb_transaction.Transaction.CreateIndex:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.CreateIndex(
            new_indices=self.new_indices, removed_indices=self.removed_indices
        )

    def touched_fragments(self) -> frozenset[int] | None:
        """Return the ids of the fragments that the new indices cover; None if an index does not record them.

        Raises:
            CorruptDataError: a bitmap cannot be decoded.
        """
        found: set[int] = set()
        for index in self.new_indices:
            covered = read_fragment_bitmap(index)
            if covered is None:
                return None
            found.update(covered)
        return frozenset(found)

    def names(self) -> frozenset[str]:
        """Return the names of the new indices."""
        return frozenset(index.name for index in self.new_indices)

    def field_ids(self) -> frozenset[int]:
        """Return the ids of the fields that the new indices cover."""
        return frozenset(field_id for index in self.new_indices for field_id in index.fields)

    def held_field_ids(self) -> frozenset[int]:
        """Return the ids of the fields of the new indices."""
        return self.field_ids()

    def on_top_of(self, before: Manifest, after: Manifest) -> Self:
        """Return the operation for a newer version: new indices no longer cover fragments whose values changed."""
        old = {fragment.id: fragment for fragment in before.message.fragments}
        section = pb_table.IndexSection(indices=self.new_indices).SerializeToString()
        pairs = ((old[fragment.id], fragment) for fragment in after.message.fragments if fragment.id in old)
        return replace(
            self,
            new_indices=tuple(decode_index_section(without_rewritten_fields(section, pairs, after.message.fields))),
        )

    def to_public(self) -> PublicCreateIndex:
        """Return the public form of the operation."""
        return PublicCreateIndex(
            list(map(index_from_proto, self.new_indices)), list(map(index_from_proto, self.removed_indices))
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            SchemaMismatchError: an index covers a field that the table does not have.
            InvalidInputError: an index has an invalid id, has no name, or does not record the location of its files.
        """
        current = context.current
        require_writable(current.message)
        known = {field.id for field in current.message.fields}
        base_ids = {base.id for base in current.message.base_paths}
        _check_ids((*self.new_indices, *self.removed_indices))
        for index in self.new_indices:
            _check_new(index, known, base_ids, current.version)
        draft = ManifestDraft(current)
        removed = {index.uuid.uuid for index in self.removed_indices}
        draft.set_index_section(with_indices(draft.index_section, new=self.new_indices, removed=removed))
        return draft


def _check_ids(indices: Iterable[pb_table.IndexMetadata]) -> None:
    for index in indices:
        if len(index.uuid.uuid) != _UUID_BYTES:
            raise InvalidInputError(
                f"index {index.name!r}: the id must have {_UUID_BYTES} bytes, found {len(index.uuid.uuid)}",
                expected=_UUID_BYTES,
                found=len(index.uuid.uuid),
            )


def _check_new(index: pb_table.IndexMetadata, field_ids: set[int], base_ids: set[int], version: int) -> None:
    if not index.name:
        raise InvalidInputError("a new index has no name")
    missing = [] if is_system_index(index.name) else [each for each in index.fields if each not in field_ids]
    if missing:
        raise SchemaMismatchError(
            f"index {index.name!r} covers field id {missing[0]}, which does not exist in version {version}",
            field=missing[0],
        )
    if index.HasField("base_id") and index.base_id not in base_ids:
        raise InvalidInputError(
            f"index {index.name!r} refers to unknown base path {index.base_id}; the table has: {sorted(base_ids)}"
        )
    read_fragment_bitmap(index)
