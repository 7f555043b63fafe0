"""ReadPlan: the columns that a projection reads from each file, computed once for fragments with the same layout.

A top-level field may be stored in a single file. It may be split across several files, if members of a struct were
added later. It may also be missing entirely or partly, if rows were appended without a nullable column or a column was
added without values. Missing values are read as null.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_core.encodings.nested_arrays import list_items, with_items
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.file.families import has_columns_of_inner_fields
from lance_core.scan.output_schema import OutputSchema
from lance_core.scan.row_columns import split_row_columns
from lance_core.schema.blob_fields import stored_schema
from lance_core.schema.extension_types import has_extension, storage_array
from lance_core.schema.logical_types import arrow_field, arrow_type
from lance_core.schema.projection import project_by_ids

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy.typing as npt

    from lance_core.schema.field import Field, Schema
    from lance_core.table.data_file import DataFile

__all__ = ["ColumnSources", "PlannedFile", "ReadPlan", "assemble_column"]

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


@dataclass(frozen=True, slots=True)
class ColumnSources:
    """The parts of a schema to read from each file of a fragment.

    Attributes:
        wanted: the projected schema.
        files: each data file with the part of the schema to read from it; files without such a part are omitted.
    """

    wanted: Schema
    files: tuple[tuple[DataFile, Schema], ...]

    @classmethod
    def plan(cls, wanted: Schema, files: Sequence[DataFile], table: Schema | None = None) -> ColumnSources:
        """Match the leaves of a projection with the files that contain them.

        Args:
            wanted: the projected schema.
            files: the data files of the fragment.
            table: the whole schema, or None. It matters only if no file contains any of the wanted leaves of a struct
                or list. If the schema is given, another leaf of that struct or list is read, because every leaf records
                the nulls and list lengths. If it is None, the struct or list is read as null.

        Raises:
            CorruptDataError: a field is stored in two files, or a non-nullable field is missing from all files.
            NotSupportedError: a file stores a field in a form that does not match the schema.
        """
        leaves = wanted.leaves()
        leaf_ids = {leaf.id for leaf in leaves}
        inner = {node.id: node for node in wanted.walk() if node.id not in leaf_ids}
        witnesses = set() if table is None else _witnesses(wanted, table, files)
        sources = []
        found: set[int] = set()
        for file in files:
            stored = file.columns().keys()
            if stored & inner.keys() and not has_columns_of_inner_fields(file.file_version):
                raise _stored_otherwise(file, inner[min(stored & inner.keys())])
            here = leaf_ids & stored
            if here & found:
                raise CorruptDataError(f"field {min(here & found)} is stored in two data files", path=file.path)
            found |= here
            if here | (witnesses & stored):
                whole = table if table is not None and witnesses else wanted
                sources.append((file, project_by_ids(whole, here | (witnesses & stored))))
        for top in wanted.fields:
            missing = next((leaf for leaf in top.leaves() if leaf.id not in found and not leaf.nullable), None)
            if missing is not None and not top.nullable:
                raise CorruptDataError(f"no data file has the non-nullable field {missing.name!r} (id {missing.id})")
        return cls(wanted, tuple(sources))


def assemble_column(field: Field, parts: Sequence[tuple[Field, pa.Array]], num_rows: int) -> pa.Array:
    """Assemble a column from its parts in several files.

    Args:
        field: the projected field.
        parts: for each file that contains a part of the column, the pruned field and the array read from that file.
        num_rows: number of rows in the column.

    Returns:
        An array of ``arrow_type(field)``.

    Raises:
        CorruptDataError: two files contain parts of a list with different lengths.
        NotSupportedError: a map or fixed-size list is split across files, or partly missing.
    """
    if not parts:
        return pa.nulls(num_rows, arrow_type(field))
    if len(parts) == 1 and (parts[0][0] is field or parts[0][0] == field):
        return parts[0][1]
    parts = [(part, storage_array(array)) for part, array in parts]
    if field.is_list:
        return _assemble_list(field, parts)
    if not field.is_struct or field.is_packed:
        raise NotSupportedError(
            f"field {field.name!r} of type {field.logical_type!r} is split across several data files or partly "
            "missing, which is not supported for this type"
        )
    children = []
    for child in field.children:
        below = [
            (part_child, array.field(index))
            for part, array in parts
            for index, part_child in enumerate(part.children)
            if part_child.id == child.id
        ]
        children.append(assemble_column(child, below, num_rows))
    # Every file with a field of the struct records which structs are null.
    first = parts[0][1]
    mask = first.is_null() if first.null_count else None
    return pa.StructArray.from_arrays(children, fields=[arrow_field(child) for child in field.children], mask=mask)


def _assemble_list(field: Field, parts: Sequence[tuple[Field, pa.Array]]) -> pa.Array:
    """Assemble lists from parts of their items. Every part contains the lengths of the lists."""
    starts = [_item_starts(array) for _, array in parts]
    if not all(np.array_equal(starts[0], other) for other in starts[1:]):
        raise CorruptDataError(
            f"the data files that contain parts of list field {field.name!r} (id {field.id}) record different lengths"
        )
    first = parts[0][1]
    items = [(part.children[0], list_items(array)) for part, array in parts]
    item = assemble_column(field.children[0], items, len(items[0][1]))
    return with_items(first, item, arrow_type(field))


def _item_starts(lists: pa.Array) -> npt.NDArray[np.integer[Any]]:
    """Return the position of the first item of each list, and the number of all items, shape (num_lists + 1,)."""
    offsets = lists.offsets.to_numpy()
    starts: npt.NDArray[np.integer[Any]] = offsets - offsets[0]
    return starts


def _witnesses(wanted: Schema, table: Schema, files: Sequence[DataFile]) -> set[int]:
    """Return a stored leaf for each struct or list that has stored leaves, none of which is wanted."""
    stored = {field_id for file in files for field_id in file.columns()}
    whole = {node.id: node for node in table.walk()}
    witnesses: set[int] = set()
    # Inner structs and lists come first: their leaves can also be used for the outer ones.
    for node in reversed(list(wanted.walk())):
        below = {leaf.id for leaf in whole[node.id].leaves()} & stored if not node.is_leaf else set()
        if below and not below & witnesses and not {leaf.id for leaf in node.leaves()} & stored:
            witnesses.add(min(below))
    return witnesses


def _stored_otherwise(file: DataFile, node: Field) -> NotSupportedError:
    # If the columns were read as null, existing values would be lost.
    return NotSupportedError(
        f"data file {file.path} stores field {node.name!r} (id {node.id}) of type {node.logical_type!r} as a single "
        "column, but the schema requires one column per leaf",
        path=file.path,
        field=node.id,
    )
