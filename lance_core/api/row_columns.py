"""The columns that every row has without their being stored: its address, and its id.

The address of a row is ``fragment id << 32 | physical position``. In a table without stable row ids it is the id too.

Source: ``_rowaddr`` and ``_rowid`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["RowColumns"]

_FRAGMENT_SHIFT: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Which of these columns a scan returns, after its other columns.

    Attributes:
        with_id: ``_rowid``; equal to the address.
        with_address: ``_rowaddr``.
    """

    with_id: bool = False
    with_address: bool = False

    @property
    def names(self) -> list[str]:
        """The columns, in order."""
        return ["_rowid"] * self.with_id + ["_rowaddr"] * self.with_address

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """The schema with them."""
        for name in self.names:
            columns = columns.append(pa.field(name, pa.uint64()))
        return columns

    def append(self, batch: pa.RecordBatch, fragment_id: int, physical: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The batch with them.

        Args:
            batch: rows of one fragment.
            fragment_id: of which.
            physical: their positions in its data files, shape (num_rows,).
        """
        if not self.names:
            return batch
        addresses = pa.array((np.uint64(fragment_id) << _FRAGMENT_SHIFT) | physical.astype(np.uint64), pa.uint64())
        arrays = [*batch.columns, *(addresses for _ in self.names)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(batch.schema))
