"""Update: change the values of rows, and possibly add rows: a delete and an append in one operation.

========  ==========================================================================================
rows      changed rows are deleted from their old fragments, and stored with all columns in new fragments
columns   changed columns are rewritten for whole fragments, whose rows do not move
========  ==========================================================================================

If row ids are stable, a new fragment lists the ids of the rows that were moved into it; its remaining rows are new. In
both modes, a changed row keeps its creation version, and the new version becomes its last-updated version. Indices on a
rewritten column no longer cover the fragment; indices that find rows by id may cover a new fragment that contains only
moved rows.

An update by primary key contains a filter of the keys that it inserted, so that two updates cannot insert the same key.

Source: ``lance.table.Transaction.Update``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from google.protobuf.message import DecodeError

from lance_core.errors import CorruptDataError, InvalidInputError, InvalidTypeError, SchemaMismatchError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.absorbed_tables import absorbed_tables_from_core, absorbed_tables_to_core
from lance_core.public.arguments import checked_number
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.table.feature_flags import require_writable
from lance_core.table.field_ids import with_relatives
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import drop_dead_files, field_files, only_new_files, rewritten_fields
from lance_core.table.index_rules import with_moved_fragments, without_empty_indices, without_fragments
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.mem_wal import with_absorbed_tables
from lance_core.table.moved_rows import refresh_changed_rows
from lance_core.table.overlay_files import drop_dead_overlays, overlaid_fields, retire_overlaid_fields
from lance_core.table.row_lineage import HiddenColumns, RowLineage
from lance_core.transactions.operations.fragment_rules import check_new_fragments, check_row_count, check_stored_fields
from lance_core.transactions.operations.lineage import with_lineage_of
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.table.manifest import Manifest

__all__ = ["PublicUpdate", "Update", "UpdateMode"]

_Pb = pb_transaction.Transaction


class UpdateMode(Enum):
    """How the new values are stored. The enum values are the names that the reference implementation uses."""

    ROWS = "rewrite_rows"
    COLUMNS = "rewrite_columns"


_MODES: Final = {_Pb.REWRITE_ROWS: UpdateMode.ROWS, _Pb.REWRITE_COLUMNS: UpdateMode.COLUMNS}
_NUMBERS: Final = {mode: number for number, mode in _MODES.items()}


@named("Update")
@dataclass
class PublicUpdate(BaseOperation):
    """Change the values of rows.

    Attributes:
        removed_fragment_ids: the ids of the fragments that lost every row.
        updated_fragments: fragments with new deletion files, or with rewritten columns.
        new_fragments: the fragments with the moved and added rows. If row ids are stable, ``row_id_meta`` lists the ids
            of the moved rows, which come first.
        fields_modified: ids of the fields that were rewritten in the updated fragments.
        fields_for_preserving_frag_bitmap: ids of the fields that changed in moved rows; an index without any of these
            fields may continue to cover those rows.
        update_mode: "rewrite_rows" or "rewrite_columns"; an empty string means "rewrite_rows".
        updated_fragment_offsets: the rows that changed in place, by fragment id, as serialized Roaring bitmaps.
        inserted_rows: a serialized ``KeyExistenceFilter`` of the primary keys that were added. Not available in
            pylance's Python interface.
        compacted_sstables: (shard id, generation) of each part of the write-ahead log that the update compacts into the
            table. Not available in pylance's Python interface.
    """

    removed_fragment_ids: list[int] = field(default_factory=list)
    updated_fragments: list[FragmentMetadata] = field(default_factory=list)
    new_fragments: list[FragmentMetadata] = field(default_factory=list)
    fields_modified: list[int] = field(default_factory=list)
    fields_for_preserving_frag_bitmap: list[int] = field(default_factory=list)
    update_mode: str = ""
    updated_fragment_offsets: dict[int, bytes] | None = None
    inserted_rows: bytes | None = None
    compacted_sstables: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Check the argument types."""
        check_fragments(self.updated_fragments)
        check_fragments(self.new_fragments)

    def to_record(self) -> Update:
        """Return the internal form of the operation."""
        try:
            mode = UpdateMode(self.update_mode or UpdateMode.ROWS.value)
        except ValueError as error:
            raise InvalidInputError(
                f"update_mode must be one of {[each.value for each in UpdateMode]}, found {self.update_mode!r}"
            ) from error
        return Update(
            removed_fragment_ids=tuple(
                checked_number("fragment id", each, 0, 2**64) for each in self.removed_fragment_ids
            ),
            updated_fragments=fragment_records(self.updated_fragments),
            new_fragments=fragment_records(self.new_fragments),
            fields_modified=_field_ids("fields_modified", self.fields_modified),
            fields_for_preserving=_field_ids(
                "fields_for_preserving_frag_bitmap", self.fields_for_preserving_frag_bitmap
            ),
            mode=mode,
            inserted_rows=_filter_to_core(self.inserted_rows),
            updated_offsets={
                checked_number("fragment id", fragment_id, 0, 2**64): _bytes("updated_fragment_offsets", offsets)
                for fragment_id, offsets in (self.updated_fragment_offsets or {}).items()
            },
            absorbed_tables=absorbed_tables_to_core(self.compacted_sstables),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Operation):
    """Change rows.

    Attributes:
        removed_fragment_ids: the ids of the fragments that lost every row.
        updated_fragments: fragments with a new deletion file, or with rewritten columns.
        new_fragments: the fragments with moved and added rows; each commit attempt assigns their ids, in this order.
        fields_modified: ids of the fields that were rewritten in the updated fragments.
        fields_for_preserving: ids of the fields whose values changed in moved rows.
        mode: how the new values are stored.
        inserted_rows: the primary keys that were added; None if unknown.
        updated_offsets: maps fragment ids to serialized Roaring bitmaps of the rows that changed in place.
        absorbed_tables: the shard id and the generation of each part of the write-ahead log that the update compacts
            into the table.
    """

    arm: ClassVar[str] = "update"
    hides_rows: ClassVar[bool] = True
    appends_fragments: ClassVar[bool] = True

    removed_fragment_ids: tuple[int, ...] = ()
    updated_fragments: tuple[Fragment, ...] = ()
    new_fragments: tuple[Fragment, ...] = ()
    fields_modified: tuple[int, ...] = ()
    fields_for_preserving: tuple[int, ...] = ()
    mode: UpdateMode = UpdateMode.ROWS
    inserted_rows: pb_transaction.Transaction.KeyExistenceFilter | None = None
    updated_offsets: Mapping[int, bytes] = field(default_factory=dict)
    absorbed_tables: tuple[pb_table.CompactedSsTable, ...] = ()

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Update) -> Self:
        """Parse the protobuf message.

        Raises:
            CorruptDataError: the mode is unknown.
        """
        mode = _MODES.get(message.update_mode)
        if mode is None:
            raise CorruptDataError(f"update mode must be 0 (rows) or 1 (columns), found {message.update_mode}")
        return cls(
            removed_fragment_ids=tuple(message.removed_fragment_ids),
            updated_fragments=tuple(map(Fragment, message.updated_fragments)),
            new_fragments=tuple(map(Fragment, message.new_fragments)),
            fields_modified=tuple(message.fields_modified),
            fields_for_preserving=tuple(message.fields_for_preserving_frag_bitmap),
            mode=mode,
            inserted_rows=message.inserted_rows if message.HasField("inserted_rows") else None,
            updated_offsets={**_old_offsets(message), **message.updated_fragment_offset_bitmaps},
            absorbed_tables=tuple(message.compacted_sstables),
        )

    def to_proto(self) -> pb_transaction.Transaction.Update:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return _Pb.Update(
            removed_fragment_ids=self.removed_fragment_ids,
            updated_fragments=[fragment.message for fragment in self.updated_fragments],
            new_fragments=[fragment.message for fragment in self.new_fragments],
            fields_modified=self.fields_modified,
            compacted_sstables=self.absorbed_tables,
            fields_for_preserving_frag_bitmap=self.fields_for_preserving,
            update_mode=_NUMBERS[self.mode],
            inserted_rows=self.inserted_rows,
            updated_fragment_offset_bitmaps=dict(self.updated_offsets),
        )

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that lose or change rows."""
        return frozenset({*self.removed_fragment_ids, *(fragment.id for fragment in self.updated_fragments)})

    @property
    def moves_rows(self) -> bool:
        """Whether rows of updated fragments were moved to new ones."""
        return self.mode is UpdateMode.ROWS and bool(self.new_fragments)

    def added_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments with moved and added rows."""
        return self.new_fragments

    def changed_fragments(self) -> tuple[Fragment, ...]:
        """Return the fragments that lost some rows or have rewritten columns."""
        return self.updated_fragments

    def removed_fragments(self) -> frozenset[int]:
        """Return the ids of the fragments that lost every row."""
        return frozenset(self.removed_fragment_ids)

    def with_hidden_rows(self, changed: tuple[Fragment, ...], emptied: Collection[int]) -> Self:
        """Return the update with new deletion files and additional fragments that lose every row."""
        gone = (*self.removed_fragment_ids, *sorted(emptied))
        return replace(self, updated_fragments=changed, removed_fragment_ids=gone)

    def added_files(self, current: Manifest) -> tuple[Fragment, ...]:
        """Return the files with rewritten columns."""
        present = {fragment.id: fragment for fragment in current.message.fragments}
        return only_new_files(present, [fragment.message for fragment in self.updated_fragments])

    def moved_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments, if any of them contains row ids."""
        return self.new_fragments if any(fragment.has_row_ids for fragment in self.new_fragments) else ()

    def to_public(self) -> PublicUpdate:
        """Return the public form of the operation."""
        return PublicUpdate(
            removed_fragment_ids=list(self.removed_fragment_ids),
            updated_fragments=shown_fragments(self.updated_fragments),
            new_fragments=shown_fragments(self.new_fragments),
            fields_modified=list(self.fields_modified),
            fields_for_preserving_frag_bitmap=list(self.fields_for_preserving),
            update_mode=self.mode.value,
            updated_fragment_offsets=dict(self.updated_offsets) or None,
            inserted_rows=None if self.inserted_rows is None else self.inserted_rows.SerializeToString(),
            compacted_sstables=absorbed_tables_from_core(self.absorbed_tables),
        )

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            InvalidInputError: a fragment does not exist, has changed, is listed twice, or is inconsistent with the
                table.
            SchemaMismatchError: a field is not in the table.
            NotSupportedError: row ids or versions are stored in hidden columns that cannot be read.
        """
        current, hidden = context.current, context.hidden
        require_writable(current.message)
        self._check(current)
        base_ids = {base.id for base in current.message.base_paths}
        present = {fragment.id: fragment for fragment in current.message.fragments}
        for fragment in self._stored_anew():
            _check_stored_anew(present[fragment.id], fragment, current.version)
            check_stored_fields(fragment, current.schema, base_ids=base_ids, file_version=current.file_version)
        check_new_fragments(
            self.new_fragments,
            field_ids={each.id for each in current.message.fields},
            base_ids=base_ids,
            file_version=current.file_version,
            carries_row_ids=None if current.has_stable_row_ids else False,
        )
        draft = ManifestDraft(current)
        draft.remove_fragments(self.removed_fragment_ids)
        draft.set_deletions(
            {each.id: each.message for each in self.updated_fragments if each.message.HasField("deletion_file")}
        )
        draft.replace_fragments(
            {each.id: self._changed(present[each.id], each.message, current, hidden) for each in self._stored_anew()}
        )
        touched = self.touched_fragments()
        sources = sorted(current.message.fragments, key=lambda each: each.id not in touched)
        new_ids = draft.append_moved_fragments(self.new_fragments, sources, hidden=hidden)
        draft.set_index_section(self._index_section(draft, new_ids, current, hidden))
        return draft

    def _check(self, current: Manifest) -> None:
        if len(self.touched_fragments()) != len(self.removed_fragment_ids) + len(self.updated_fragments):
            raise InvalidInputError("an update lists a fragment twice")
        missing = self.touched_fragments() - {fragment.id for fragment in current.message.fragments}
        if missing:
            raise InvalidInputError(
                f"an update refers to fragment {min(missing)}, which is not in version {current.version}"
            )
        unknown = set(self.fields_modified) - {each.id for each in current.message.fields}
        if unknown:
            raise SchemaMismatchError(
                f"version {current.version} has no field {min(unknown)}, which is listed as modified",
                field=min(unknown),
            )
        if not self.fields_modified and any(
            not fragment.message.HasField("deletion_file") for fragment in self.updated_fragments
        ):
            raise InvalidInputError(
                "each updated fragment must have deleted rows, because fields_modified lists no changed columns"
            )

    def _stored_anew(self) -> tuple[Fragment, ...]:
        """Return the updated fragments with rewritten columns."""
        return self.updated_fragments if self.fields_modified else ()

    def _changed(
        self, old: pb_table.DataFragment, new: pb_table.DataFragment, current: Manifest, hidden: HiddenColumns
    ) -> pb_table.DataFragment:
        result = with_lineage_of(old, new)
        field_ids = {each.id for each in current.message.fields}
        drop_dead_files(result, field_ids)
        retire_overlaid_fields(result, rewritten_fields(old, new))
        drop_dead_overlays(result, field_ids)
        offsets = self.updated_offsets.get(old.id)
        if offsets and current.has_stable_row_ids and self.mode is UpdateMode.COLUMNS:
            refresh_changed_rows(result, _offsets(offsets, old.id), current.version + 1, hidden)
        return result

    def _index_section(
        self, draft: ManifestDraft, new_ids: list[int], current: Manifest, hidden: HiddenColumns
    ) -> bytes | None:
        fields = current.message.fields
        section = without_fragments(
            draft.index_section,
            [fragment.id for fragment in self.updated_fragments],
            with_relatives(fields, self.fields_modified),
        )
        if current.has_stable_row_ids and self.mode is UpdateMode.ROWS:
            moved_only = [
                fragment_id
                for fragment_id, fragment in zip(new_ids, self.new_fragments, strict=True)
                if len(RowLineage(fragment.message, hidden).given_row_ids()) == fragment.physical_rows
            ]
            touched = self.touched_fragments()
            # Indices do not contain the values that overlays gave to the moved rows.
            overlaid = [overlaid_fields(each.overlays) for each in current.message.fragments if each.id in touched]
            section = with_moved_fragments(
                section,
                new_ids=moved_only,
                source_ids=touched,
                field_ids=with_relatives(fields, frozenset(self.fields_for_preserving).union(*overlaid)),
            )
        return with_absorbed_tables(without_empty_indices(section), self.absorbed_tables, version=draft.version)


