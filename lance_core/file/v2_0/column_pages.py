"""ColumnPages: holds the pages of one column, and finds the pages that contain given rows.

Pages of length 0 are skipped wherever they occur.

Source: ``lance.file.v2.ColumnMetadata``; behavior of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_core.encodings.v2_0.api import PageBuffers, together
from lance_core.encodings.v2_0.spans import MAX_POSITION, Spans
from lance_core.errors import CorruptDataError, LanceError, NotSupportedError
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lance_core.encodings.v2_0.api import Steps
    from lance_core.file.column_metadata import ColumnMetadata, Page

__all__ = ["ColumnPages", "joined"]

T = TypeVar("T")

_DecodePage: TypeAlias = "Callable[[Page, Spans, PageBuffers], Steps[T]]"


class ColumnPages:
    """The pages of one column, except those without rows.

    Args:
        metadata: metadata of the column.
        where: file and column, for messages.

    Attributes:
        pages: the pages, in row order.
        edges: first row of each page, followed by the number of rows; shape (num_pages + 1,), int64.
    """

    __slots__ = ("_buffers", "edges", "pages", "where")

    def __init__(self, metadata: ColumnMetadata, where: str) -> None:
        """See the class docstring."""
        self.where = where
        self.pages = tuple(page for page in metadata.pages if page.length)
        if sum(page.length for page in self.pages) >= MAX_POSITION:
            raise CorruptDataError(
                f"{where}: the pages have {counted(sum(page.length for page in self.pages), 'row')}, which is "
                "too many for a file"
            )
        self.edges: NDArray[np.int64] = np.zeros(len(self.pages) + 1, np.int64)
        np.cumsum([page.length for page in self.pages], out=self.edges[1:])
        column = [(buffer.start, buffer.num_bytes) for buffer in metadata.buffers]
        self._buffers = [
            PageBuffers([(buffer.start, buffer.num_bytes) for buffer in page.buffers], column) for page in self.pages
        ]

    @property
    def num_rows(self) -> int:
        """Number of rows in the column."""
        return int(self.edges[-1])

    @property
    def num_bytes(self) -> int:
        """Total encoded size of all pages in bytes."""
        return sum(page.num_bytes for page in self.pages)

    def check_rows(self, expected: int) -> None:
        """Check that the column has the expected number of rows.

        Raises:
            CorruptDataError: the numbers differ.
        """
        if self.num_rows != expected:
            raise CorruptDataError(
                f"{self.where}: the pages have {counted(self.num_rows, 'row')}; expected {expected}",
                expected=expected,
                found=self.num_rows,
            )

    def split(self, rows: Spans) -> list[tuple[int, Spans]]:
        """Return the index of each page that contains some of the rows, and the numbers of these rows in the page."""
        if rows.stop > self.num_rows:
            raise CorruptDataError(
                f"{self.where}: rows up to {rows.stop} were requested, but the column has "
                f"{counted(self.num_rows, 'row')}"
            )
        first, last = 0, len(self.pages)
        if last > 1:
            first = int(np.searchsorted(self.edges, rows.start, side="right")) - 1
            last = int(np.searchsorted(self.edges, rows.stop, side="left"))
        parts = []
        for index in range(max(first, 0), last):
            start, stop = int(self.edges[index]), int(self.edges[index + 1])
            inside = rows.clipped(start, stop)
            if inside is not None and inside.total:
                parts.append((index, inside))
        return parts

    def decode(self, rows: Spans, step: _DecodePage[T]) -> Steps[list[T]]:
        """Decode the rows of each page; the pages are fetched together, in the same rounds of reads."""
        parts = [self._page(index, inside, step) for index, inside in self.split(rows)]
        return (yield from together(parts))

    def bytes_of(self, rows: Spans) -> int:
        """Estimate the encoded size of some rows in bytes, in proportion to the size of their pages."""
        return sum(
            self.pages[index].num_bytes * inside.total // self.pages[index].length
            for index, inside in (self.split(rows) if rows.total else [])
        )

    def _page(self, index: int, rows: Spans, step: _DecodePage[T]) -> Steps[T]:
        try:
            return (yield from step(self.pages[index], rows, self._buffers[index]))
        except LanceError as error:
            raise type(error)(f"{self.where}, page {index}: {error.message}", **error.context) from error


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Join arrays into one.

    Raises:
        NotSupportedError: the data is too large for one Arrow array.
    """
    if len(arrays) == 1:
        return arrays[0]
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowInvalid as error:
        raise NotSupportedError(
            f"the values of several pages do not fit in one array of type {arrays[0].type}; read fewer rows at a "
            f"time: {error}"
        ) from error
