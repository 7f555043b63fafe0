"""WrittenFile: properties of a complete data file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WrittenFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """Properties of a finished file, as recorded in a manifest.

    Attributes:
        num_rows: number of rows in the file.
        num_bytes: size of the file in bytes.
        field_ids: ids of the fields that own a column.
        column_indices: column number of each of these fields.
    """

    num_rows: int
    num_bytes: int
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
