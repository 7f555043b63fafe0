"""ArrayQueue: collects arrays of a column until a page is full.

A page is written when the collected arrays exceed a limit. If the page would consist of a single array, the array is
split into pages with about the same number of rows, each of at most about ``max_page_bytes``. An array that is larger
than the limit is not joined with other arrays, because joining would copy it.

Source: page sizes as written by pylance 14.0.2; page boundaries are not part of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.file.array_cache import MAX_SMALL_ARRAYS, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["ArrayQueue"]


class ArrayQueue:
    """Collects the arrays of one column until a page is full.

    Args:
        limit: number of collected bytes above which a page is written.
        max_page_bytes: approximate maximum size, in bytes, of a page that consists of one array; larger arrays are
            split.

    Attributes:
        num_bytes: number of bytes collected.
    """

    __slots__ = ("_arrays", "_limit", "_max_page_bytes", "_num_small", "num_bytes")

    def __init__(self, limit: int, max_page_bytes: int) -> None:
        """See the class docstring."""
        self.num_bytes = 0
        self._limit = limit
        self._max_page_bytes = max_page_bytes
        self._arrays: list[pa.Array] = []
        self._num_small = 0

    def add(self, array: pa.Array) -> Iterator[pa.Array]:
        """Add an array; yield one array for every page that is ready."""
        array_bytes = array.nbytes
        if array_bytes > self._limit:
            yield from self.drain()
        self._arrays.append(array)
        self.num_bytes += array_bytes
        if self.num_bytes > self._limit:
            yield from self.drain()
            return
        self._num_small += 1
        if self._num_small == MAX_SMALL_ARRAYS:
            self._arrays[-MAX_SMALL_ARRAYS:] = joined(self._arrays[-MAX_SMALL_ARRAYS:])
            self._num_small = 0

    def drain(self) -> Iterator[pa.Array]:
        """Yield one array for every page of the collected data, and clear the queue."""
        arrays, self._arrays = self._arrays, []
        self.num_bytes = self._num_small = 0
        is_single = len(arrays) == 1
        for whole in joined(arrays):
            num_parts = min(-(-whole.nbytes // self._max_page_bytes), len(whole)) if is_single else 1
            step = -(-len(whole) // num_parts) if num_parts > 1 else max(1, len(whole))
            for start in range(0, max(1, len(whole)), step):
                yield whole.slice(start, step) if num_parts > 1 else whole
