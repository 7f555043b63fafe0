"""StagedSource: the rows of a merge's source in fragments that no version refers to, which other processes can read.

If the rows have all columns of the table, they are written as rows to append: those that are added to the table then
need not be written again. Otherwise, they are written like the rows of a new table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotSupportedError
from lance_core.file.session import UNCACHED
from lance_core.merge_insert.source import one_batch
from lance_core.scan.scan_source import ScanSource
from lance_core.scan.scanner import LanceScanner
from lance_core.scan.take import find_rows_at, placed_rows
from lance_core.schema.blob_fields import has_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from lance_core.scan.table_view import TableView
    from lance_core.schema.field import Schema
    from lance_core.table.fragment import Fragment

__all__ = ["StagedRows", "StagedSource"]

_BATCH_ROWS: Final = 1 << 16


@dataclass(frozen=True)
class StagedSource:
    """Fragments with the rows of a source; can be sent to other processes.

    Attributes:
        schema: the columns, with the field ids that the files contain.
        fragments: the fragments, each with id 0.
    """

    schema: Schema
    fragments: tuple[Fragment, ...]

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each fragment, followed by the total number of rows."""
        return list(accumulate((fragment.physical_rows for fragment in self.fragments), initial=0))

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.starts[-1]

    def part(self, index: int) -> StagedSource:
        """Return the source that consists of one fragment only; its rows are numbered from 0."""
        return StagedSource(self.schema, self.fragments[index : index + 1])

    def rows(self, view: TableView) -> StagedRows:
        """Return an object that reads the rows; ``view`` is any version of the table, which locates the files."""
        return StagedRows(self, view)


class StagedRows:
    """Reads the rows from the files, with the interface of :class:`~lance_core.merge_insert.source.RowSource`.

    Args:
        source: the fragments.
        view: a version of the table, which locates the files.

    Attributes:
        schema: the columns, as a scan returns them.
    """

    def __init__(self, source: StagedSource, view: TableView) -> None:
        """Initialize without reading anything."""
        # The fragments all have id 0, by which a session would know them.
        self._source = ScanSource(source.schema, source.fragments, view.locator, session=UNCACHED)
        self.schema: pa.Schema = self._scanner(None).projected_schema
        self._num_rows = source.num_rows

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._num_rows

    def batches(self, start: int = 0, columns: Sequence[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each batch with the number of its first row, beginning at row ``start``.

        Args:
            start: number of a row.
            columns: the columns to return; None for all.
        """
        for batch in self._scanner(columns, start).to_batches():
            yield start, batch
            start += batch.num_rows

    def take(self, rows: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return rows by their numbers, in the given order; rows may repeat.

        Args:
            rows: the numbers.
            columns: the columns to return; None for all.

        Raises:
            NotSupportedError: one of the columns contains blobs.
        """
        names = self.schema.names if columns is None else list(columns)
        blobs = [name for name in names if has_blobs(self._source.schema.project([name]))]
        if blobs:
            raise NotSupportedError(
                f"several processes cannot merge blob column {blobs[0]!r} if the source lacks columns of the table, or "
                "if a condition uses this column",
                column=blobs[0],
            )
        return one_batch(placed_rows(self._source, names).table(find_rows_at(self._source, rows)))

    def _scanner(self, columns: Sequence[str] | None, offset: int = 0) -> LanceScanner:
        return LanceScanner(
            self._source, columns=columns, offset=offset, batch_size=_BATCH_ROWS, blob_handling="all_binary"
        )
