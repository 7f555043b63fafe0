"""Manifests of small tables, for tests of operations."""

import uuid

from pyroaring import BitMap

from lance_core.proto import pb_table
from lance_core.schema.convert import fields_to_proto
from lance_core.schema.field import Schema
from lance_core.table.fragment import Fragment
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_draft import ManifestDraft
from lance_core.table.paths import ManifestNaming
from lance_core.table.row_id_sequence import RowIdSequence
from lance_core.table.row_ids import give_row_ids
from lance_core.table.version_runs import VersionRuns
from lance_core.transactions.operations.operation import ApplyContext
from tests.support.records import SCHEMA, data_file

STABLE = 2
"""The feature flag of stable row ids."""


def part(fragment_id: int = 0, num_rows: int = 10, *, deleted: int = 0, path: str = "") -> Fragment:
    """Return a fragment of one file with both columns of ``SCHEMA``."""
    file = data_file(path or f"f{fragment_id}.lance")
    fragment = Fragment.of([file], physical_rows=num_rows, fragment_id=fragment_id)
    return fragment.with_deletion(deletion(deleted)) if deleted else fragment


def deletion(num_rows: int) -> pb_table.DeletionFile:
    """Return a deletion file with this many deleted rows."""
    return pb_table.DeletionFile(id=num_rows, read_version=1, num_deleted_rows=num_rows)


def column_file(path: str, *field_ids: int) -> pb_table.DataFile:
    """Return a data file with these fields."""
    file = data_file(path, field_ids=field_ids, column_indices=tuple(range(len(field_ids))))
    return file.to_proto()


def with_files(fragment: Fragment, *files: pb_table.DataFile) -> Fragment:
    """Return the fragment with other files."""
    message = pb_table.DataFragment()
    message.CopyFrom(fragment.message)
    del message.files[:]
    message.files.extend(files)
    return Fragment(message)


def index(name: str, field_ids: tuple[int, ...], fragment_ids: object, kind: str = "BTree", **values: object) -> object:
    """Return an entry of the index section."""
    message = pb_table.IndexMetadata(
        uuid=pb_table.UUID(uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"{name}{values}").bytes),
        name=name,
        fields=field_ids,
        fragment_bitmap=b"" if fragment_ids is None else BitMap(fragment_ids, optimize=False).serialize(),
        **values,
    )
    message.index_details.type_url = f"/lance.table.{kind}IndexDetails"
    return message


def section(*indices: object) -> bytes:
    """Return a serialized index section."""
    return pb_table.IndexSection(indices=indices).SerializeToString()


def coverage(data: bytes | None) -> dict[str, list[int] | None]:
    """Return index name → fragments that the index covers."""
    if data is None:
        return {}
    return {
        each.name: list(BitMap.deserialize(each.fragment_bitmap)) if each.fragment_bitmap else None
        for each in pb_table.IndexSection.FromString(data).indices
    }


def table(
    *fragments: Fragment,
    indices: tuple[object, ...] = (),
    stable: bool = False,
    schema: Schema = SCHEMA,
    **values: object,
) -> Manifest:
    """Return version 3 of a table."""
    flags = STABLE if stable else 0
    message = pb_table.Manifest(
        version=3,
        data_format={"file_format": "lance", "version": "2.2"},
        fields=fields_to_proto(schema),
        fragments=[fragment.message for fragment in fragments],
        reader_feature_flags=flags,
        writer_feature_flags=flags | (32768 if "max_allocated_field_id" in values else 0),
        **values,
    )
    return Manifest(message=message, naming=ManifestNaming.V2, index_section=section(*indices) if indices else None)


def stable_table(*counts: int, indices: tuple[object, ...] = ()) -> Manifest:
    """Return a table with stable row ids, whose fragments were created by versions 1, 2, …."""
    current = table(*(part(number, count) for number, count in enumerate(counts)), indices=indices, stable=True)
    next_row_id = 0
    for number, fragment in enumerate(current.message.fragments):
        next_row_id = give_row_ids(fragment, first_row_id=next_row_id, version=number + 1)
    current.message.next_row_id = next_row_id
    return current


def on(current: Manifest, restored: Manifest | None = None) -> ApplyContext:
    """Return the state to which an operation is applied."""
    return ApplyContext(current=current, restored=restored)


def sealed(draft: ManifestDraft) -> Manifest:
    """Return the version that a draft becomes."""
    return draft.seal(transaction=b"", transaction_file="f", timestamp_ns=0).manifest


def row_ids(fragment: Fragment) -> list[int]:
    """Return the row ids of a fragment."""
    return RowIdSequence.parse(fragment.message.inline_row_ids, "").numbers().tolist()


def created(fragment: Fragment) -> list[int]:
    """Return the versions that created the rows of a fragment."""
    return _versions(fragment.message.inline_created_at_versions, fragment.physical_rows)


def updated(fragment: Fragment) -> list[int]:
    """Return the versions that last changed the rows of a fragment."""
    return _versions(fragment.message.inline_last_updated_at_versions, fragment.physical_rows)


def _versions(data: bytes, num_rows: int) -> list[int]:
    return VersionRuns.parse(data, num_rows, "").numbers().tolist()
