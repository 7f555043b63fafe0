"""Writes the rows that a merge inserts, and the updated rows with their new values.

Updated rows come first. If the source has all columns, these rows are written in the order of the source, so that the
source is read only once. If the source lacks columns, these columns keep their values, which are read from the table,
and the rows are written in the order of the table. Inserted rows follow, in the order of the source; columns that the
source lacks are null.

If the table has stable row ids, updated rows keep theirs: the new fragments list them.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.errors import NotSupportedError
from lance_core.scan.hidden_columns import hidden_columns_of
from lance_core.scan.output_schema import shown_schema
from lance_core.scan.take import placed_rows
from lance_core.schema.blob_fields import has_blobs
from lance_core.table.row_id_index import RowPlaces
from lance_core.table.row_id_segments import serialize_row_ids
from lance_core.table.row_lineage import RowLineage
from lance_core.write.write import stage_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_core.merge_insert.changes import Changes
    from lance_core.merge_insert.source import RowSource
    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment
    from lance_core.transactions.transaction import Transaction
    from lance_core.write.request import WriteRequest

__all__ = ["is_complete", "row_schema", "with_moved_row_ids", "write_new_rows"]

_STEP_ROWS: Final = 1 << 16
"""Maximum number of updated rows whose other columns are read from the table at a time."""


def row_schema(table: Schema, source: pa.Schema) -> pa.Schema:
    """Return the schema of the rows to write: the columns of the source, and those of the table that it lacks."""
    shown = shown_schema(table)
    known, given = set(shown.names), set(source.names)
    fields = [source.field(field.name) if field.name in given else field for field in shown]
    return pa.schema([*fields, *(field for field in source if field.name not in known)])


def write_new_rows(view: TableView, source: RowSource, changes: Changes, request: WriteRequest) -> Transaction:
    """Write the new rows as fragments that no version refers to yet; omit updated rows if they change in place.

    Returns:
        A transaction that appends the fragments, but is not committed.

    Raises:
        SchemaMismatchError: the rows are incompatible with the table.
        NotSupportedError: the source lacks a blob column, whose values would have to be copied.
        StorageError: a storage operation failed.
    """
    if changes.in_place:
        rows = pa.RecordBatchReader.from_batches(source.schema, _inserted(source, changes))
        return stage_rows(view.log, view.manifest, rows, None, request, storage_options=view.storage_options)
    schema = row_schema(view.schema, source.schema)
    given = set(source.schema.names)
    kept = [name for name in schema.names if name not in given]
    blobs = [top.name for top in view.schema.fields if top.name in kept and has_blobs(view.schema.project([top.name]))]
    if blobs and changes.num_updated:
        raise NotSupportedError(
            f"rows with the blob column {blobs[0]!r} cannot be updated from a source without this column",
            column=blobs[0],
        )
    updated = _with_kept_columns(view, source, changes, kept) if kept else _complete(source, changes)
    rows = pa.RecordBatchReader.from_batches(schema, _in_schema(chain(updated, _inserted(source, changes)), schema))
    return stage_rows(view.log, view.manifest, rows, None, request, storage_options=view.storage_options)


def with_moved_row_ids(
    view: TableView, source: RowSource, changes: Changes, fragments: Sequence[Fragment]
) -> Sequence[Fragment]:
    """Return written fragments that list the stable row ids of the updated rows, if the table has such ids."""
    if not view.manifest.has_stable_row_ids or not changes.num_updated or changes.in_place:
        return fragments
    ids = _row_ids(view, changes)[_order(view, source, changes)]
    listed = []
    for fragment in fragments:
        here, ids = ids[: fragment.physical_rows], ids[fragment.physical_rows :]
        listed.append(fragment.with_row_ids(serialize_row_ids([here])) if len(here) else fragment)
    return listed


def is_complete(table: Schema, source: RowSource) -> bool:
    """Return whether the source has all columns of the table."""
    return set(source.schema.names).issuperset(table.names)


def _order(view: TableView, source: RowSource, changes: Changes) -> npt.NDArray[np.int64]:
    """Return the order in which the updated rows are written."""
    if is_complete(view.schema, source):
        # Those of one source row are already in the order of the table.
        return np.argsort(changes.updated, kind="stable")
    return np.lexsort((changes.positions, changes.owners))


def _complete(source: RowSource, changes: Changes) -> Iterator[pa.RecordBatch]:
    """Yield updated rows in the order of the source."""
    rows = np.sort(changes.updated)
    for start, batch in source.batches():
        low, high = np.searchsorted(rows, [start, start + batch.num_rows])
        if low < high:
            yield batch.take(pa.array(rows[low:high] - start))


def _with_kept_columns(
    view: TableView, source: RowSource, changes: Changes, kept: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield updated rows in the order of the table."""
    order = _order(view, source, changes)
    table = placed_rows(view.source(), list(kept))
    for start in range(0, len(order), _STEP_ROWS):
        some = order[start : start + _STEP_ROWS]
        others = table.table(
            RowPlaces(changes.owners[some].astype(np.int64), changes.positions[some].astype(np.int64))
        ).combine_chunks()
        given = source.take(changes.updated[some])
        columns = [*given.columns, *(column.chunk(0) for column in others.columns)]
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*given.schema, *others.schema]))


def _inserted(source: RowSource, changes: Changes) -> Iterator[pa.RecordBatch]:
    """Yield inserted rows."""
    for start, batch in source.batches():
        here = changes.inserted[start : start + batch.num_rows]
        if here.all():
            yield batch
        elif here.any():
            yield batch.filter(pa.array(here))


def _in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield batches with all columns; missing columns are null."""
    for batch in batches:
        known = batch.schema.names
        columns = [
            batch.column(field.name) if field.name in known else pa.nulls(batch.num_rows, field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _row_ids(view: TableView, changes: Changes) -> npt.NDArray[np.uint64]:
    """Return the stable row ids of the updated rows."""
    hidden = hidden_columns_of(view.locator, view.session)
    ids = np.empty(changes.num_updated, np.uint64)
    fragments = view.fragments
    for owner in np.unique(changes.owners).tolist():
        here = changes.owners == owner
        ids[here] = RowLineage(fragments[owner].message, hidden).ids_at(changes.positions[here].astype(np.int64))
    return ids
