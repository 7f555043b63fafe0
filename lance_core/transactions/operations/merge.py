"""Merge: add or rewrite columns. Fragments and schema become exactly those of the operation.

Every fragment is kept with all its rows. A new column is stored in an additional data file of each fragment, with a
value for every physical row, including deleted rows; a nullable column need not be stored at all. A column whose type
changes becomes a new field with a new id.

Rows keep their ids. If row ids are stable, rows of fragments that gained or lost a data file count as updated.

Source: ``lance.table.Transaction.Merge``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import schema_with_ids
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.schema.convert import fields_from_proto, fields_to_proto
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.fragment_files import field_files, new_files, only_new_files, rewritten_fields
from lance_core.table.index_rules import without_dropped_fields, without_empty_indices, without_rewritten_fields
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.moved_rows import refresh_changed_rows
from lance_core.table.overlay_files import drop_dead_overlays, retire_overlaid_fields
from lance_core.transactions.operations.fragment_rules import check_new_fragments, check_row_count, check_stored_fields
from lance_core.transactions.operations.lineage import with_lineage_of
from lance_core.transactions.operations.merge_rules import check_merged_schema
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named
from lance_core.transactions.operations.schema_rules import check_field_ids, check_promise
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.schema.field import Schema
    from lance_core.schema.lance_schema import LanceSchema
    from lance_core.table.manifest import Manifest

__all__ = ["Merge", "PublicMerge"]


@named("Merge")
@dataclass
class PublicMerge(BaseOperation):
    """Add or rewrite columns.

    Attributes:
        fragments: every fragment of the dataset after the merge.
        schema: the schema after the merge, with field ids. Passing an Arrow schema is deprecated; its fields are
            numbered depth first from 0.
        preserves_nullability: promises that no field became required. Rows that other writers append in the meantime,
            without the new columns, are then valid and do not conflict.
    """

    fragments: Iterable[FragmentMetadata]
    schema: LanceSchema | Schema | pa.Schema
    preserves_nullability: bool = False

    def __post_init__(self) -> None:
        """Check the argument types."""
        if isinstance(self.schema, pa.Schema):
            warnings.warn(
                "Passing a pyarrow.Schema to Merge is deprecated; pass a lance_core Schema, which has field ids",
                DeprecationWarning,
                stacklevel=3,
            )
        check_fragments(self.fragments)

    def unnumbered_schema(self) -> pa.Schema | None:
        """Return the schema if it is an Arrow schema; None otherwise."""
        return self.schema if isinstance(self.schema, pa.Schema) else None

    def with_schema(self, schema: Schema) -> Self:
        """Return the merge with the given schema, which has field ids."""
        return replace(self, schema=schema)

    def to_record(self) -> Merge:
        """Return the internal form of the operation."""
        return Merge(
            fragments=fragment_records(self.fragments),
            schema=schema_with_ids(self.schema),
            preserves_nullability=bool(self.preserves_nullability),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Operation):
    """Add columns.

    Attributes:
        fragments: every existing fragment in its form after the merge, followed by the fragments to add, which have
            different ids; id 0 means "assign one at commit" if fragment 0 is already listed or no longer exists.
        schema: the schema with field ids.
        preserves_nullability: promises that no field became required, so that rows written in the meantime without
            the new columns remain valid.
    """

    arm: ClassVar[str] = "merge"
    lists_all_fragments: ClassVar[bool] = True
    may_keep_metadata: ClassVar[bool] = True

    fragments: tuple[Fragment, ...]
    schema: Schema
    preserves_nullability: bool = False

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Merge) -> Self:
        """Parse the protobuf message.

        Raises:
            CorruptDataError: the field list is not a tree.
        """
        return cls(
            fragments=tuple(map(Fragment, message.fragments)),
            schema=fields_from_proto(message.schema, dict(message.schema_metadata)),
            preserves_nullability=message.preserves_nullability,
        )

    def to_proto(self) -> pb_transaction.Transaction.Merge:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Merge(
            fragments=[fragment.message for fragment in self.fragments],
            schema=fields_to_proto(self.schema),
            schema_metadata=dict(self.schema.metadata),
            preserves_nullability=self.preserves_nullability,
        )

    def touched_fragments(self) -> frozenset[int]:
        """Return the ids of the listed fragments."""
        return frozenset(fragment.id for fragment in self.fragments)

    def added_files(self, current: Manifest) -> tuple[Fragment, ...]:
        """Return the new files of the listed fragments."""
        present = {fragment.id: fragment for fragment in current.message.fragments}
        return only_new_files(present, [fragment.message for fragment in self.fragments])

    def new_schema(self) -> Schema:
        """Return the schema with the new columns."""
        return self.schema

    def to_public(self) -> PublicMerge:
        """Return the public form of the operation."""
        return PublicMerge(shown_fragments(self.fragments), self.schema, self.preserves_nullability)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            NotSupportedError: the table has format 0.1 and would get a dictionary column.
            InvalidInputError: a fragment is missing, its rows differ from those in the table, ``preserves_nullability``
                does not hold, or an id is used twice.
            SchemaMismatchError: a field would be read as a different field, or a required field is not stored.
        """
        current = context.current
        require_writable(current.message)
        check_field_ids(self.schema)
        check_promise(current.schema, self.schema, preserves_nullability=self.preserves_nullability)
        before = {fragment.id: fragment for fragment in current.message.fragments}
        kept, added = self._split(before)
        check_merged_schema(current, self.schema, self.fragments, kept)
        base_ids = {base.id for base in current.message.base_paths}
        for fragment in kept:
            _check_kept(before[fragment.id], fragment.message, self.schema, current.version)
            check_stored_fields(fragment, self.schema, base_ids=base_ids, file_version=current.file_version)
        check_new_fragments(
            added,
            field_ids=set(self.schema.field_ids()),
            base_ids=base_ids,
            file_version=current.file_version,
        )
        draft = ManifestDraft(current)
        draft.replace_schema(fields_to_proto(self.schema), self.schema.metadata)
        draft.keep_dictionaries(self._dictionary_ids(current))
        draft.replace_fragments(
            {
                fragment.id: _merged(before[fragment.id], fragment.message, self.schema, draft.version, current)
                for fragment in kept
            }
        )
        draft.append_moved_fragments(added, (), keeps_ids=True)
        draft.count_field_ids()
        section = without_rewritten_fields(
            draft.index_section,
            ((before[fragment.id], fragment.message) for fragment in kept),
            current.message.fields,
        )
        section = without_dropped_fields(section, self.schema.field_ids())
        draft.set_index_section(without_empty_indices(section))
        return draft

    def _split(self, before: dict[int, pb_table.DataFragment]) -> tuple[list[Fragment], list[Fragment]]:
        """Return the fragments that are in the table, and the new ones."""
        kept: dict[int, Fragment] = {}
        added: list[Fragment] = []
        for fragment in self.fragments:
            if fragment.id in before and fragment.id not in kept:
                if added:
                    raise InvalidInputError(
                        "a merge must list existing fragments before new ones, but lists existing fragment "
                        f"{fragment.id} after a new fragment (id {added[-1].id})"
                    )
                kept[fragment.id] = fragment
            elif fragment.id and fragment.id in kept:
                raise InvalidInputError(f"a merge lists fragment {fragment.id} twice")
            elif fragment.id in before and _share_a_file(before[fragment.id], fragment.message):
                raise InvalidInputError(f"a merge lists fragment {fragment.id} twice, or lists it after a new fragment")
            else:
                added.append(fragment)
        missing = sorted(before.keys() - kept.keys())
        if missing:
            raise InvalidInputError(
                f"a merge must list all fragments, but fragment {missing[0]} is missing; it lists {len(kept)} of "
                f"{counted(len(before), 'fragment')}",
                expected=len(before),
                found=len(kept),
            )
        return list(kept.values()), added

    def _dictionary_ids(self, current: Manifest) -> set[int]:
        """Return the ids of the fields whose dictionaries are stored in the manifest, if the table has format 0.1."""
        found = {field.id for field in self.schema.walk() if field.is_dictionary}
        if current.file_version.is_legacy and not found <= {field.id for field in current.message.fields}:
            raise NotSupportedError("adding a dictionary column to a table in format 0.1 is not supported")
        return found


