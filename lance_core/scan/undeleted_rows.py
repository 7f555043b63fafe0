"""UndeletedReader: reads all rows of a fragment, including those that are marked as deleted.

Source: ``include_deleted_rows`` of pylance 14.0.2. The row id and the row address of a deleted row are null; all other
values are those that are stored. ``_rowoffset`` of a deleted row is that of the next row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_core.scan.fragment_reader import FragmentReader
from lance_core.scan.row_columns import ROW_ADDRESS_ID
from lance_core.scan.row_reader import positions_of
from lance_core.table.row_lineage import ROW_ID_ID

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from lance_core.schema.field import Field, Schema

__all__ = ["UndeletedReader"]


class UndeletedReader(FragmentReader):
    """Reads a fragment as if none of its rows were deleted; for the arguments, see :class:`FragmentReader`."""

    @property
    def has_deleted_rows(self) -> bool:
        """False: every row counts as live."""
        return False

    @property
    def num_live_rows(self) -> int:
        """Number of rows, all of which count as live."""
        return self.physical_rows

    def deleted_rows(self) -> npt.NDArray[np.uint32]:
        """Return no positions: every row counts as live."""
        return np.zeros(0, np.uint32)

    def group_key(self, fields: Iterable[Field]) -> None:
        """Return None: the fragment is read alone."""
        del fields

    def _lay_over(self, wanted: Schema, arrays: list[pa.Array], rows: range | npt.NDArray[np.int64]) -> list[pa.Array]:
        shown = super()._lay_over(wanted, arrays, rows)
        if not any(top.id in (ROW_ID_ID, ROW_ADDRESS_ID) for top in wanted.fields):
            return shown
        is_deleted = pa.array(np.isin(positions_of(rows), super().deleted_rows()))
        return [
            pc.if_else(is_deleted, pa.scalar(None, array.type), array)
            if top.id in (ROW_ID_ID, ROW_ADDRESS_ID)
            else array
            for top, array in zip(wanted.fields, shown, strict=True)
        ]
