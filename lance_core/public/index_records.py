"""Indices in the public API: the indices in a transaction, and descriptions of a dataset's indices.

No index is read: all information comes from the index section of the manifest or from the transaction.

Source: names and fields of pylance 14.0.2.
"""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypedDict

from lance_core.errors import CorruptDataError, IndexNotFoundError, InvalidInputError, InvalidTypeError
from lance_core.proto import pb_table
from lance_core.public.arguments import checked_number, checked_text
from lance_core.table.index_metadata import is_system_index, read_fragment_bitmap, type_name
from lance_core.table.index_rules import decode_index_section

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_core.public.bitmap import Bitmap
    from lance_core.schema.field import Field, Schema
    from lance_core.table.manifest import Manifest

__all__ = [
    "Index",
    "IndexDescription",
    "IndexFile",
    "IndexInformation",
    "IndexSegmentDescription",
    "describe_indices",
    "index_from_proto",
    "index_to_proto",
    "indices_named",
    "list_segments",
]

_DETAILS_SUFFIX: Final = "IndexDetails"
_MILLISECONDS: Final = 1000
_U32: Final = 2**32


@dataclass
class IndexFile:
    """A file of an index.

    Attributes:
        path: path of the file, relative to the directory of the index.
        size_bytes: size of the file in bytes.
    """

    path: str
    size_bytes: int


@dataclass
class Index:
    """One segment of an index, as listed in a manifest or a transaction.

    Attributes:
        uuid: id of the segment, which is also the name of the directory that contains its files.
        name: name of the index; all segments of an index have the same name.
        fields: ids of the indexed fields.
        dataset_version: the version from which the segment was built.
        fragment_ids: ids of the fragments that the segment covers.
        index_version: format version of the index type.
        created_at: time at which the segment was built; None if it was not recorded.
        base_id: id of the base path that contains the files; None for the dataset's own root.
        files: the files of the segment; None if they were not recorded.
        index_details: the parameters of the index, as a type URL and serialized bytes; the type URL identifies the
            index type. None if they were not recorded.
        covering_fields: ids of other fields whose values the segment also stores.
    """

    uuid: str
    name: str
    fields: list[int]
    dataset_version: int
    fragment_ids: Iterable[int]
    index_version: int
    created_at: datetime | None = None
    base_id: int | None = None
    files: list[IndexFile] | None = None
    index_details: tuple[str, bytes] | None = None
    covering_fields: list[int] = field(default_factory=list)


class IndexInformation(TypedDict):
    """A segment of an index, as in the result of ``list_indices()``.

    Attributes:
        name: name of the index.
        type: short name of the index type, such as "BTree".
        uuid: id of the segment.
        fields: paths of the indexed fields.
        version: the version from which the segment was built.
        fragment_ids: ids of the fragments that the segment covers.
        base_id: id of the base path that contains the files; None for the dataset's own root.
    """

    name: str
    type: str
    uuid: str
    fields: list[str]
    version: int
    fragment_ids: Bitmap
    base_id: int | None


@dataclass
class IndexSegmentDescription:
    """The metadata of one segment of an index.

    Attributes:
        uuid: id of the segment, which is also the name of the directory that contains its files.
        dataset_version_at_last_update: the version from which the segment was built.
        fragment_ids: ids of the fragments that the segment covers; some fragments may no longer exist.
        index_version: format version of the index type.
        created_at: time at which the segment was built; None if it was not recorded.
        base_id: id of the base path that contains the files; None for the dataset's own root.
        size_bytes: total size of the segment's files in bytes; None if it was not recorded.
        covering_fields: ids of other fields whose values the segment also stores.
    """

    uuid: str
    dataset_version_at_last_update: int
    fragment_ids: Bitmap
    index_version: int
    created_at: datetime | None
    base_id: int | None
    size_bytes: int | None
    covering_fields: list[int]


@dataclass
class IndexDescription:
    """The metadata of an index.

    Attributes:
        name: name of the index.
        type_url: type URL that identifies the index type.
        index_type: short name of the index type, such as "BTree".
        num_rows_indexed: number of live rows in the existing fragments that the segments cover.
        fields: ids of the indexed fields.
        field_names: paths of the indexed fields.
        segments: the segments of the index.
        total_size_bytes: total size of all files in bytes; None if it was not recorded for every segment.
    """

    name: str
    type_url: str
    index_type: str
    num_rows_indexed: int
    fields: list[int]
    field_names: list[str]
    segments: list[IndexSegmentDescription]
    total_size_bytes: int | None


def index_to_proto(index: Index) -> pb_table.IndexMetadata:
    """Return the protobuf message for an index.

    Raises:
        InvalidInputError: a value is malformed.
        InvalidTypeError: the argument is not an index.
    """
    # Imported only when needed: few commits change indices.
    from pyroaring import BitMap

    if not isinstance(index, Index):
        raise InvalidTypeError(f"indices must be Index objects, found {type(index).__name__}")
    try:
        raw = uuid_module.UUID(index.uuid).bytes
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(f"the id of index {index.name!r} is not a UUID: {index.uuid!r}") from error
    fragment_ids = [checked_number("fragment id", each, 0, _U32) for each in index.fragment_ids]
    message = pb_table.IndexMetadata(
        uuid=pb_table.UUID(uuid=raw),
        fields=[checked_number("field id", each, 0, 2**31) for each in index.fields],
        name=checked_text("name", index.name),
        dataset_version=checked_number("dataset_version", index.dataset_version, 0, 2**63),
        fragment_bitmap=BitMap(fragment_ids, optimize=False).serialize(),
        index_version=checked_number("index_version", index.index_version, 0, 2**31),
        covering_fields=[checked_number("field id", each, 0, 2**31) for each in index.covering_fields],
        files=[pb_table.IndexFile(path=file.path, size_bytes=file.size_bytes) for file in index.files or []],
    )
    if index.index_details is not None:
        message.index_details.type_url, message.index_details.value = index.index_details
    if index.created_at is not None:
        message.created_at = round(index.created_at.timestamp() * _MILLISECONDS)
    if index.base_id is not None:
        message.base_id = checked_number("base_id", index.base_id, 0, _U32)
    return message


