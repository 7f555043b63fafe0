"""DataFile: one data file of a fragment, and the table fields that are stored in the file.

``field_ids`` and ``column_indices`` are parallel lists: the values of field ``field_ids[i]`` are in column
``column_indices[i]`` of the file. Files in format 2.1 and later list only the fields that own a column (leaves). Format
2.0 also lists structs and lists, which own a column there; members of a packed struct are not listed, or have column
index -1. Format 0.1 lists every field and no column indices: its page table is ordered by field id, starting with the
first listed id. Negative ids have special meanings: -2 marks a column that a later file has replaced, and -3 to -5 mark
hidden row-lineage columns.

Source: ``lance.table.DataFile``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from lance_core.errors import CorruptDataError, UnsupportedVersionError
from lance_core.proto import pb_table
from lance_core.schema.field import HIDDEN_FIELD_IDS
from lance_core.versions import LanceFileVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lance_core.schema.field import Field

__all__ = ["DEAD_FIELD_ID", "DataFile", "stored_fields"]

DEAD_FIELD_ID: Final = -2
"""Replaces the id of a field in ``field_ids`` if the field's column is no longer read."""


def stored_fields(fields: Iterable[Field], version: LanceFileVersion) -> Iterator[Field]:
    """Yield the fields that a new data file lists, in order.

    These are the fields that own a column, depth first; in format 0.1, they are all fields, ordered by id.

    Args:
        fields: sibling fields; all their descendants are in the file.
        version: format version of the file.
    """
    if version.is_legacy:
        yield from sorted((node for field in fields for node in field.walk()), key=lambda node: node.id)
        return
    for field in fields:
        if version.is_structural:
            yield from field.leaves()
        else:
            yield field
            if not field.is_leaf:
                yield from stored_fields(field.children, version)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file of a fragment.

    Attributes:
        path: path of the file, relative to ``data/`` of its base.
        field_ids: ids, in the table's schema, of the fields stored in the file.
        column_indices: for each entry of ``field_ids``, the index of the column in the file; empty in format 0.1.
        file_version: format version of the file.
        num_bytes: size of the file in bytes; 0 if not recorded.
        base_id: id of the base path that contains the file; None for the table's own root (0 is a valid id).
    """

    path: str
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
    file_version: LanceFileVersion
    num_bytes: int = 0
    base_id: int | None = None

    @property
    def known_num_bytes(self) -> int | None:
        """The recorded size in bytes; None if it is missing, or in format 0.1, where recorded sizes are unreliable."""
        return None if self.file_version.is_legacy else self.num_bytes or None

    @property
    def live_field_ids(self) -> tuple[int, ...]:
        """The ids of the fields that are read from this file, without hidden columns and dead fields."""
        return tuple(field_id for field_id in self.field_ids if field_id >= 0)

    def columns(self) -> Mapping[int, int]:
        """Map the ids of the live fields that own a column to the indices of their columns in the file.

        In format 0.1, the index is the row of the field in the page table: the field id minus the first id in
        ``field_ids``, unless ids were renumbered.

        Raises:
            CorruptDataError: ``field_ids`` and ``column_indices`` differ in length, or a field occurs twice.
        """
        if self.file_version.is_legacy:
            return self._page_table_rows()
        if len(self.field_ids) != len(self.column_indices):
            raise CorruptDataError(
                f"data file {self.path}: the number of field ids ({len(self.field_ids)}) differs from the number of "
                f"column indices ({len(self.column_indices)})",
                path=self.path,
            )
        pairs = [pair for pair in zip(self.field_ids, self.column_indices, strict=True) if pair[0] >= 0]
        columns = dict(pairs)
        if len(columns) != len(pairs):
            raise CorruptDataError(f"data file {self.path}: a field occurs twice in {self.field_ids}", path=self.path)
        return {field_id: column for field_id, column in columns.items() if column >= 0}

    def hidden_columns(self) -> Mapping[int, int]:
        """Map the field ids of the hidden row-lineage columns to the indices of their columns in the file."""
        pairs = zip(self.field_ids, self.column_indices, strict=False)
        return {field_id: column for field_id, column in pairs if field_id in HIDDEN_FIELD_IDS and column >= 0}

    def all_columns(self) -> Mapping[int, int]:
        """Map the ids of live fields and hidden columns to the indices of their columns in the file."""
        return {**self.columns(), **self.hidden_columns()}

    def _page_table_rows(self) -> Mapping[int, int]:
        live = self.live_field_ids
        rows = {field_id: field_id - self.field_ids[0] for field_id in live}
        if len(rows) != len(live):
            raise CorruptDataError(f"data file {self.path}: a field occurs twice in {self.field_ids}", path=self.path)
        return rows

    @classmethod
    def from_proto(cls, message: pb_table.DataFile) -> Self:
        """Parse the message.

        Raises:
            CorruptDataError: the path is empty or contains a NUL character, or no release ever wrote the
                format version.
            UnsupportedVersionError: the file version is unknown; the message contains the file and the version.
        """
        if not message.path:
            raise CorruptDataError("a data file has an empty path")
        if "\0" in message.path:
            raise CorruptDataError(
                f"the path of a data file contains a NUL character: {message.path!r}", path=message.path
            )
        try:
            file_version = LanceFileVersion.from_pair(message.file_major_version, message.file_minor_version)
        except (CorruptDataError, UnsupportedVersionError) as error:
            raise type(error)(
                f"data file {message.path}: {error}", **{**error.context, "path": message.path}
            ) from error
        return cls(
            path=message.path,
            field_ids=tuple(message.fields),
            column_indices=tuple(message.column_indices),
            file_version=file_version,
            num_bytes=message.file_size_bytes,
            base_id=message.base_id if message.HasField("base_id") else None,
        )

    def to_proto(self) -> pb_table.DataFile:
        """Return the protobuf message; the inverse of :meth:`from_proto`."""
        major, minor = self.file_version.manifest_pair
        message = pb_table.DataFile(
            path=self.path,
            fields=self.field_ids,
            column_indices=self.column_indices,
            file_major_version=major,
            file_minor_version=minor,
            file_size_bytes=self.num_bytes,
        )
        if self.base_id is not None:
            message.base_id = self.base_id
        return message
