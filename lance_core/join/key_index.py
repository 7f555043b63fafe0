"""KeyIndex: finds the rows of a source that have the same keys as some rows of a table.

The hashes of the source rows are sorted. Their leading bits select a range of them, so that finding a row takes the
same time for any number of source rows. Most keys of the table that are not in the source are excluded beforehand,
because a longer sequence of their leading bits occurs in no hash of the source::

    hash of a table row -> leading bits -> range of sorted hashes -> equal hashes -> equal keys
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_core.join.keys import complete_keys, equal_keys, hash_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

__all__ = ["KeyIndex"]

_MOST_PAIRS: Final = 1 << 22
"""Maximum number of pairs of rows to compare at a time, if several rows of the source have the same key."""

_HASH_BITS: Final = 64
_FILTER_BITS: Final = 3
"""The check that excludes most keys without a match uses this many more leading bits of a hash than the lookup."""

_STEP_ITEMS: Final = 1 << 16
"""Number of hashes that are computed at a time."""

_MAX_INT32: Final = (1 << 31) - 1


class KeyIndex:
    """The keys of consecutive rows of a source.

    Args:
        columns: the key columns.
        first_row: the number of the first row.
        only_last: whether to keep only the last of several rows with the same key. A few others may be kept; they are
            found before the last one.
    """

    def __init__(self, columns: Sequence[pa.Array], first_row: int = 0, *, only_last: bool = False) -> None:
        """Sort the hashes."""
        self._columns = columns
        self._first_row = first_row
        self._hashes, self._rows = _sorted_hashes(columns)
        if only_last:
            self._drop_repeated()
        num_bits = max(1, len(self._rows).bit_length())
        self._shift = np.uint64(_HASH_BITS - num_bits)
        self._starts = np.full((1 << num_bits) + 1, len(self._rows), self._rows.dtype)
        for low, high in _steps(1 << num_bits):
            self._starts[low:high] = np.searchsorted(self._hashes, np.arange(low, high, dtype=np.uint64) << self._shift)
        self._filter_shift = self._shift - np.uint64(_FILTER_BITS)
        self._is_present = np.zeros(1 << (num_bits + _FILTER_BITS), np.bool_)
        for low, high in _steps(len(self._rows)):
            self._is_present[self._hashes[low:high] >> self._filter_shift] = True

    def find(self, columns: Sequence[pa.Array]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield pairs of equal keys: numbers of source rows, and ascending indices of the given rows.

        Args:
            columns: key columns of rows of the table, with the same types as those of the source.
        """
        hashes = hash_keys(columns)
        may_match = self._is_present[(hashes >> self._filter_shift).view(np.int64)]
        probes = np.flatnonzero(may_match & complete_keys(columns))
        buckets = (hashes[probes] >> self._shift).view(np.int64)
        starts = self._starts[buckets]
        counts = self._starts[buckets + 1] - starts
        totals = np.cumsum(counts)
        low = 0
        while low < len(probes):
            before = int(totals[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(totals, before + _MOST_PAIRS, side="right")))
            yield self._equal(columns, hashes, probes[low:high], starts[low:high], counts[low:high])
            low = high

    def _drop_repeated(self) -> None:
        """Drop each row that is followed, in the order of the hashes, by a row with the same key."""
        same = np.flatnonzero(self._hashes[1:] == self._hashes[:-1])
        rows, following = pa.array(self._rows[same]), pa.array(self._rows[same + 1])
        equal = equal_keys(
            [each.take(rows) for each in self._columns], [each.take(following) for each in self._columns]
        )
        kept = np.ones(len(self._rows), np.bool_)
        kept[same[equal]] = False
        self._hashes, self._rows = self._hashes[kept], self._rows[kept]

    def _equal(
        self,
        columns: Sequence[pa.Array],
        hashes: npt.NDArray[np.uint64],
        probes: npt.NDArray[np.int64],
        starts: npt.NDArray[np.signedinteger],
        counts: npt.NDArray[np.signedinteger],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the pairs of equal keys among the candidates: for each probe, a range of sorted hashes."""
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        candidates = np.repeat(starts, counts) + within
        probes = np.repeat(probes, counts)
        same = self._hashes[candidates] == hashes[probes]
        rows, probes = self._rows[candidates[same]], probes[same]
        ours, theirs = pa.array(rows), pa.array(probes)
        equal = equal_keys([each.take(ours) for each in self._columns], [each.take(theirs) for each in columns])
        return rows[equal].astype(np.int64) + self._first_row, probes[equal]


def _sorted_hashes(columns: Sequence[pa.Array]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.signedinteger]]:
    """Return the sorted hashes of the complete keys, and the row of each."""
    num_rows = len(columns[0])
    kind: type[np.int32 | np.int64] = np.int32 if num_rows <= _MAX_INT32 else np.int64
    hashes = np.empty(num_rows, np.uint64)
    for low, high in _steps(num_rows):
        hashes[low:high] = hash_keys([column.slice(low, high - low) for column in columns])
    is_complete = complete_keys(columns)
    if is_complete.all():
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order.astype(kind)
    rows: npt.NDArray[np.signedinteger] = np.flatnonzero(is_complete).astype(kind)
    hashes = hashes[rows]
    order = np.argsort(hashes, kind="stable")
    return hashes[order], rows[order]


def _steps(num_items: int) -> Iterator[tuple[int, int]]:
    """Yield ranges that together cover the items, each small enough to limit the memory of intermediate results."""
    for low in range(0, num_items, _STEP_ITEMS):
        yield low, min(low + _STEP_ITEMS, num_items)
