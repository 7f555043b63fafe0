"""Determines in which data files of a fragment the parts of a column are stored.

A top-level field may be stored in a single file. It may be split across several files, if members of a struct were
added later. It may also be missing entirely or partly, if rows were appended without a nullable column or a column was
added without values. Missing values are read as null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_core.encodings.nested_arrays import list_items, with_items
from lance_core.errors import CorruptDataError, NotSupportedError
from lance_core.schema.extension_types import storage_array
from lance_core.schema.logical_types import arrow_field, arrow_type
from lance_core.schema.projection import project_by_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.schema.field import Field, Schema
    from lance_core.table.data_file import DataFile

__all__ = ["ColumnSources", "assemble_column"]


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
            if file.file_version.is_structural and stored & inner.keys():
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
        NotSupportedError: a list is split across files, or a map or fixed-size list is split or partly missing.
    """
    if not parts:
        return pa.nulls(num_rows, arrow_type(field))
    if len(parts) == 1 and (parts[0][0] is field or parts[0][0] == field):
        return parts[0][1]
    parts = [(part, storage_array(array)) for part, array in parts]
    if field.is_list and len(parts) == 1:
        # Any part of the items that is stored contains the offsets of the lists.
        [(part, array)] = parts
        items = list_items(array)
        item = assemble_column(field.children[0], [(part.children[0], items)], len(items))
        return with_items(array, item, arrow_type(field))
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
