"""FragmentSession: reads rows of one fragment repeatedly; the read is planned only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.row_numbers import row_positions
from lance_core.scan.row_columns import columns_with_row_names
from lance_core.scan.take import find_rows_at, placed_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lance_core.scan.scan_source import ScanSource

__all__ = ["FragmentSession"]


class FragmentSession:
    """Reads rows of one fragment. Created by ``LanceFragment.open_session``.

    Args:
        source: the fragment.
        columns: names or dotted paths; None means all columns of the table. A dict maps names to SQL expressions.
        with_row_address: whether to append the column ``_rowaddr``.
    """

    def __init__(
        self,
        source: ScanSource,
        columns: Sequence[str] | dict[str, str] | None = None,
        with_row_address: bool | None = None,
    ) -> None:
        """Plan the columns; nothing is read."""
        wanted = columns_with_row_names(source.schema, columns, with_id=False, with_address=bool(with_row_address))
        self._source = source
        self._rows = placed_rows(source, wanted)

    def take(self, indices: Sequence[int] | pa.Array) -> pa.Table:
        """Return rows by position; positions count only the rows of the fragment that are not deleted.

        The rows are returned in the requested order, and positions may repeat. pylance accepts only ascending
        positions.

        Raises:
            RowOutOfRangeError: a position is out of range.
            InvalidTypeError: a position is not an integer.
        """
        return self._rows.table(find_rows_at(self._source, row_positions(indices)))
