"""ArrayCache: collects batches of one column until there is enough data for a page.

Arrays are collected up to a size limit in bytes, then written as one page. A single array that is larger than the limit
is not joined with other arrays; it is split between rows into pages of at most ``max_page_bytes``. The size of a sliced
array includes only the slice, not the whole buffers that contain it.

Source: page sizes as written by pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_SMALL_ARRAYS", "ArrayCache", "joined"]

_MAX_PAGE_ROWS: Final = 4 * 1024 * 1024
"""Maximum number of rows per page; limits the number of repetition and definition levels in pages whose values take few
or no bytes."""

MAX_SMALL_ARRAYS: Final = 1024
"""When this many small arrays have been collected, they are joined into one, even if the page is not full.

This saves memory, because an array object takes more memory than a few rows.
"""


class ArrayCache:
    """Collects the arrays of one column until there is enough data for a page.

    Args:
        limit: number of bytes to collect before a page is written.
        max_page_bytes: maximum size of a page's values in memory, unless a single row is larger.

    Attributes:
        num_bytes: number of bytes collected.
        num_rows: number of rows collected.
    """

    __slots__ = ("_arrays", "_limit", "_max_page_bytes", "_next_row", "_num_small", "num_bytes", "num_rows")

    def __init__(self, limit: int, max_page_bytes: int) -> None:
        """See the class docstring."""
        self.num_bytes = 0
        self.num_rows = 0
        self._limit = limit
        self._max_page_bytes = max_page_bytes
        self._arrays: list[pa.Array] = []
        self._num_small = 0
        self._next_row = 0

    def add(self, array: pa.Array) -> Iterator[tuple[int, pa.Array]]:
        """Add an array; yield (number of the page's first row, array) for every page that is ready."""
        array_bytes = array.nbytes
        if array_bytes >= self._limit:
            yield from self.drain()
        self._arrays.append(array)
        self.num_bytes += array_bytes
        self.num_rows += len(array)
        if self.num_bytes >= self._limit or self.num_rows >= _MAX_PAGE_ROWS:
            yield from self.drain()
            return
        self._num_small += 1
        if self._num_small == MAX_SMALL_ARRAYS:
            self._arrays[-MAX_SMALL_ARRAYS:] = joined(self._arrays[-MAX_SMALL_ARRAYS:])
            self._num_small = 0

    def drain(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield (number of the page's first row, array) for every page of the collected data, and clear the cache."""
        arrays, self._arrays = self._arrays, []
        self.num_bytes = self.num_rows = self._num_small = 0
        for whole in joined(arrays):
            for part in _cut(whole, self._max_page_bytes):
                yield self._next_row, part
                self._next_row += len(part)


def joined(arrays: list[pa.Array]) -> list[pa.Array]:
    """Concatenate the arrays; return them unchanged if Arrow cannot join them."""
    if len(arrays) < 2:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # Dictionaries whose union has more values than the index type can address, or strings of more than 2 GiB.
        return arrays


def _cut(array: pa.Array, max_bytes: int) -> Iterator[pa.Array]:
    """Split on row boundaries so that every part holds at most ``max_bytes``, unless a single row is larger."""
    num_bytes = array.nbytes
    num_parts = max(-(-num_bytes // max_bytes), -(-len(array) // _MAX_PAGE_ROWS))
    if num_parts <= 1 or len(array) <= 1:
        yield array
        return
    step = -(-len(array) // num_parts)
    for start in range(0, len(array), step):
        # Rows differ in size, so a part may still be too large.
        yield from _cut(array.slice(start, step), max_bytes)