def _share_a_file(one: pb_table.DataFragment, other: pb_table.DataFragment) -> bool:
    return len(new_files(one, other)) < len(other.files)


def _check_kept(old: pb_table.DataFragment, new: pb_table.DataFragment, schema: Schema, version: int) -> None:
    """Check that a fragment keeps its rows, its deletions, and the columns that stay in the schema."""
    check_row_count(old, new.physical_rows, version)
    if old.deletion_file != new.deletion_file:
        raise InvalidInputError(
            f"the deletion file of fragment {old.id} in version {version} differs from the one recorded by "
            "the operation"
        )
    lost = (field_files(old).keys() - field_files(new).keys()).intersection(schema.field_ids())
    if lost:
        raise SchemaMismatchError(
            f"fragment {old.id} would lose the values of field {min(lost)}, which the new schema keeps",
            field=min(lost),
        )


def _merged(
    old: pb_table.DataFragment, new: pb_table.DataFragment, schema: Schema, version: int, current: Manifest
) -> pb_table.DataFragment:
    result = with_lineage_of(old, new)
    retire_overlaid_fields(result, rewritten_fields(old, new))
    drop_dead_overlays(result, schema.field_ids())
    if current.has_stable_row_ids and list(old.files) != list(new.files):
        refresh_changed_rows(result, None, version)
    return result
