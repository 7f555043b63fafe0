"""FetchedBytes: the bytes of an open file, some of which are being fetched or are already in memory.

Ranges that are near each other become one range before the requests are planned: the buffers of neighboring pages and
columns usually lie next to each other, so that a small file has one range instead of one for each buffer.

Source: specific to this library.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lance_core.io.byte_range import coalesce_ranges
from lance_core.io.read_costs import MEMORY_COSTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from lance_core.file.file_bytes import Part, Read, ReadableBytes
    from lance_core.io.byte_range import ByteRange
    from lance_core.io.read_costs import ReadCosts

__all__ = ["FetchedBytes"]

_PADDING_BYTES: Final = 4096
"""Maximum number of bytes between two ranges that are merged. Writers add padding between the buffers of a file."""


class FetchedBytes:
    """Reads ranges that are being fetched, and waits for them; any other ranges are read from the file.

    The object has the same interface as the file. Once its requests have ended, reading the fetched ranges makes no
    requests.

    Args:
        file: the file, or the group of files.
        ranges: the ranges to fetch; the requests for them are sent immediately.
    """

    is_mapped: Final = False
    is_whole: Final = True
    """True: reading makes no requests."""

    is_many_files: Final = False
    num_bytes_held: Final = 0
    """0: the fetched bytes do not belong to the cached information about the file."""

    read_costs: ReadCosts = MEMORY_COSTS

    def __init__(self, file: ReadableBytes, ranges: Sequence[ByteRange]) -> None:
        """Begin to fetch the ranges."""
        self._file = file
        self._process = os.getpid()
        self._futures: list[Future[list[pa.Buffer]]] = []
        places: list[tuple[ByteRange, Future[list[pa.Buffer]], int]] = []
        for part in file.parts(_extents(file, ranges)):
            future = part.begin()
            self._futures.append(future)
            places += [(extent, future, place) for place, extent in enumerate(part.ranges)]
        self._places = sorted(places, key=lambda each: each[0].start)
        self._starts = [extent.start for extent, _, _ in self._places]

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the file."""
        return self._file.num_bytes

    @property
    def is_done(self) -> bool:
        """Whether all requests have ended."""
        return all(future.done() for future in self._futures)

    def ended(self) -> list[Future[list[pa.Buffer]]]:
        """Cancel the requests that have not been sent, and return the others; return none in a forked process."""
        return [future for future in self._futures if not future.cancel()] if self._process == os.getpid() else []

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return ranges of the file."""
        if self._process != os.getpid():
            return self._file.read(ranges)
        found: list[pa.Buffer] = []
        for wanted in ranges:
            buffer = self._find(wanted)
            if buffer is None:
                return self._file.read(ranges)
            found.append(buffer)
        return found

    def parts(self, ranges: Sequence[ByteRange]) -> list[Part]:
        """Divide ranges into parts, as the file does."""
        return self._file.parts(ranges)

    def scattered(self) -> Read:
        """Return :meth:`read`."""
        return self.read

    def release(self, stop: int) -> bool:
        """Release nothing: the bytes are kept as long as this object exists."""
        del stop
        return False

    def _find(self, wanted: ByteRange) -> pa.Buffer | None:
        if wanted.start == wanted.stop:
            return pa.py_buffer(b"")
        index = bisect_right(self._starts, wanted.start) - 1
        if index < 0 or wanted.stop > self._places[index][0].stop:
            return None
        extent, future, place = self._places[index]
        buffer = future.result()[place]
        return buffer if wanted == extent else buffer.slice(wanted.start - extent.start, wanted.stop - wanted.start)


def _extents(file: ReadableBytes, ranges: Sequence[ByteRange]) -> list[ByteRange]:
    """Return ascending, disjoint ranges that cover the given ones; merged ranges have at most ``batch_bytes`` bytes."""
    reads = coalesce_ranges(
        [each for each in ranges if each.num_bytes],
        max_gap_bytes=_PADDING_BYTES,
        max_extent_bytes=file.read_costs.batch_bytes,
    )
    return [read.extent for read in reads]
