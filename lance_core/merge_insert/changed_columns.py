"""Updates columns in place: the columns of the source are rewritten for the fragments with updated rows.

Rows keep their addresses. Updates are written in this way if the builder requests it, if the source lacks members of a
struct, or if it lacks columns and there is a scalar index on the key column. Otherwise, updated rows are moved.

Source: behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.columns.column_files import with_deleted_rows, with_new_rows
from lance_core.errors import InvalidMergeError, NotSupportedError
from lance_core.file.prepared_input import PreparedInput
from lance_core.file.read_config import ReadConfig
from lance_core.merge_insert.rules import WhenMatched, WriteMode
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.scan_plan import live_to_physical
from lance_core.schema.blob_fields import has_blobs
from lance_core.schema.convert import schema_from_arrow, schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.table.index_rules import decode_index_section

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_core.columns.column_files import ColumnFiles
    from lance_core.merge_insert.changes import Changes
    from lance_core.merge_insert.rules import MergeRules
    from lance_core.merge_insert.source import RowSource
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Field
    from lance_core.table.fragment import Fragment

__all__ = ["changed_columns", "updates_in_place", "with_changed_columns"]

_SCALAR_INDICES = ("BTreeIndexDetails", "BitmapIndexDetails")


def updates_in_place(view: TableView, rules: MergeRules, source: pa.Schema) -> bool:
    """Return whether columns are updated in place.

    Raises:
        InvalidMergeError: the builder requests updates in place, but the merge also inserts or deletes rows.
        NotSupportedError: the source lacks members of a struct, and rows are deleted because they do not match.
    """
    table = view.schema
    if rules.write_mode is WriteMode.COLUMNS:
        _check_possible(table, rules, source)
        return True
    if _lacks_members(table.fields, schema_from_arrow(source).fields):
        if rules.deletes_unmatched:
            raise NotSupportedError(
                "rows that match no source row cannot be deleted if the source lacks members of a struct"
            )
        return rules.writes_rows and rules.when_matched is not WhenMatched.DELETE
    lacks_columns = not set(source.names).issuperset(table.names) and bool(set(source.names) - set(rules.keys))
    return (
        rules.write_mode is WriteMode.AUTO
        and rules.uses_index
        and rules.updates
        and not rules.deletes_unmatched
        and lacks_columns
        and not has_blobs(changed_columns(table, rules, source))
        and _has_index(view, rules)
    )


def changed_columns(table: Schema, rules: MergeRules, source: pa.Schema) -> Schema:
    """Return the columns of the table that a source changes, with those members of structs that the source has."""
    given = {top.name: top for top in schema_from_arrow(source).fields}
    fields = [_common(top, given[top.name]) for top in table.fields if top.name in given and top.name not in rules.keys]
    return Schema(fields=tuple(fields), metadata=table.metadata)


def with_changed_columns(
    view: TableView,
    fragments: Sequence[Fragment],
    source: RowSource,
    changes: Changes,
    columns: Schema,
    files: ColumnFiles,
) -> dict[int, Fragment]:
    """Write the columns of the fragments with updated rows.

    Args:
        view: the version.
        fragments: its fragments.
        source: the rows of the source.
        changes: the changes.
        columns: the columns to write.
        files: writes the files.

    Returns:
        The fragments with their new files, by index.

    Raises:
        StorageError: a storage operation failed.
    """
    changed = {}
    for owner in np.unique(changes.owners).tolist():
        here = changes.owners == owner
        positions, rows = changes.positions[here], changes.updated[here]
        order = np.argsort(positions)
        values = _Values(source, columns, positions[order], rows[order], view.schema)
        batches = values.batches(view, fragments[owner])
        changed[owner] = files.fragment(view, fragments[owner], columns, view.schema, batches)
    return changed


class _Values:
    """The values of columns for all rows of a fragment.

    Args:
        source: the rows of the source.
        columns: the columns.
        positions: the physical positions of the updated rows, in ascending order.
        rows: the number of the source row of each updated row.
        table: schema of the table.
    """

    def __init__(
        self,
        source: RowSource,
        columns: Schema,
        positions: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int64],
        table: Schema,
    ) -> None:
        self._source = source
        self._columns = columns
        self._positions = positions
        self._rows = rows
        given = pa.schema([source.schema.field(name) for name in columns.names])
        self._prepared = PreparedInput(given, table=table)

    def batches(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        return with_deleted_rows(view, fragment, self._live(view, fragment), schema_to_arrow(self._columns))

    def _live(self, view: TableView, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        reader = FragmentReader(fragment, view.locator, session=view.session)
        deleted = reader.deleted_rows()
        row = 0
        for batch in reader.batches(self._columns, 0, reader.num_live_rows, ReadConfig()):
            places = live_to_physical(deleted, np.arange(row, row + batch.num_rows))
            row += batch.num_rows
            low, high = np.searchsorted(self._positions, [places[0], places[-1] + 1])
            if low == high:
                yield batch
                continue
            new = self._prepared.batch(self._source.take(self._rows[low:high], self._columns.names))
            yield with_new_rows(batch, np.searchsorted(places, self._positions[low:high]), new)


def _check_possible(table: Schema, rules: MergeRules, source: pa.Schema) -> None:
    columns = changed_columns(table, rules, source)
    reasons = {
        "the merge does not update matched rows": not rules.updates,
        "the merge inserts rows": rules.inserts,
        "the merge deletes rows": rules.deletes_unmatched,
        "the source has all columns of the table": set(source.names).issuperset(table.names),
        "the source has only key columns": not columns.fields,
        "the source has a blob column": has_blobs(columns),
    }
    found = [reason for reason, applies in reasons.items() if applies]
    if found:
        raise InvalidMergeError(f"write_mode 'rewrite_columns' is not possible, because {'; '.join(found)}")


def _lacks_members(table: Sequence[Field], source: Sequence[Field]) -> bool:
    """Return whether a struct of the source lacks members."""
    known = {field.name: field for field in source}
    return any(
        {child.name for child in known[field.name].children} != {child.name for child in field.children}
        or _lacks_members(field.children, known[field.name].children)
        for field in table
        if field.name in known and field.is_struct and known[field.name].is_struct and not field.is_blob
    )


def _common(field: Field, given: Field) -> Field:
    if not (field.is_struct and given.is_struct) or field.is_leaf or field.is_blob:
        return field
    known = {child.name: child for child in given.children}
    return field.with_children(
        tuple(_common(child, known[child.name]) for child in field.children if child.name in known)
    )


def _has_index(view: TableView, rules: MergeRules) -> bool:
    """Return whether the merge has only one key column, and the column has a scalar index."""
    if len(rules.keys) != 1:
        return False
    key = next(top.id for top in view.schema.fields if top.name == rules.keys[0])
    return any(
        list(index.fields) == [key] and index.index_details.type_url.endswith(_SCALAR_INDICES)
        for index in decode_index_section(view.manifest.index_section)
    )
