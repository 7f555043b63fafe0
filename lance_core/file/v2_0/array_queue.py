"""ArrayQueue: collects arrays of a column until a page is full.

A page is due when the collected arrays hold more than a limit. A page of a single array is cut into parts of equal
numbers of rows, each of about ``max_page_bytes``. An array that is larger than the limit is not copied together with
others.

Source: page sizes as pylance 14.0.2 cuts them; page borders are not part of the format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ArrayQueue"]

_MAX_SMALL_ARRAYS: Final = 1024
"""Batches of a few rows are joined early, as an array object costs more memory than they do."""


class ArrayQueue:
    """Collected arrays of one column.

    Args:
        limit: bytes beyond which a page is due.
        max_page_bytes: about the upper bound of a page that is made of one array; None = never cut.

    Attributes:
        num_bytes: bytes that are collected.
    """

    __slots__ = ("_arrays", "_limit", "_max_page_bytes", "_num_small", "num_bytes")

    def __init__(self, limit: int, max_page_bytes: int) -> None:
        """See the class."""
        self.num_bytes = 0
        self._limit = limit
        self._max_page_bytes = max_page_bytes
        self._arrays: list[pa.Array] = []
        self._num_small = 0

    def add(self, array: pa.Array) -> Iterator[pa.Array]:
        """Take an array; yield what becomes a page each."""
        array_bytes = array.nbytes
        if array_bytes > self._limit:
            yield from self.drain()
        self._arrays.append(array)
        self.num_bytes += array_bytes
        if self.num_bytes > self._limit:
            yield from self.drain()
            return
        self._num_small += 1
        if self._num_small == _MAX_SMALL_ARRAYS:
            self._arrays[-_MAX_SMALL_ARRAYS:] = _joined(self._arrays[-_MAX_SMALL_ARRAYS:])
            self._num_small = 0

    def drain(self) -> Iterator[pa.Array]:
        """Yield what becomes a page each; nothing is collected then."""
        arrays, self._arrays = self._arrays, []
        self.num_bytes = self._num_small = 0
        is_single = len(arrays) == 1
        for whole in _joined(arrays):
            num_parts = min(-(-whole.nbytes // self._max_page_bytes), len(whole)) if is_single else 1
            step = -(-len(whole) // num_parts) if num_parts > 1 else max(1, len(whole))
            for start in range(0, max(1, len(whole)), step):
                yield whole.slice(start, step) if num_parts > 1 else whole


def _joined(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return one array of all of them; the arrays themselves where Arrow cannot join them."""
    if len(arrays) < 2:
        return arrays
    try:
        return [pa.concat_arrays(arrays)]
    except pa.ArrowInvalid:
        # Dictionaries whose union has more values than the index type can number, or strings of more than 2 GiB.
        return arrays