def _check_stored_anew(old: pb_table.DataFragment, new: Fragment, version: int) -> None:
    """Check that an updated fragment keeps its deleted rows and all its columns."""
    check_row_count(old, new.physical_rows, version)
    if old.HasField("deletion_file") and not new.message.HasField("deletion_file"):
        raise InvalidInputError(
            f"updated fragment {old.id} has no deletion file, so rows that are deleted in version {version} would "
            "reappear"
        )
    lost = field_files(old).keys() - field_files(new.message).keys()
    if lost:
        raise SchemaMismatchError(f"fragment {old.id} would lose the values of field {min(lost)}", field=min(lost))


def _offsets(data: bytes, fragment_id: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    # Imported only when needed: few updates contain offsets.
    from pyroaring import BitMap

    try:
        return np.frombuffer(BitMap.deserialize(data).to_array(), np.uint32)
    except (ValueError, IndexError, MemoryError) as error:
        raise InvalidInputError(
            f"fragment {fragment_id}: the updated offsets are not a valid Roaring bitmap: {error}"
        ) from error


def _old_offsets(message: pb_transaction.Transaction.Update) -> dict[int, bytes]:
    """Return the updated offsets that older releases wrote as lists instead of bitmaps."""
    if not message.updated_fragment_offsets:
        return {}
    from pyroaring import BitMap

    return {
        fragment_id: BitMap(offsets.values).serialize()
        for fragment_id, offsets in message.updated_fragment_offsets.items()
    }


def _field_ids(name: str, values: Iterable[object]) -> tuple[int, ...]:
    return tuple(checked_number(name, each, 0, 2**31) for each in values)


def _bytes(name: str, value: object) -> bytes:
    if not isinstance(value, bytes):
        raise InvalidTypeError(f"{name} must be bytes, found {type(value).__name__}", argument=name)
    return value


def _filter_to_core(value: bytes | None) -> pb_transaction.Transaction.KeyExistenceFilter | None:
    if value is None:
        return None
    try:
        return pb_transaction.Transaction.KeyExistenceFilter.FromString(_bytes("inserted_rows", value))
    except DecodeError as error:
        raise InvalidInputError(f"inserted_rows is not a serialized KeyExistenceFilter: {error}") from error
