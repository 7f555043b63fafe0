"""Assigns the columns of a file in format 2.0 to fields.

The fields are visited depth first, parents before children, and each takes the next column; structs take one for their
header and lists one for their offsets. Members of a packed struct have no column. A string field written by releases
0.12 and 0.13 takes two columns.

A manifest records the column of every field id that has one. For a file that is opened without a manifest, the columns
are assigned by walking through the schema; ambiguous cases are resolved by inspecting the pages.

Source: ``lance.table.DataFile.column_indices``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_core.encodings.v2_0.api import is_variable_width
from lance_core.errors import CorruptDataError
from lance_core.schema.field import PACKED_KEYS
from lance_core.schema.logical_types import arrow_type
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_core.file.column_metadata import ColumnMetadata
    from lance_core.file.metadata_reader import MetadataReader
    from lance_core.schema.field import Field, Schema

__all__ = ["assigned_columns", "column_owners", "describes_blobs", "first_arm"]

_NO_COLUMN: Final = -1


def column_owners(field: Field) -> list[Field]:
    """Return the field and its descendants that own a column in a written file, in column order."""
    if field.is_packed or field.is_blob or field.is_fixed_size_list:
        return [field]
    return [field, *(owner for child in field.children for owner in column_owners(child))]


def assigned_columns(metadata: MetadataReader, column_indices: Mapping[int, int] | None) -> Mapping[int, int]:
    """Return the column index of each field in a file, keyed by field id; fields without a column are omitted.

    Args:
        metadata: the open file.
        column_indices: maps field ids to columns, as recorded in a manifest; None for a file that is read without one.

    Raises:
        CorruptDataError: the file does not have the columns that the schema requires.
    """
    num_columns = metadata.footer.num_columns
    if column_indices is not None:
        known = {field_id: index for field_id, index in column_indices.items() if index != _NO_COLUMN}
        for field_id, index in known.items():
            if not 0 <= index < num_columns:
                raise CorruptDataError(
                    f"{metadata.path}: the manifest lists column index {index} for field {field_id}, but the file has "
                    f"{counted(num_columns, 'column')}"
                )
        return known
    walk = _Walk(metadata)
    for top in metadata.schema.fields:
        walk.visit(top)
    if walk.position != num_columns:
        raise CorruptDataError(
            f"{metadata.path}: the schema needs {counted(walk.position, 'column')}, but the file has {num_columns}",
            expected=walk.position,
            found=num_columns,
        )
    return walk.columns


def describes_blobs(metadata: MetadataReader, blobs: Sequence[Field], column_indices: Mapping[int, int] | None) -> bool:
    """Return whether the pages of at least one blob leaf contain descriptors instead of values.

    Releases before 0.20 do not support blobs and store the values in the pages; the column metadata distinguishes
    the two cases.
    """
    assigned = assigned_columns(metadata, column_indices)
    columns = metadata.columns([assigned[leaf.id] for leaf in blobs if leaf.id in assigned])
    return any(column.is_blob for column in columns)


def first_arm(column: ColumnMetadata) -> str | None:
    """Return the kind of encoding of the first page that has rows.

    If no page has rows, return the kind of the first page; if there are no pages, return None.
    """
    page = next((page for page in column.pages if page.length), column.pages[0] if column.pages else None)
    return None if page is None else page.array_encoding.WhichOneof("array_encoding")


class _Walk:
    """Walks through the schema and counts columns."""

    def __init__(self, metadata: MetadataReader) -> None:
        self.columns: dict[int, int] = {}
        self.position = 0
        self._metadata = metadata
        # Only in this case do some fields have two columns.
        self._has_old_strings = metadata.footer.num_columns > _plain_count(metadata.schema)

    def visit(self, field: Field) -> None:
        """Assign the next columns to the field and its descendants."""
        self.columns[field.id] = self.position
        here = self.position
        self.position += 1
        if field.is_blob or field.is_fixed_size_list:
            return
        if field.is_struct:
            if self._is_packed(field, here):
                return
        elif not field.children:
            is_old = self._has_old_strings and is_variable_width(arrow_type(field)) and self._arm(here) == "list"
            self.position += is_old
            return
        for child in field.children:
            self.visit(child)

    def _is_packed(self, field: Field, index: int) -> bool:
        if not any(key in field.metadata for key in PACKED_KEYS):
            return False
        # The reference packs the struct if the key exists, regardless of its value; a struct header always has a page.
        return self._arm(index) in (None, "packed_struct")

    def _arm(self, index: int) -> str | None:
        if index >= self._metadata.footer.num_columns:
            raise CorruptDataError(
                f"{self._metadata.path}: the schema needs column index {index}, but the file has only "
                f"{counted(self._metadata.footer.num_columns, 'column')}"
            )
        return first_arm(self._metadata.columns([index])[0])


def _plain_count(schema: Schema) -> int:
    return sum(len(column_owners(top)) for top in schema.fields)
