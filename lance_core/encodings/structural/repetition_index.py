"""The repetition index of a mini-block page: the rows in each chunk.

::

    per chunk   u64 number of rows that end in the chunk
                u64 number of levels in the chunk that belong to a row that continues in the next chunk

A row that ends exactly at the end of a chunk, such as the last row of the page, is counted as ending in the chunk; the
second number is then 0. The sum of the first numbers of all chunks is the number of rows in the page.

Source: the last buffer of pages with ``MiniBlockLayout.repetition_index_depth`` > 0; checked against pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lance_core.encodings.kernels.level_runs import chunk_rows
from lance_core.errors import CorruptDataError
from lance_core.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RepetitionIndex", "build_repetition_index"]

_ENTRY_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RepetitionIndex:
    """A parsed repetition index.

    Attributes:
        rows_ended: (num_chunks,) int64: number of rows that end in each chunk or in an earlier one.
        continues: (num_chunks,) bool: whether a row continues in the next chunk.
    """

    rows_ended: NDArray[np.int64]
    continues: NDArray[np.bool_]

    @classmethod
    def parse(cls, data: NDArray[np.uint8], num_chunks: int, num_rows: int) -> RepetitionIndex:
        """Read the index buffer.

        Raises:
            CorruptDataError: the size is wrong, or the index does not match the rows of the page.
        """
        if len(data) != num_chunks * _ENTRY_BYTES:
            raise CorruptDataError(
                f"the repetition index has {counted(len(data), 'byte')}; expected {_ENTRY_BYTES} for each of "
                f"{counted(num_chunks, 'chunk')}"
            )
        entries = data.view("<u8").reshape(num_chunks, 2)
        if int(entries.max(initial=0)) > num_rows and int(entries[:, 0].max(initial=0)) > num_rows:
            raise CorruptDataError(f"the repetition index counts more rows than the page has ({num_rows})")
        rows_ended = np.cumsum(entries[:, 0].astype(np.int64))
        if int(rows_ended[-1]) != num_rows:
            raise CorruptDataError(
                f"the repetition index counts {counted(int(rows_ended[-1]), 'row')}, but the page has {num_rows}"
            )
        return cls(rows_ended, entries[:, 1] > 0)

    @property
    def rows_started(self) -> NDArray[np.int64]:
        """Number of rows that start in each chunk or in an earlier one, (num_chunks,)."""
        return self.rows_ended + self.continues

    def chunks_of_rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the chunk in which each row starts, and the chunk in which it ends."""
        first = np.searchsorted(self.rows_started, rows, side="right")
        return first, np.searchsorted(self.rows_ended, rows, side="right")

    def chunks_of(self, start: int, stop: int) -> tuple[int, int, int]:
        """Return the chunks that contain rows ``[start, stop)``; the range must not be empty.

        Returns:
            The first chunk, the chunk after the last one, and the first row that *starts* in the first chunk.
        """
        first = int(np.searchsorted(self.rows_ended, start, side="left"))
        if start and self.rows_ended[first] == start and not self.continues[first]:
            # The preceding row ends exactly at the end of the chunk.
            first += 1
        if start == 0:
            first = 0
        last = int(np.searchsorted(self.rows_ended, stop - 1, side="right"))
        first_row = int(self.rows_ended[first - 1]) + int(self.continues[first - 1]) if first else 0
        return first, last + 1, first_row


def build_repetition_index(
    repetition: NDArray[np.uint16], max_repetition: int, level_bounds: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Build the index buffer of a page.

    Args:
        repetition: (num_levels,) levels of the page.
        max_repetition: the level that starts a row.
        level_bounds: (num_chunks + 1,) index of the first level of each chunk, followed by num_levels.
    """
    return chunk_rows(repetition, max_repetition, level_bounds).astype("<u8", copy=False).reshape(-1).view(np.uint8)