def index_from_proto(message: pb_table.IndexMetadata) -> Index:
    """Convert the protobuf message of an index to its public form.

    Raises:
        CorruptDataError: the id of the index is not a UUID, or its fragment bitmap cannot be decoded.
    """
    details = message.index_details
    return Index(
        uuid=_uuid(message),
        name=message.name,
        fields=list(message.fields),
        dataset_version=message.dataset_version,
        fragment_ids=_fragment_ids(message),
        index_version=message.index_version,
        created_at=_created_at(message),
        base_id=message.base_id if message.HasField("base_id") else None,
        files=[IndexFile(file.path, file.size_bytes) for file in message.files] or None,
        index_details=(details.type_url, details.value) if message.HasField("index_details") else None,
        covering_fields=list(message.covering_fields),
    )


def describe_indices(
    indices: Iterable[pb_table.IndexMetadata], schema: Schema, rows: Mapping[int, int]
) -> list[IndexDescription]:
    """Describe the indices of a version, except system indices.

    Args:
        indices: the entries of the index section.
        schema: schema of the version.
        rows: maps each fragment id to the number of rows in the fragment that are not deleted.

    Raises:
        CorruptDataError: an entry is damaged.
    """
    by_name: dict[str, list[pb_table.IndexMetadata]] = {}
    for index in indices:
        if not is_system_index(index.name):
            by_name.setdefault(index.name, []).append(index)
    return [_description(name, segments, schema, rows) for name, segments in by_name.items()]


def list_segments(indices: Iterable[IndexDescription]) -> list[IndexInformation]:
    """Return a dictionary for each segment of the indices, with the keys of pylance's ``list_indices``."""
    return [
        {
            "name": index.name,
            "type": index.index_type,
            "uuid": segment.uuid,
            "fields": index.field_names,
            "version": segment.dataset_version_at_last_update,
            "fragment_ids": segment.fragment_ids,
            "base_id": segment.base_id,
        }
        for index in indices
        for segment in index.segments
    ]


def indices_named(manifest: Manifest, name: str, root: str) -> tuple[pb_table.IndexMetadata, ...]:
    """Return the segments of an index.

    Args:
        manifest: manifest of the version.
        name: name of the index, not of the indexed column.
        root: root of the table, for messages.

    Raises:
        IndexNotFoundError: the version has no such index.
        CorruptDataError: the index section is damaged.
    """
    indices = decode_index_section(manifest.index_section)
    found = tuple(index for index in indices if index.name == name and not is_system_index(name))
    if not found:
        known = sorted({index.name for index in indices if not is_system_index(index.name)})
        raise IndexNotFoundError(
            f"version {manifest.version} of {root} has no index {name!r}; existing indices: {known or 'none'}",
            name=name,
        )
    return found


def _description(
    name: str, messages: list[pb_table.IndexMetadata], schema: Schema, rows: Mapping[int, int]
) -> IndexDescription:
    segments = [_segment(message) for message in messages]
    paths = _paths(schema.fields, "")
    covered: set[int] = set().union(*(segment.fragment_ids for segment in segments))
    sizes = [segment.size_bytes for segment in segments]
    first = messages[0]
    return IndexDescription(
        name=name,
        type_url=first.index_details.type_url,
        index_type=type_name(first).removesuffix(_DETAILS_SUFFIX) or "Unknown",
        num_rows_indexed=sum(rows.get(fragment_id, 0) for fragment_id in covered),
        fields=list(first.fields),
        field_names=[paths.get(field_id, "") for field_id in first.fields],
        segments=segments,
        total_size_bytes=None if None in sizes else sum(size or 0 for size in sizes),
    )


def _paths(fields: Iterable[Field], prefix: str) -> dict[int, str]:
    """Map the id of every field to its path."""
    found = {}
    for each in fields:
        found[each.id] = f"{prefix}{each.name}"
        found.update(_paths(each.children, f"{prefix}{each.name}."))
    return found


def _segment(message: pb_table.IndexMetadata) -> IndexSegmentDescription:
    return IndexSegmentDescription(
        uuid=_uuid(message),
        dataset_version_at_last_update=message.dataset_version,
        fragment_ids=_fragment_ids(message),
        index_version=message.index_version,
        created_at=_created_at(message),
        base_id=message.base_id if message.HasField("base_id") else None,
        size_bytes=sum(file.size_bytes for file in message.files) if message.files else None,
        covering_fields=list(message.covering_fields),
    )


def _fragment_ids(message: pb_table.IndexMetadata) -> Bitmap:
    # Imported only when needed: it loads pyroaring.
    from lance_core.public.bitmap import Bitmap

    return Bitmap(read_fragment_bitmap(message))


def _uuid(message: pb_table.IndexMetadata) -> str:
    try:
        return str(uuid_module.UUID(bytes=message.uuid.uuid))
    except ValueError as error:
        raise CorruptDataError(f"the id of index {message.name!r} is not a UUID: {error}") from error


def _created_at(message: pb_table.IndexMetadata) -> datetime | None:
    if not message.HasField("created_at"):
        return None
    try:
        return datetime.fromtimestamp(message.created_at / _MILLISECONDS, UTC)
    except (ValueError, OverflowError, OSError):
        # The time is out of the range of datetime.
        return None
