"""Rows by their position in the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.api.fragment_reader import FragmentReader
from lance_core.api.projection import Projection
from lance_core.api.shown_columns import BlobHandling, ShownColumns
from lance_core.errors import InvalidInputError, RowOutOfRangeError
from lance_core.file.row_numbers import row_positions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_core.api.scanner import ScanSource

__all__ = ["take_rows"]


def take_rows(
    source: ScanSource, indices: Sequence[int] | pa.Array, columns: Sequence[str] | dict[str, str] | None
) -> pa.Table:
    """Single rows, in the order asked, repetition allowed.

    Args:
        source: what to read.
        indices: positions among the rows that are not deleted.
        columns: names or dotted paths, which keep their structs; None for every column.

    Raises:
        RowOutOfRangeError: a position outside the rows.
        InvalidInputError: an unknown column.
        InvalidTypeError: positions that are not whole numbers, or columns that are not names.
    """
    table = ShownColumns.plan(source.schema, BlobHandling.BLOBS_DESCRIPTIONS)
    projection = Projection.plan_nested(table.shown, columns)
    shown = table.of(projection.wanted)
    wanted = row_positions(indices)
    readers = [FragmentReader(fragment, source.locator) for fragment in source.fragments]
    stops = np.cumsum([reader.num_live_rows for reader in readers], dtype=np.int64)
    num_rows = int(stops[-1]) if len(stops) else 0
    outside = wanted[(wanted < 0) | (wanted >= num_rows)]
    if outside.size:
        raise RowOutOfRangeError(f"row {int(outside[0])} is not one of the {num_rows} rows")
    owners = np.searchsorted(stops, wanted, side="right")
    order = np.argsort(owners, kind="stable")
    batches = []
    for owner in np.unique(owners).tolist():
        start = int(stops[owner - 1]) if owner else 0
        rows = wanted[order[owners[order] == owner]] - start
        reader = readers[owner]
        batch = shown.apply(reader.take(shown.stored, rows, table.stored), reader)
        batches.append(projection.apply(batch))
    if not projection.schema.names:
        raise InvalidInputError("take needs at least one column")
    table = pa.Table.from_batches(batches, schema=projection.schema)
    if np.array_equal(order, np.arange(len(order))):
        return table
    return table.take(pa.array(np.argsort(order)))
