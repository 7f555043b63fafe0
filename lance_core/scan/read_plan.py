"""ReadPlan: the columns that a projection reads from each file, computed once for fragments with the same layout."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from lance_core.scan.column_sources import ColumnSources
from lance_core.scan.output_schema import OutputSchema
from lance_core.scan.row_columns import split_row_columns
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.extension_types import has_extension

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from lance_core.schema.field import Schema
    from lance_core.table.data_file import DataFile

__all__ = ["PlannedFile", "ReadPlan"]

PlannedFile: TypeAlias = "tuple[DataFile, Schema, Mapping[int, int]]"
"""A data file, the part of the schema to read from the file, and a map from field ids to column indices."""

_MOST_LAYOUTS: Final = 64
"""Maximum number of cached layouts. Most tables have few: the original one, and one for each later schema change."""


class ReadPlan:
    """Determines which columns one projection reads from each file.

    Args:
        wanted: the projection, with the table's field ids.
        table: the whole schema, for reads of individual rows; see :meth:`ColumnSources.plan`.

    Attributes:
        wanted: the projection, with blobs in their stored form.
        row_columns: the system columns of the projection, which files need not contain.
    """

    __slots__ = ("_layouts", "_output", "_stored", "_whole", "row_columns", "wanted")

    def __init__(self, wanted: Schema, table: Schema | None = None) -> None:
        """Initialize without planning any files."""
        self.wanted = stored_schema(wanted)
        self._stored, self.row_columns = split_row_columns(self.wanted)
        self._whole = None if table is None else split_row_columns(stored_schema(table))[0]
        self._output = None if any(map(has_extension, self.wanted.fields)) else OutputSchema(self.wanted)
        self._layouts: dict[Hashable, list[tuple[int, Schema, Mapping[int, int]]]] = {}

    @staticmethod
    @lru_cache(maxsize=64)
    def of(wanted: Schema, table: Schema | None = None) -> ReadPlan:
        """Return the plan for a projection; recent plans are cached."""
        return ReadPlan(wanted, table)

    @property
    def output(self) -> OutputSchema:
        """The output schema, including extension types registered after the plan was created."""
        return self._output or OutputSchema(self.wanted)

    def files(self, files: Sequence[DataFile]) -> list[PlannedFile]:
        """Return the columns to read from each file of a fragment; see :class:`ColumnSources`."""
        layout = tuple((file.field_ids, file.column_indices, file.file_version) for file in files)
        planned = self._layouts.get(layout)
        if planned is None:
            places = {id(file): place for place, file in enumerate(files)}
            sources = ColumnSources.plan(self._stored, files, self._whole).files
            planned = [(places[id(file)], here, file.all_columns()) for file, here in sources]
            if len(self._layouts) == _MOST_LAYOUTS:
                self._layouts.clear()
            self._layouts[layout] = planned
        return [(files[place], here, columns) for place, here, columns in planned]
