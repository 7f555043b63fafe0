"""Updates columns of one fragment from rows with the same keys, without a commit.

The whole columns are rewritten to an additional file; the old values, in other files, are no longer used.

Source: ``LanceFragment.update_columns`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from lance_core.columns.column_files import new_files, with_deleted_rows, with_new_rows
from lance_core.columns.joined_rows import NO_ROW, key_type
from lance_core.errors import InvalidInputError, NotSupportedError, SchemaMismatchError
from lance_core.file.prepared_input import PreparedInput
from lance_core.file.read_config import ReadConfig
from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.row_columns import ROW_ADDRESS_NAME, with_row_columns
from lance_core.scan.scanner import LanceScanner
from lance_core.schema.convert import schema_to_arrow
from lance_core.schema.field import Schema
from lance_core.schema.logical_types import arrow_type
from lance_core.schema.projection import same_type
from lance_core.table.data_file import stored_fields
from lance_core.table.feature_flags import require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.columns.joined_rows import JoinedRows
    from lance_core.scan.table_view import TableView
    from lance_core.table.fragment import Fragment

__all__ = ["update_fragment"]


def update_fragment(
    view: TableView, fragment: Fragment, rows: JoinedRows, left_on: str
) -> tuple[Fragment, list[int], bytes]:
    """Write the columns of a fragment with the values of the rows that have the same keys.

    Args:
        view: a version of the table.
        fragment: one of its fragments.
        rows: the new values; rows of the fragment without a counterpart keep their values.
        left_on: the column of the fragment to join on, which may be ``_rowid`` or ``_rowaddr``.

    Returns:
        The fragment with the new file; the ids of the fields in that file; and the positions of the rows that have a
        counterpart, as a portable Roaring bitmap.

    Raises:
        SchemaMismatchError: the table does not have the key or one of the columns, or a type differs.
        InvalidInputError: a column is a system column, or a new value is null although the column must not contain any.
        NotSupportedError: the table has format 0.1, or one of the columns contains blobs.
        StorageError: a storage operation failed.
    """
    require_writable(view.manifest.message)
    prepared = PreparedInput(rows.schema, table=view.schema)
    columns = _columns(view, prepared.schema)
    rows.check_keys(left_on, key_type(view, left_on))
    found, matched = _find(view, fragment, rows, left_on)

    def live_batches() -> Iterator[pa.RecordBatch]:
        reader = FragmentReader(fragment, view.locator, session=view.session)
        position = 0
        for batch in reader.batches(columns, 0, reader.num_live_rows, ReadConfig()):
            here = found[position : position + batch.num_rows]
            position += batch.num_rows
            at = np.flatnonzero(here != NO_ROW)
            yield with_new_rows(batch, at, prepared.batch(rows.take(here[at]))) if len(at) else batch

    batches = with_deleted_rows(view, fragment, live_batches(), schema_to_arrow(columns))
    with new_files() as files:
        changed = files.fragment(view, fragment, columns, view.schema, batches)
    field_ids = [field.id for field in stored_fields(columns.fields, view.manifest.file_version)]
    return changed, field_ids, BitMap(matched).serialize()


def _columns(view: TableView, given: pa.Schema) -> Schema:
    """Return the fields of the columns, in the given order."""
    reserved = set(with_row_columns(Schema(fields=())).names)
    fields = []
    for name, dtype in zip(given.names, given.types, strict=True):
        if name in reserved:
            raise InvalidInputError(f"column {name!r} is a system column and cannot be updated", column=name)
        field = next((top for top in view.schema.fields if top.name == name), None)
        if field is None:
            raise SchemaMismatchError(
                f"the table has no column {name!r} to update; its columns are {view.schema.names}", column=name
            )
        if any(node.is_blob for node in field.walk()):
            raise NotSupportedError(f"column {name!r} contains blobs and cannot be updated", column=name)
        if not same_type(arrow_type(field), dtype):
            raise SchemaMismatchError(
                f"column {name!r}: expected type {arrow_type(field)}, found {dtype}",
                column=name,
                expected=str(arrow_type(field)),
                found=str(dtype),
            )
        fields.append(field)
    return Schema(fields=tuple(fields))


def _find(
    view: TableView, fragment: Fragment, rows: JoinedRows, left_on: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
    """Return the number of the counterpart of each live row, and the positions of the rows that have a counterpart."""
    found, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
    scanner = LanceScanner(view.source_of(fragment), columns=[left_on], with_row_address=True)
    for batch in scanner.to_batches():
        found.append(rows.find(batch.column(batch.schema.get_field_index(left_on))))
        addresses = batch.column(ROW_ADDRESS_NAME).to_numpy()
        positions.append(addresses[found[-1] != NO_ROW].astype(np.uint32))
    return np.concatenate(found), np.concatenate(positions)
