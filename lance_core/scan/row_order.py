"""RowOrder: the order of the rows of a scan that is sorted by columns of the table.

Only the columns to sort by are read for all rows, and kept in memory with the addresses of the rows. With a limit, only
the first rows are kept. The requested columns are then read in the sorted order, in pieces of limited size.

**Source:** ``order_by`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from lance_core.public.column_ordering import column_orderings
from lance_core.scan.row_columns import ROW_ADDRESS_NAME
from lance_core.schema.extension_types import storage_array
from lance_core.table.row_id_index import RowPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from lance_core.public.column_ordering import ColumnOrdering
    from lance_core.scan.take import PlacedRows
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment

__all__ = ["RowOrder", "read_in_order"]

_FIRST_ROWS: Final = 1024
"""Number of rows in the first piece, from which the size of a row is estimated."""

_PIECE_BYTES: Final = 64 * 1024 * 1024
"""Approximate size in bytes of the pieces that are read in the sorted order."""

_HELD_ROWS: Final = 2**20
"""Number of rows that are collected before those beyond the limit are dropped."""


class KeyScan(Protocol):
    """A scan of the columns to sort by."""

    @property
    def projected_schema(self) -> pa.Schema:
        """The schema of the batches."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows."""


class RowOrder:
    """Finds the order of the rows of a scan.

    Args:
        orderings: the columns to sort by.
        scan: a scan of these columns and of the addresses, without a limit.
    """

    def __init__(self, orderings: Sequence[ColumnOrdering], scan: KeyScan) -> None:
        """See :meth:`plan`."""
        self._orderings = orderings
        self._scan = scan

    @classmethod
    def plan(cls, schema: Schema, order_by: object, scan_of: Callable[[list[str]], KeyScan]) -> RowOrder | None:
        """Check the argument of a scan; return None if it is empty.

        Args:
            schema: schema of the table.
            order_by: the argument.
            scan_of: plans a scan of some columns of the rows to sort.

        Raises:
            InvalidInputError: a column does not exist, or is a system column, for which sorting is not supported.
            InvalidTypeError: the argument is not a list of orderings.
        """
        orderings = column_orderings(order_by)
        if not orderings:
            return None
        names = list(dict.fromkeys(each.column_name for each in orderings))
        schema.project(names)
        return cls(orderings, scan_of([*names, ROW_ADDRESS_NAME]))

    def addresses(self, start: int, stop: int | None) -> npt.NDArray[np.uint64]:
        """Return the addresses of the rows ``[start, stop)`` in the sorted order; a stop of None means all rows."""
        # DataFusion is a large package, so it is loaded only when it is needed.
        from lance_core.predicate.sorting import sorted_rows

        schema = pa.schema([(str(index), dtype) for index, dtype in enumerate(self._key_types())])
        held = schema.append(pa.field(ROW_ADDRESS_NAME, pa.uint64())).empty_table()
        for batch in self._scan.to_batches():
            columns = [storage_array(batch.column(each.column_name)) for each in self._orderings]
            found = pa.Table.from_arrays([*columns, batch.column(ROW_ADDRESS_NAME)], names=held.schema.names)
            held = pa.concat_tables([held, found])
            if stop is not None and held.num_rows >= stop + _HELD_ROWS:
                held = sorted_rows(held, self._orderings, 0, stop)
        found = sorted_rows(held, self._orderings, start, stop)
        return np.asarray(found.column(ROW_ADDRESS_NAME).to_numpy(), np.uint64)

    def _key_types(self) -> Iterator[pa.DataType]:
        shown = self._scan.projected_schema
        for each in self._orderings:
            yield storage_array(pa.array([], shown.field(each.column_name).type)).type


def read_in_order(
    rows: PlacedRows, addresses: npt.NDArray[np.uint64], fragments: Sequence[Fragment], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows in the order of their addresses.

    Args:
        rows: reads the columns.
        addresses: the addresses of the rows, none of which is deleted.
        fragments: the fragments to which the addresses refer.
        batch_rows: maximum number of rows in a batch.
    """
    indices = {fragment.id: index for index, fragment in enumerate(fragments)}
    start, num_rows = 0, _FIRST_ROWS
    while start < len(addresses):
        piece = addresses[start : start + num_rows]
        owners = np.array([indices[id_] for id_ in (piece >> np.uint64(32)).tolist()], np.int64)
        table = rows.table(RowPlaces(owners, (piece & np.uint64(2**32 - 1)).astype(np.int64)))
        yield from table.combine_chunks().to_batches(max_chunksize=batch_rows)
        start += len(piece)
        num_rows = max(1, _PIECE_BYTES * len(piece) // max(table.nbytes, 1))
