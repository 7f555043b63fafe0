"""Decides how the matching rows of a filter are read: row by row, or in ranges that contain other rows too.

Reading a single row takes longer than reading a row as part of a range, but a range may contain many bytes that are not
needed. Which of the two costs less depends on the distances between the rows, on the size of a row, and on the store.
Rows that are far apart are therefore divided into clusters, and each cluster is read in the cheaper way.

Source: specific to this library. The times were measured with columns of all formats, on two shared cores.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_core.io.read_costs import ReadCosts

__all__ = ["Fetch", "RowCosts", "plan_fetches"]

_TAKEN_SECONDS: Final = 150e-9
_SCANNED_SECONDS: Final = 4e-9
"""Time in seconds to decode a value of one leaf column individually, and as part of a range."""

_RANGE_SECONDS: Final = 300e-6
"""Time in seconds to begin reading a range, excluding the request."""

_REQUEST_SECONDS: Final = 500e-6
_BYTE_SECONDS: Final = 1e-9
"""CPU time in seconds of a request to an object store, and of receiving and decoding a byte of a range from it."""

_MIN_RANGE_ROWS: Final = 1024
"""Fewer rows than this are read individually, not as a range: individual reads of all columns share their requests."""

_MIN_GAP_ROWS: Final = 8192
"""Minimum distance in rows between two clusters of matching rows."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Some of the matching rows, and how they are read.

    Attributes:
        start: index of the first row among the matching rows.
        stop: index of the row after the last.
        in_range: whether to read the whole range from the first of the rows to the last, and pick the rows from it.
    """

    start: int
    stop: int
    in_range: bool


@dataclass(frozen=True, slots=True)
class RowCosts:
    """The quantities that determine how long it takes to read rows of some columns.

    Attributes:
        num_leaves: number of leaf columns.
        row_bytes: average stored size of a row in bytes.
        of_store: the costs of the store.
    """

    num_leaves: int
    row_bytes: float
    of_store: ReadCosts

    @property
    def max_gap_rows(self) -> int:
        """Maximum number of unneeded rows to read instead of beginning another range."""
        of_range = _RANGE_SECONDS + self.of_store.request_seconds
        return max(_MIN_GAP_ROWS, int(of_range / self._scanned_seconds))

    def prefers_ranges(self, num_rows: npt.NDArray[np.int64], spans: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return whether it costs less to read ranges than to read some rows of each individually.

        Args:
            num_rows: number of rows that are needed from each range.
            spans: number of rows in each range.
        """
        taken = num_rows * self.num_leaves * _TAKEN_SECONDS
        taken = taken + self.taken_bytes(num_rows, spans) / self.of_store.bytes_per_second
        scanned = spans * self._scanned_seconds
        if self.of_store.is_remote:
            # Of rows at random positions, this part is farther from the next one than ranges that are joined.
            bytes_apart = spans * self.row_bytes / num_rows
            num_requests = num_rows * np.exp(-self.of_store.near_bytes / np.maximum(1.0, bytes_apart))
            taken = taken + num_requests * _REQUEST_SECONDS
            scanned = scanned + spans * self.row_bytes * _BYTE_SECONDS
        cheaper: npt.NDArray[np.bool_] = scanned <= taken
        return cheaper & (num_rows >= _MIN_RANGE_ROWS)

    def taken_bytes(
        self, num_rows: npt.NDArray[np.int64], spans: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.floating[Any]]:
        """Return the approximate number of bytes that are requested if rows are read individually.

        Args:
            num_rows: number of rows that are needed from each range.
            spans: number of rows in each range.
        """
        # Requests for rows that are near each other are joined.
        apart = num_rows * (self.row_bytes + self.num_leaves * self.of_store.near_bytes)
        found: npt.NDArray[np.floating[Any]] = np.minimum(apart, spans * self.row_bytes)
        return found

    @property
    def _scanned_seconds(self) -> float:
        leaves = max(1, self.num_leaves)
        return leaves * _SCANNED_SECONDS + self.row_bytes / self.of_store.bytes_per_second


def plan_fetches(rows: npt.NDArray[np.int64], costs: RowCosts) -> list[Fetch]:
    """Divide matching rows into parts, in order, each of which is read individually or in a range.

    Args:
        rows: row numbers in ascending order, without duplicates; at least one.
        costs: what determines the time to read them.
    """
    cuts = np.flatnonzero(np.diff(rows) > costs.max_gap_rows) + 1
    starts, stops = np.concatenate([[0], cuts]), np.concatenate([cuts, [len(rows)]])
    in_range = costs.prefers_ranges(stops - starts, rows[stops - 1] + 1 - rows[starts])
    clusters = zip(starts.tolist(), stops.tolist(), in_range.tolist(), range(len(starts)), strict=True)
    # Neighboring clusters whose rows are read individually are read together.
    parts = [list(part) for _, part in groupby(clusters, lambda each: (each[2], each[2] and each[3]))]
    return [Fetch(part[0][0], part[-1][1], part[0][2]) for part in parts]
