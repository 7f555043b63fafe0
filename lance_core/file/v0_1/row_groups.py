"""RowGroups: regroups batches of any size into batches of equal size.

**Source:** behavior of pylance 14.0.2, which regroups rows across batch boundaries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RowGroups"]

_RUN_BYTES: Final = 4 << 20
"""Groups are returned together up to this size: large enough to hide call overhead, small enough for CPU caches."""


class RowGroups:
    """Collects columns and returns groups of exactly ``group_rows`` rows, except for the last one.

    Args:
        group_rows: number of rows per group.
    """

    __slots__ = ("_group_rows", "_held", "num_bytes", "num_rows")

    def __init__(self, group_rows: int) -> None:
        """Create an empty collection."""
        self._group_rows = group_rows
        self._held: list[list[pa.Array]] = []
        self.num_rows = 0
        self.num_bytes = 0

    def add(self, columns: list[pa.Array], num_rows: int) -> Iterator[list[pa.Array]]:
        """Add rows; yield runs of complete groups, each a few MiB or a single group."""
        start = 0
        if self.num_rows:
            start = min(self._group_rows - self.num_rows, num_rows)
            self._hold([column.slice(0, start) for column in columns], start)
            if self.num_rows < self._group_rows:
                return
            yield self.rest()
        stop = num_rows - (num_rows - start) % self._group_rows
        groups_at_once = max(1, _RUN_BYTES * num_rows // (max(1, _num_bytes(columns)) * self._group_rows))
        rows_at_once = groups_at_once * self._group_rows
        for first in range(start, stop, rows_at_once):
            yield [column.slice(first, min(rows_at_once, stop - first)) for column in columns]
        if stop < num_rows:
            self._hold([column.slice(stop) for column in columns], num_rows - stop)

    def rest(self) -> list[pa.Array]:
        """Return the collected rows as one group, and clear the collection."""
        held, self._held = self._held, []
        self.num_rows = self.num_bytes = 0
        return [pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces) for pieces in zip(*held, strict=True)]

    def _hold(self, columns: list[pa.Array], num_rows: int) -> None:
        self._held.append(columns)
        self.num_rows += num_rows
        self.num_bytes += _num_bytes(columns)


def _num_bytes(columns: list[pa.Array]) -> int:
    return sum(column.nbytes for column in columns)
