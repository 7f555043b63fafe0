"""Rows by their position in the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_core.api.fragment_reader import FragmentReader
from lance_core.api.projection import Projection
from lance_core.errors import InvalidInputError, InvalidTypeError, RowOutOfRangeError

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
    projection = Projection.plan_nested(source.schema, columns)
    wanted = _positions(indices)
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
        batches.append(projection.apply(readers[owner].take(projection.wanted, rows, source.schema)))
    if not projection.schema.names:
        raise InvalidInputError("take needs at least one column")
    table = pa.Table.from_batches(batches, schema=projection.schema)
    if np.array_equal(order, np.arange(len(order))):
        return table
    return table.take(pa.array(np.argsort(order)))


def _positions(indices: Sequence[int] | pa.Array) -> np.ndarray:
    try:
        plain = indices.to_numpy(zero_copy_only=False) if isinstance(indices, pa.Array) else np.asarray(indices)
        positions = plain.astype(np.int64, casting="same_kind") if plain.size else np.empty(0, np.int64)
    except TypeError as error:
        raise InvalidTypeError(f"row positions must be whole numbers: {error}") from error
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"row positions must be whole numbers: {error}") from error
    if positions.ndim != 1:
        raise InvalidInputError(f"row positions must be a flat list, found {positions.ndim} dimensions")
    return positions
