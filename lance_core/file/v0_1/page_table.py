"""PageTable: locations of the pages of every field and batch.

**Source:** byte map in :mod:`lance_core.file.v0_1.layout`; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from lance_core.errors import CorruptDataError
from lance_core.file.v0_1.layout import ENTRY
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = ["PageTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """The entries of the page table, with one row per field id, starting at ``first_id``.

    Attributes:
        first_id: field id of the first row.
        positions: position of each page in the file, shape (num_ids, num_batches), int64.
        lengths: number of values in each page, not negative, shape (num_ids, num_batches), int64.
        own_ids: maps the table's field ids to the file's field ids, if they differ.
    """

    first_id: int
    positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    own_ids: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def num_bytes(num_ids: int, num_batches: int) -> int:
        """Return the size of a page table in bytes."""
        return num_ids * num_batches * 2 * ENTRY.itemsize

    @classmethod
    def parse(cls, data: pa.Buffer, *, first_id: int, num_ids: int, num_batches: int, file_bytes: int) -> Self:
        """Parse the bytes of a page table.

        Raises:
            CorruptDataError: an entry refers to a position outside the file.
        """
        entries = np.frombuffer(data, ENTRY).reshape(num_ids, num_batches, 2)
        # Copies, because views would keep the bytes of the file in memory.
        positions, lengths = entries[:, :, 0].copy(), entries[:, :, 1].copy()
        if entries.size and (int(entries.min()) < 0 or int(positions.max()) > file_bytes):
            raise CorruptDataError(
                "an entry of the page table is negative or points past the end of the file "
                f"({counted(file_bytes, 'byte')})"
            )
        return cls(first_id=first_id, positions=positions, lengths=lengths)

    def pages(self, field_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions and lengths of the pages of a field, both with shape (num_batches,).

        Raises:
            CorruptDataError: the page table has no entries for the field.
        """
        row = self.own_ids.get(field_id, field_id) - self.first_id
        if not 0 <= row < len(self.positions):
            raise CorruptDataError(
                f"the page table has no entry for field id {field_id}; it has "
                f"{counted(len(self.positions), 'entry', 'entries')}, starting with field id {self.first_id}"
            )
        return self.positions[row], self.lengths[row]
