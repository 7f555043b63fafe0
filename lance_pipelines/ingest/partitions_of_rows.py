"""Which partitions rows belong to: the inverse of ``partition_rows.py``.

Rows are assigned by their values in the columns that a declaration partitions by. The result contains only partitions
that have rows, so its size does not depend on the number of declared partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.errors import InvalidInputError, NotSupportedError
from lance_pipelines.ingest.partition_rows import column_slice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from lance_pipelines.ingest.partition_rows import PartitionColumn, PartitionValue

__all__ = ["find_partitions"]


def find_partitions(
    columns: Sequence[PartitionColumn],
    dimensions: Mapping[str | None, Sequence[PartitionValue]],
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
) -> set[tuple[str, ...]]:
    """Return the partitions that have at least one of the rows, each as one key per column, in column order.

    Rows that belong to no partition are ignored, and so are keys that are not values of their column.

    Args:
        columns: the columns that assign rows to partitions, one for each dimension.
        dimensions: the positions of all partitions in each dimension.
        rows: the rows, with these columns.
        schema: the schema of the rows.
    """
    axes = [_Axis(column, dimensions[column.dimension], schema) for column in columns]
    found: set[tuple[int, ...]] = set()
    for batch in rows:
        places = np.stack([axis.find(batch.column(axis.column)) for axis in axes], axis=1)
        places = places[(places >= 0).all(axis=1)]
        found.update(map(tuple, np.unique(places, axis=0).tolist()))
    return {tuple(axis.keys[place] for axis, place in zip(axes, each, strict=True)) for each in found}


class _Axis:
    """The partitions in one dimension.

    Attributes:
        column: name of the column.
        keys: the partition keys of this dimension; a row's value in ``column`` determines which of them the row belongs
            to.
    """

    def __init__(self, by: PartitionColumn, values: Sequence[PartitionValue], schema: pa.Schema) -> None:
        self.column = by.column
        self.keys: list[str] = []
        ranges: list[tuple[int, int, int]] = []
        singles: list[tuple[pa.Scalar, int]] = []
        for value in values:
            try:
                part = column_slice(by, {by.dimension: value}, schema)
            except (InvalidInputError, NotSupportedError):
                continue
            place = len(self.keys)
            self.keys.append(value.key)
            if isinstance(part, tuple):
                ranges.append((part[0].value, part[1].value, place))
            else:
                singles.append((part, place))
        ranges.sort()
        self._starts, self._stops, self._places = np.array(ranges, np.int64).reshape(-1, 3).T
        kind = schema.field(by.column).type
        self._singles = pa.array([single.as_py() for single, _ in singles], kind)
        self._single_places = np.array([place for _, place in singles], np.int64)

    def find(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """Return the position of each row's key; -1 for rows of no partition."""
        found = np.full(len(column), -1, np.int64)
        if len(self._starts):
            present = column.is_valid().to_numpy(zero_copy_only=False)
            moments = _whole_numbers(column)
            nearest = np.searchsorted(self._starts, moments, side="right") - 1
            inside = present & (nearest >= 0) & (moments < self._stops[nearest])
            found[inside] = self._places[nearest[inside]]
        if len(self._singles):
            matches = pc.index_in(column, self._singles).fill_null(-1).to_numpy(zero_copy_only=False)
            found[matches >= 0] = self._single_places[matches[matches >= 0]]
        return found


def _whole_numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the stored values of timestamps or dates; 0 for nulls."""
    kind = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    numbers: npt.NDArray[np.int64] = column.cast(kind).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
