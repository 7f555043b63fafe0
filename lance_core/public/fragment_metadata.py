"""Fragments in the public API: mutable records that have the JSON format of the reference implementation.

The workers of a distributed writer send fragments as JSON documents to the process that commits. This library and the
reference implementation can read each other's documents. New fragments have id 0; the commit assigns their ids.

Values from a document end up in manifests, in the names of files that are opened or removed, and in buffer sizes.
Therefore, every value is checked when it is read.

Source: JSON of pylance 14.0.2 (``FragmentMetadata.to_json``).
"""

from __future__ import annotations

import json as json_text
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

from lance_core.errors import InvalidInputError
from lance_core.public.data_file_metadata import DataFile, read_data_file
from lance_core.public.json_document import (
    JsonObject,
    Reader,
    byte_string,
    entries,
    listed,
    malformed,
    nullable,
    parse_document,
    text,
    whole,
)
from lance_core.public.overlay_metadata import DataOverlayFile, overlay_reader, plain_offsets
from lance_core.public.row_sequences import RowDatasetVersionMeta, RowIdMeta, document_of, ids_of, versions_of
from lance_core.table.deletion_file import DeletionFile as DeletionFileRecord
from lance_core.table.deletion_file import DeletionFileType
from lance_core.table.paths import DELETIONS_DIRECTORY

__all__ = ["DeletionFile", "FragmentMetadata", "read_fragment"]

_DELETION_TYPES: Final = {"array": DeletionFileType.ARROW, "bitmap": DeletionFileType.BITMAP}

_U32: Final = whole(0, 2**32)
_U64: Final = whole(0, 2**64)
_ROWS: Final = whole(0, 2**32 + 1)
"""Reads the number of rows in a fragment. The maximum is 2**32, because row addresses have 32 bits for the position."""


@dataclass
class DeletionFile:
    """A file that lists the deleted rows of a fragment.

    Attributes:
        read_version: the version that the deletion was based on.
        id: a random number that is part of the file's name.
        file_type: the format of the file, "array" or "bitmap".
        num_deleted_rows: number of rows that the file lists.
        base_id: id of the base path that contains the file; None for the dataset's own root.
    """

    read_version: int
    id: int
    file_type: str
    num_deleted_rows: int
    base_id: int | None = None

    def __post_init__(self) -> None:
        """Check the file type."""
        if self.file_type not in _DELETION_TYPES:
            raise InvalidInputError(f"file_type must be one of {sorted(_DELETION_TYPES)}, found {self.file_type!r}")

    def asdict(self) -> dict[str, Any]:
        """Return the JSON document as a dictionary."""
        return asdict(self)

    def json(self) -> str:
        """Return the JSON document."""
        return json_text.dumps(asdict(self))

    @staticmethod
    def from_json(json: str) -> DeletionFile:
        """Parse the JSON document; the inverse of :meth:`json`.

        Raises:
            InvalidInputError: the document is invalid.
        """
        return _deletion_file(parse_document("deletion file", json))

    def path(self, fragment_id: int, base_uri: str | None = None) -> str:
        """Return the path of the file below ``base_uri``; by default, relative to the dataset's root."""
        path = f"{DELETIONS_DIRECTORY}/{self.to_record().name(fragment_id)}"
        return f"{base_uri.strip('/')}/{path}" if base_uri else path

    @classmethod
    def from_record(cls, record: DeletionFileRecord) -> Self:
        """Convert from the form stored in the manifest."""
        names = {file_type: name for name, file_type in _DELETION_TYPES.items()}
        return cls(
            read_version=record.read_version,
            id=record.id,
            file_type=names[record.file_type],
            num_deleted_rows=record.num_deleted_rows,
            base_id=record.base_id,
        )

    def to_record(self) -> DeletionFileRecord:
        """Convert to the form stored in the manifest."""
        return DeletionFileRecord(
            file_type=_DELETION_TYPES[self.file_type],
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows,
            base_id=self.base_id,
        )


