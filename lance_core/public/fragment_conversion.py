"""Conversion between the fragments of the public API and the fragment records of manifests and transactions."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.proto import pb_table
from lance_core.public.data_file_metadata import DataFile
from lance_core.public.fragment_metadata import DeletionFile, FragmentMetadata
from lance_core.public.json_document import byte_string
from lance_core.public.overlay_metadata import DataOverlayFile, bitmap_of_offsets, offsets_of_bitmap, plain_offsets
from lance_core.public.row_sequences import document_of
from lance_core.table.data_file import DataFile as DataFileRecord
from lance_core.table.fragment import Fragment
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "data_file_from_record",
    "data_file_to_record",
    "fragment_from_record",
    "fragment_records",
    "fragment_to_record",
    "overlay_from_record",
    "overlay_to_record",
    "shown_fragments",
]

_IDS_IN_COLUMN: Final = "Column"
_VERSIONS_IN_COLUMN: Final[Mapping[str, Any]] = MappingProxyType({"column": {}})
"""Denotes, in JSON, row versions that are stored in a hidden column of a data file."""


def fragment_from_record(record: Fragment) -> FragmentMetadata:
    """Convert a fragment of a manifest or a transaction to its public form."""
    message = record.message
    deletion = record.deletion_file
    return FragmentMetadata(
        id=record.id,
        files=[data_file_from_record(file) for file in record.files],
        physical_rows=record.physical_rows,
        deletion_file=None if deletion is None else DeletionFile.from_record(deletion),
        row_id_meta=_sequence(message, "row_id_sequence", "inline_row_ids", _IDS_IN_COLUMN),
        created_at_version_meta=_sequence(
            message, "created_at_version_sequence", "inline_created_at_versions", dict(_VERSIONS_IN_COLUMN)
        ),
        last_updated_at_version_meta=_sequence(
            message, "last_updated_at_version_sequence", "inline_last_updated_at_versions", dict(_VERSIONS_IN_COLUMN)
        ),
        overlays=[overlay_from_record(overlay) for overlay in message.overlays],
    )


def data_file_from_record(record: DataFileRecord) -> DataFile:
    """Convert a data file record to its public form."""
    major, minor = record.file_version.manifest_pair
    return DataFile(
        path=record.path,
        fields=list(record.field_ids),
        column_indices=list(record.column_indices),
        file_major_version=major,
        file_minor_version=minor,
        file_size_bytes=record.num_bytes or None,
        base_id=record.base_id,
    )


def fragment_to_record(metadata: FragmentMetadata) -> Fragment:
    """Convert a user's fragment to a record.

    Raises:
        InvalidInputError: a value has the wrong type or is out of range.
        NotSupportedError: the row ids or row versions are in an unknown form.
    """
    try:
        record = Fragment.of(
            [data_file_to_record(file) for file in metadata.files],
            physical_rows=metadata.physical_rows,
            fragment_id=metadata.id,
            deletion=None if metadata.deletion_file is None else metadata.deletion_file.to_record(),
        )
        _set_sequences(record.message, metadata)
        record.message.overlays.extend(map(overlay_to_record, metadata.overlays))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"fragment {metadata.id} is malformed: {error}") from error
    return record


def data_file_to_record(file: DataFile) -> DataFileRecord:
    """Convert a user's data file to a record.

    Raises:
        InvalidInputError: no release has ever written the file's format version.
    """
    try:
        version = LanceFileVersion.from_pair(file.file_major_version, file.file_minor_version)
    except CorruptDataError as error:
        raise InvalidInputError(f"data file {file.path}: {error}", path=file.path) from error
    return DataFileRecord(
        path=file.path,
        field_ids=tuple(file.fields),
        column_indices=tuple(file.column_indices),
        file_version=version,
        num_bytes=file.file_size_bytes or 0,
        base_id=file.base_id,
    )


def overlay_from_record(message: pb_table.DataOverlayFile) -> DataOverlayFile:
    """Convert an overlay message to its public form.

    Raises:
        CorruptDataError: the coverage of the overlay is damaged.
    """
    offsets: Any = (
        [offsets_of_bitmap(each) for each in message.field_coverage.offset_bitmaps]
        if message.WhichOneof("coverage") == "field_coverage"
        else offsets_of_bitmap(message.shared_offset_bitmap)
    )
    file = data_file_from_record(DataFileRecord.from_proto(message.data_file))
    return DataOverlayFile(file, offsets, message.committed_version or None)


def overlay_to_record(file: DataOverlayFile) -> pb_table.DataOverlayFile:
    """Convert a user's overlay to a protobuf message.

    Raises:
        InvalidInputError: a row offset is listed twice or is out of range, or the data file is invalid.
    """
    message = pb_table.DataOverlayFile(
        data_file=data_file_to_record(file.data_file).to_proto(), committed_version=file.committed_version or 0
    )
    offsets = plain_offsets(file.offsets)
    if all(isinstance(each, int) for each in offsets):
        message.shared_offset_bitmap = bitmap_of_offsets(offsets)
    else:
        message.field_coverage.offset_bitmaps.extend(map(bitmap_of_offsets, offsets))
    return message


def _sequence(message: pb_table.DataFragment, oneof: str, inline: str, column: Any) -> Any:
    """Return the JSON form of a sequence, which is ``column`` if the sequence is stored in a hidden column."""
    arm = message.WhichOneof(oneof)
    if arm is None:
        return None
    if arm != inline:
        return column
    return {"Inline" if column == _IDS_IN_COLUMN else "inline": list(getattr(message, inline))}


def _set_sequences(message: pb_table.DataFragment, metadata: FragmentMetadata) -> None:
    row_ids = document_of(metadata.row_id_meta)
    if row_ids == _IDS_IN_COLUMN:
        message.column_row_ids.SetInParent()
    elif row_ids is not None:
        message.inline_row_ids = _inline(row_ids, "Inline")
    created_at = document_of(metadata.created_at_version_meta)
    if created_at == _VERSIONS_IN_COLUMN:
        message.column_created_at_versions.SetInParent()
    elif created_at is not None:
        message.inline_created_at_versions = _inline(created_at, "inline")
    updated_at = document_of(metadata.last_updated_at_version_meta)
    if updated_at == _VERSIONS_IN_COLUMN:
        message.column_last_updated_at_versions.SetInParent()
    elif updated_at is not None:
        message.inline_last_updated_at_versions = _inline(updated_at, "inline")


def _inline(document: Any, key: str) -> bytes:
    if not isinstance(document, dict) or key not in document:
        raise NotSupportedError(f"expected row ids or row versions, inline or in a column, found {document!r:.80}")
    return byte_string(document[key], key)


def fragment_records(fragments: Iterable[FragmentMetadata]) -> tuple[Fragment, ...]:
    """Convert users' fragments to records; raises the same errors as :func:`fragment_to_record`."""
    return tuple(map(fragment_to_record, fragments))


def shown_fragments(fragments: Iterable[Fragment]) -> list[FragmentMetadata]:
    """Convert fragment records to their public form."""
    return [fragment_from_record(fragment) for fragment in fragments]
