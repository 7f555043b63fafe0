"""Overwrite: create a table, or replace its rows and schema.

An overwrite replaces fragments, schema, and schema metadata, and removes the indices. Config, table metadata, base
paths, and the counters of fragment and row ids are kept. The data format becomes that of the new files.

If the table never reuses field ids, the new fields get new ids, which are also used in the records of the new files.

Source: ``lance.table.Transaction.Overwrite``; behavior of pylance 14.0.2, whose ``commit`` instead keeps the table's
data format and marks the table as having mixed formats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_core.proto import pb_table, pb_transaction
from lance_core.public.arguments import schema_with_ids
from lance_core.public.dataset_base_path import base_path_from_proto, numbered_bases
from lance_core.public.fragment_conversion import fragment_records, shown_fragments
from lance_core.schema.convert import fields_from_proto, fields_to_proto
from lance_core.schema.declared_columns import declared_column
from lance_core.table.feature_flags import require_writable
from lance_core.table.fragment import Fragment
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.row_lineage import RowLineage
from lance_core.transactions.operations.fragment_rules import check_new_fragments
from lance_core.transactions.operations.operation import ApplyContext, BaseOperation, Operation, check_fragments, named
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lance_core.public.dataset_base_path import DatasetBasePath
    from lance_core.public.fragment_metadata import FragmentMetadata
    from lance_core.schema.field import Schema
    from lance_core.schema.lance_schema import LanceSchema
    from lance_core.table.manifest import Manifest

__all__ = ["Overwrite", "PublicOverwrite"]


@named("Overwrite")
@dataclass
class PublicOverwrite(BaseOperation):
    """Create a dataset, or replace its rows and schema.

    Attributes:
        new_schema: the schema. An Arrow schema is numbered depth first from 0, as in
            ``write_fragments(mode="overwrite")``, which also declares its blobs as ``lance.blob.v2`` in files in
            format 2.2; a ``Schema`` keeps its field ids.
        fragments: the new fragments.
        initial_bases: locations outside the root in which a new dataset may store files.
    """

    needs_read_version: ClassVar[bool] = False

    new_schema: pa.Schema | LanceSchema | Schema
    fragments: Iterable[FragmentMetadata]
    initial_bases: list[DatasetBasePath] | None = None

    def __post_init__(self) -> None:
        """Check the argument types."""
        check_fragments(self.fragments)

    def to_record(self) -> Overwrite:
        """Return the internal form of the operation."""
        fragments = fragment_records(self.fragments)
        return Overwrite(
            schema=schema_with_ids(self._declared_schema(fragments)),
            fragments=fragments,
            initial_bases=numbered_bases(self.initial_bases or ()),
        )

    def _declared_schema(self, fragments: Sequence[Fragment]) -> pa.Schema | LanceSchema | Schema:
        versions = {file.file_version for fragment in fragments for file in fragment.files}
        if not isinstance(self.new_schema, pa.Schema) or not versions or max(versions) < LanceFileVersion.V2_2:
            return self.new_schema
        columns = [declared_column(column, upgrades_blobs=True) for column in self.new_schema]
        return pa.schema(columns, self.new_schema.metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite(Operation):
    """Replace the table's content with the given fragments and schema.

    Attributes:
        schema: the schema with field ids, to which the data files refer.
        fragments: the new fragments; each commit attempt assigns their ids, in this order.
        config_upserts: entries to set in the table config.
        initial_bases: base paths of a new table.
    """

    arm: ClassVar[str] = "overwrite"
    is_planned_on_any_version: ClassVar[bool] = True
    makes_tables: ClassVar[bool] = True
    replaces_all_files: ClassVar[bool] = True

    schema: Schema
    fragments: tuple[Fragment, ...]
    config_upserts: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[pb_table.BasePath, ...] = ()

    @classmethod
    def from_proto(cls, message: pb_transaction.Transaction.Overwrite) -> Self:
        """Parse the protobuf message.

        Raises:
            CorruptDataError: the field list is not a tree.
        """
        return cls(
            schema=fields_from_proto(message.schema, dict(message.schema_metadata)),
            fragments=tuple(map(Fragment, message.fragments)),
            config_upserts=dict(message.config_upsert_values),
            initial_bases=tuple(message.initial_bases),
        )

    def to_proto(self) -> pb_transaction.Transaction.Overwrite:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        return pb_transaction.Transaction.Overwrite(
            fragments=[fragment.message for fragment in self.fragments],
            schema=fields_to_proto(self.schema),
            schema_metadata=dict(self.schema.metadata),
            config_upsert_values=dict(self.config_upserts),
            initial_bases=self.initial_bases,
        )

    def added_fragments(self) -> tuple[Fragment, ...]:
        """Return the new fragments."""
        return self.fragments

    def new_schema(self) -> Schema:
        """Return the new schema of the table."""
        return self.schema

    def added_bases(self) -> tuple[pb_table.BasePath, ...]:
        """Return the base paths of a new table."""
        return self.initial_bases

    def to_public(self) -> PublicOverwrite:
        """Return the public form of the operation."""
        bases = [base_path_from_proto(base) for base in self.initial_bases]
        return PublicOverwrite(self.schema, shown_fragments(self.fragments), bases or None)

    def apply(self, context: ApplyContext) -> ManifestDraft:
        """Build the version after ``context.current``, which is empty when a table is created.

        Raises:
            UnsupportedFeatureFlagError: the table needs a feature that this library cannot write.
            NotSupportedError: the files have format 0.1, and the table has contained files of several formats or never
                reuses field ids.
            InvalidInputError: a fragment is incompatible with the schema, or base paths are given although the table
                exists.
        """
        current = context.current
        require_writable(current.message)
        renumbered = self._with_new_ids(current)
        return self._apply(current) if renumbered is None else renumbered._apply(current)

    def _apply(self, current: Manifest) -> ManifestDraft:
        if self.initial_bases and current.version > 0:
            raise InvalidInputError("initial_bases can only be given when the table is created")
        draft = ManifestDraft(current)
        draft.add_base_paths(self.initial_bases)
        file_versions = {file.file_version for fragment in self.fragments for file in fragment.files}
        if file_versions and draft.file_version not in file_versions:
            # No old file remains, so the table gets the format of the new files.
            draft.set_file_version(max(file_versions))
        if draft.file_version.is_legacy and current.mixes_file_versions:
            raise NotSupportedError(
                "a table that has contained data files of several formats cannot be changed to format "
                f"{draft.file_version.value}"
            )
        check_new_fragments(
            self.fragments,
            field_ids=set(self.schema.field_ids()),
            base_ids={base.id for base in draft.message.base_paths},
            file_version=draft.file_version,
            carries_row_ids=None if current.has_stable_row_ids else False,
        )
        draft.drop_fragments()
        draft.drop_indices()
        draft.replace_schema(fields_to_proto(self.schema), self.schema.metadata)
        draft.count_field_ids()
        draft.update_config(self.config_upserts)
        _check_row_ids([fragment for fragment in self.fragments if fragment.has_row_ids])
        for fragment in self.fragments:
            if fragment.has_row_ids:
                # Rows that come from the table keep their ids, but count as newly created: everything is replaced.
                draft.append_moved_fragments([fragment], ())
            else:
                draft.append_fragments([fragment])
        return draft

    def _with_new_ids(self, current: Manifest) -> Overwrite | None:
        """Return the operation with field ids that the table has never used; None if this is true of its own ids."""
        if not current.message.HasField("max_allocated_field_id"):
            return None
        highest = current.message.max_allocated_field_id
        if min(self.schema.field_ids(), default=highest + 1) > highest:
            return None
        if any(file.file_version.is_legacy for fragment in self.fragments for file in fragment.files):
            raise NotSupportedError("data files in format 0.1 cannot get new field ids, which this table requires")
        schema = self.schema.with_ids(highest + 1)
        new_ids = dict(zip(self.schema.field_ids(), schema.field_ids(), strict=True))
        return replace(self, schema=schema, fragments=tuple(_renumbered(each, new_ids) for each in self.fragments))


def _check_row_ids(carrying: Sequence[Fragment]) -> None:
    """Check that no two fragments share a row id; duplicates within a fragment are checked when it is added."""
    ids = [RowLineage(fragment.message).given_row_ids().numbers() for fragment in carrying]
    if len(ids) > 1 and len(np.unique(np.concatenate(ids))) != sum(map(len, ids)):
        raise InvalidInputError("two new fragments have the same row id")


def _renumbered(fragment: Fragment, new_ids: Mapping[int, int]) -> Fragment:
    message = pb_table.DataFragment()
    message.CopyFrom(fragment.message)
    for file in message.files:
        file.fields[:] = [new_ids.get(field_id, field_id) for field_id in file.fields]
    return Fragment(message)