@dataclass
class FragmentMetadata:
    """The metadata of a fragment.

    Attributes:
        id: id of the fragment, unique in the dataset; 0 before the fragment is committed.
        files: the data files, which contain different columns of the same rows.
        physical_rows: number of rows in each data file, including deleted rows.
        deletion_file: the file that lists the deleted rows; None if no row is deleted.
        row_id_meta: the stable row ids; None if the table has none, or if the commit is to assign them.
        created_at_version_meta: the version that created each row; None if row ids are not stable.
        last_updated_at_version_meta: the version that last changed each row; None if row ids are not stable.
        overlays: newer values for individual cells, as ``LanceOperation.DataOverlayFile`` objects, oldest first.
    """

    id: int
    files: list[DataFile]
    physical_rows: int
    deletion_file: DeletionFile | None = None
    row_id_meta: RowIdMeta | None = None
    created_at_version_meta: RowDatasetVersionMeta | None = None
    last_updated_at_version_meta: RowDatasetVersionMeta | None = None
    overlays: list[DataOverlayFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Accept row ids and row versions in their JSON form, too."""
        self.row_id_meta = ids_of(self.row_id_meta)
        self.created_at_version_meta = versions_of(self.created_at_version_meta)
        self.last_updated_at_version_meta = versions_of(self.last_updated_at_version_meta)

    @property
    def num_deletions(self) -> int:
        """Number of deleted rows."""
        return 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows

    @property
    def num_rows(self) -> int:
        """Number of rows that are not deleted."""
        return self.physical_rows - self.num_deletions

    def data_files(self) -> list[DataFile]:
        """Return the data files. Deprecated, as in pylance; use ``files`` instead."""
        warnings.warn("data_files is deprecated; use files instead", DeprecationWarning, stacklevel=2)
        return self.files

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document as a dictionary."""
        document = asdict(self)
        for name in ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta"):
            document[name] = document_of(document[name])
        for overlay in document["overlays"]:
            overlay["offsets"] = plain_offsets(overlay["offsets"])
        return document

    @staticmethod
    def from_json(json_data: str | dict[str, Any]) -> FragmentMetadata:
        """Parse the JSON document; the inverse of :meth:`to_json`.

        Args:
            json_data: the document as a string, or as the dictionary that :meth:`to_json` returns.

        Raises:
            InvalidInputError: the document is invalid.
        """
        if isinstance(json_data, str):
            return _fragment(parse_document("fragment", json_data))
        return read_fragment(json_data, "fragment at $")


def _deletion_file(document: JsonObject) -> DeletionFile:
    document.refuse_others(DeletionFile.__dataclass_fields__)
    return DeletionFile(
        read_version=document.take("read_version", _U64),
        id=document.take("id", _U64),
        file_type=document.take("file_type", text),
        # Null means that the rows were not counted, which a manifest records as 0.
        num_deleted_rows=document.take("num_deleted_rows", nullable(_ROWS)) or 0,
        base_id=document.take("base_id", nullable(_U32), None),
    )


def _fragment(document: JsonObject) -> FragmentMetadata:
    fragment = FragmentMetadata(
        id=document.take("id", _U64),
        files=document.take("files", listed(entries(read_data_file))),
        physical_rows=document.take("physical_rows", _ROWS),
        deletion_file=document.take("deletion_file", nullable(entries(_deletion_file)), None),
        row_id_meta=document.take("row_id_meta", _sequence, None),
        created_at_version_meta=document.take("created_at_version_meta", _sequence, None),
        last_updated_at_version_meta=document.take("last_updated_at_version_meta", _sequence, None),
        overlays=document.take("overlays", _overlays, None),
    )
    if fragment.num_rows < 0:
        malformed(
            f"{document.where}.deletion_file.num_deleted_rows",
            f"at most {fragment.physical_rows} (the number of rows in the fragment)",
            fragment.num_deletions,
        )
    return fragment


def _sequence(value: Any, where: str) -> Any:
    """Read row ids or row versions: lists of bytes are checked, and all other forms are passed through."""
    if value is not None and not isinstance(value, (str, Mapping)):
        malformed(where, "an object, a string, or null", value)
    for key in ("Inline", "inline"):
        if isinstance(value, Mapping) and key in value:
            byte_string(value[key], f"{where}.{key}")
    return value


def _overlays(value: Any, where: str) -> list[DataOverlayFile]:
    return [] if value is None else _read_overlays(value, where)


_read_overlays: Final = listed(overlay_reader(entries(read_data_file)))

read_fragment: Final[Reader[FragmentMetadata]] = entries(_fragment)
"""Reads a fragment that is part of a larger document."""
