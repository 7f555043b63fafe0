"""Reads individual rows, by their position in the dataset or by their row id."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.errors import InvalidInputError, RowOutOfRangeError
from lance_core.file.row_numbers import row_ids as checked_row_ids
from lance_core.file.row_numbers import row_positions
from lance_core.scan.fragment_group import are_most, deleted_rows_of, joined_readers
from lance_core.scan.output_schema import OutputSchema
from lance_core.scan.projection import Projection
from lance_core.scan.row_columns import wants_offsets, with_row_columns
from lance_core.scan.scan_plan import live_to_physical
from lance_core.scan.shown_columns import BlobHandling, ShownColumns
from lance_core.table.row_id_index import RowPlaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_core.scan.fragment_reader import FragmentReader
    from lance_core.scan.row_id_lookup import RowIdLookup
    from lance_core.scan.scan_source import ScanSource
    from lance_core.schema.field import Schema

__all__ = ["PlacedRows", "find_rows_at", "placed_rows", "take_rows", "take_rows_by_id"]


def take_rows(
    source: ScanSource, indices: Sequence[int] | pa.Array, columns: Sequence[str] | dict[str, str] | None
) -> pa.Table:
    """Read individual rows, in the requested order; rows may repeat.

    Args:
        source: the fragments to read.
        indices: positions among the rows that are not deleted.
        columns: names or dotted paths, including system columns; None means all columns of the table. Struct members
            stay inside their structs. A dict maps names to SQL expressions.

    Raises:
        RowOutOfRangeError: a position is out of range.
        InvalidInputError: a column is unknown.
        InvalidTypeError: a position is not an integer, or ``columns`` is not a list of names.
    """
    taking = placed_rows(source, columns)
    return taking.table(find_rows_at(source, row_positions(indices)))


def take_rows_by_id(
    source: ScanSource,
    lookup: RowIdLookup,
    row_ids: Sequence[int] | pa.Array,
    columns: Sequence[str] | dict[str, str] | None,
    *,
    ignores_deletions: bool = False,
) -> pa.Table:
    """Read individual rows by id, in the requested order; ids may repeat, and ids without a row are skipped.

    Args:
        source: all fragments of the version.
        lookup: finds rows by their ids.
        row_ids: stable row ids, or addresses if the table has no stable row ids.
        columns: as for :func:`take_rows`.
        ignores_deletions: whether to also read deleted rows; has no effect if row ids are stable.

    Raises:
        RowOutOfRangeError: an address does not exist.
        InvalidInputError: a column is unknown.
        InvalidTypeError: an id is not an integer, or ``columns`` is not a list of names.
        CorruptDataError: two rows have the same id.
    """
    taking = placed_rows(source, columns)
    places = lookup.find(checked_row_ids(row_ids), ignores_deletions=ignores_deletions)
    found = places.is_found
    return taking.table(RowPlaces(places.owners[found], places.positions[found]))


def find_rows_at(source: ScanSource, wanted: npt.NDArray[np.int64]) -> RowPlaces:
    """Return the locations of rows, which are given by their positions among the rows that are not deleted.

    Raises:
        RowOutOfRangeError: a position is out of range.
    """
    stops = source.live_stops
    num_rows = source.num_live_rows
    outside = wanted[(wanted < 0) | (wanted >= num_rows)]
    if outside.size:
        raise RowOutOfRangeError(f"row {int(outside[0])} is out of range; number of rows: {num_rows}")
    owners = np.searchsorted(stops, wanted, side="right").astype(np.int64)
    positions = wanted - np.append(0, stops)[owners]
    touched = [owner for owner in np.unique(owners).tolist() if source.fragments[owner].has_deletion_file]
    readers = [source.reader(source.fragments[owner]) for owner in touched]
    for owner, deleted in zip(touched, deleted_rows_of(readers), strict=True):
        here = owners == owner
        positions[here] = live_to_physical(deleted, positions[here])
    return RowPlaces(owners, positions)


class PlacedRows:
    """Reads rows whose locations are known.

    Args:
        source: the fragments to read.
        stored: the whole schema, in the form in which fragments are read.
        columns: the columns to read.
        projection: selects the result columns from those that are read.
    """

    def __init__(self, source: ScanSource, stored: Schema, columns: ShownColumns, projection: Projection) -> None:
        """Initialize without reading anything."""
        self._source = source
        self._stored = stored
        self._columns = columns
        self._projection = projection

    def table(self, places: RowPlaces) -> pa.Table:
        """Return the rows in the given order; rows may repeat."""
        touched, members = np.unique(places.owners, return_inverse=True)
        takes_most = are_most(len(touched), len(self._source.fragments))
        if takes_most:
            touched, members = np.arange(len(self._source.fragments)), places.owners
        readers = self._readers(touched.tolist())
        # Rows are numbered across the fragments that contain any of them, as groups of fragments number them.
        first_rows = [0, *accumulate(reader.physical_rows for reader in readers)]
        rows = places.positions + np.array(first_rows, np.int64)[members]
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        batches = []
        start = 0
        fields = self._columns.stored.fields
        for reader in joined_readers(readers, fields, num_first=len(readers), takes_rows=True, is_lasting=takes_most):
            stop = start + reader.physical_rows
            low, high = np.searchsorted(ascending, [start, stop])
            if low < high:
                batch = reader.take_physical(self._columns.stored, ascending[low:high] - start, self._stored)
                batches.append(self._columns.apply(batch, reader))
            start = stop
        table = pa.Table.from_batches(batches, schema=OutputSchema(self._projection.wanted).schema)
        if not np.array_equal(order, np.arange(len(order))):
            table = table.take(pa.array(np.argsort(order)))
        return pa.Table.from_batches(map(self._projection.apply, table.to_batches()), schema=self._projection.schema)

    def _readers(self, owners: Sequence[int]) -> list[FragmentReader]:
        first_rows = self._source.first_rows() if wants_offsets(self._columns.stored.fields) else {}
        fragments = [self._source.fragments[owner] for owner in owners]
        return [self._source.reader(fragment, first_rows.get(fragment.id, 0)) for fragment in fragments]


def placed_rows(source: ScanSource, columns: Sequence[str] | dict[str, str] | None) -> PlacedRows:
    """Plan a take."""
    declared = source.schema if columns is None else with_row_columns(source.schema, nullable_offsets=False)
    as_text = not isinstance(columns, dict)
    whole = ShownColumns.plan(declared, BlobHandling.BLOBS_DESCRIPTIONS, json_as_text=as_text)
    projection = Projection.plan_nested(whole.shown, columns)
    if not projection.schema.names:
        raise InvalidInputError("invalid columns: a take requires at least one column, found none")
    return PlacedRows(source, whole.stored, whole.of(projection.wanted), projection)
