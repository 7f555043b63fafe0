"""Between the fragments that users handle and the records of manifests and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_core.api.fragment_metadata import DataFile, DeletionFile, FragmentMetadata
from lance_core.api.json_document import byte_string
from lance_core.errors import CorruptDataError, InvalidInputError, NotSupportedError
from lance_core.table.data_file import DataFile as DataFileRecord
from lance_core.table.fragment import Fragment
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from lance_core.proto import pb_table

__all__ = ["data_file_from_record", "data_file_to_record", "fragment_from_record", "fragment_to_record"]


def fragment_from_record(record: Fragment) -> FragmentMetadata:
    """What users see of a fragment of a manifest or a transaction."""
    message = record.message
    deletion = record.deletion_file
    return FragmentMetadata(
        id=record.id,
        files=[data_file_from_record(file) for file in record.files],
        physical_rows=record.physical_rows,
        deletion_file=None if deletion is None else DeletionFile.from_record(deletion),
        row_id_meta=_sequence(message, "row_id_sequence", "inline_row_ids", "Inline"),
        created_at_version_meta=_sequence(
            message, "created_at_version_sequence", "inline_created_at_versions", "inline"
        ),
        last_updated_at_version_meta=_sequence(
            message, "last_updated_at_version_sequence", "inline_last_updated_at_versions", "inline"
        ),
    )


def data_file_from_record(record: DataFileRecord) -> DataFile:
    """What users see of a data file."""
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
    """The record of a user's fragment.

    Raises:
        InvalidInputError: a value has the wrong type or lies outside its range.
        NotSupportedError: the fragment has overlays or sequences in hidden columns.
    """
    if metadata.overlays:
        raise NotSupportedError(f"fragment {metadata.id}: data overlays are not supported")
    try:
        record = Fragment.of(
            [data_file_to_record(file) for file in metadata.files],
            physical_rows=metadata.physical_rows,
            fragment_id=metadata.id,
            deletion=None if metadata.deletion_file is None else metadata.deletion_file.to_record(),
        )
        _set_sequences(record.message, metadata)
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"fragment {metadata.id} is malformed: {error}") from error
    return record


def data_file_to_record(file: DataFile) -> DataFileRecord:
    """The record of a user's data file.

    Raises:
        InvalidInputError: its format version was never written.
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


def _sequence(message: pb_table.DataFragment, oneof: str, inline: str, key: str) -> Any:
    arm = message.WhichOneof(oneof)
    if arm is None:
        return None
    return {key: list(getattr(message, inline))} if arm == inline else "Column"


def _set_sequences(message: pb_table.DataFragment, metadata: FragmentMetadata) -> None:
    if metadata.row_id_meta is not None:
        message.inline_row_ids = _inline(metadata.row_id_meta, "Inline")
    if metadata.created_at_version_meta is not None:
        message.inline_created_at_versions = _inline(metadata.created_at_version_meta, "inline")
    if metadata.last_updated_at_version_meta is not None:
        message.inline_last_updated_at_versions = _inline(metadata.last_updated_at_version_meta, "inline")


def _inline(document: Any, key: str) -> bytes:
    if not isinstance(document, dict) or key not in document:
        raise NotSupportedError(f"a sequence that is not kept inline is not supported: {document!r:.80}")
    return byte_string(document[key], key)
