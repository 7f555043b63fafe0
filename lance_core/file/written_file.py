"""WrittenFile: what a data file is found to be when it is complete."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WrittenFile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """What a finished file holds, as a manifest records it.

    Attributes:
        num_rows: rows of the file.
        num_bytes: size of the file.
        field_ids: ids of the fields that own a column.
        column_indices: the column of each of them.
    """

    num_rows: int
    num_bytes: int
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
