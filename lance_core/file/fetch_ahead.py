"""FetchAhead: requests the bytes of segments from an object store before they are decoded.

A decoding thread that waited for its own requests would keep few requests in flight: there are only as many such
threads as cores. The bytes of many segments, of all columns, are therefore requested together. Ranges that are near
each other in a file share a request, and a segment can be decoded as soon as the requests for its own ranges have
ended.

Only the ranges that are known before decoding, or can be guessed, are fetched. A decoder that needs other ranges
requests them itself.

Source: specific to this library.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from lance_core.file.fetched_bytes import FetchedBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

    from lance_core.file.field_source import FieldSource, Segment
    from lance_core.file.file_bytes import Read, ReadableBytes

__all__ = ["FetchAhead"]

_REFILLS: Final = 4
"""More bytes are requested when a quarter of the limit is free; smaller portions would need more requests."""


class FetchAhead:
    """Yields segments in the given order, each with a function that provides its bytes.

    Args:
        jobs: the segments in the order in which they are decoded, each with the index of its source.
        sources: the sources of the segments.
        file: the file, or the group of files.
        max_bytes: maximum number of encoded bytes that are being fetched or decoded; exceeded by at most two
            segments.
        num_decoding: returns the number of bytes of the segments that have been yielded but not yet consumed.
    """

    def __init__(
        self,
        jobs: Iterator[tuple[int, Segment]],
        sources: Sequence[FieldSource],
        file: ReadableBytes,
        *,
        max_bytes: int,
        num_decoding: Callable[[], int],
    ) -> None:
        """Initialize without fetching anything."""
        self._jobs = jobs
        self._sources = sources
        self._file = file
        self._max_bytes = max_bytes
        self._num_decoding = num_decoding
        self._ahead: deque[tuple[int, Segment, FetchedBytes]] = deque()
        self._ahead_bytes = 0
        self._fetches: list[FetchedBytes] = []

    def __iter__(self) -> Iterator[tuple[int, Segment, Read]]:
        """Yield the index of the source, the segment, and a ``Read`` that provides its bytes."""
        while True:
            free_bytes = self._max_bytes - self._ahead_bytes - self._num_decoding()
            if not self._ahead or free_bytes * _REFILLS >= self._max_bytes:
                self._fetch(free_bytes)
            if not self._ahead:
                return
            index, segment, fetch = self._ahead.popleft()
            self._ahead_bytes -= segment.num_bytes
            yield index, segment, fetch.read

    def stop(self) -> list[Future[list[pa.Buffer]]]:
        """Send no further requests, and return those that have been sent."""
        fetches, self._fetches = self._fetches, []
        self._ahead.clear()
        return [future for fetch in fetches for future in fetch.ended()]

    def _fetch(self, free_bytes: int) -> None:
        """Begin to fetch the next segments: at least one, if any are left."""
        batch = []
        num_bytes = 0
        for index, segment in self._jobs:
            batch.append((index, segment))
            num_bytes += segment.num_bytes
            if num_bytes >= free_bytes:
                break
        if batch:
            ranges = []
            for index, segment in batch:
                source = self._sources[index]
                ranges += [*source.first_ranges(segment), *source.guessed_ranges(segment)]
            fetch = FetchedBytes(self._file, ranges)
            self._fetches = [*(each for each in self._fetches if not each.is_done), fetch]
            self._ahead.extend((index, segment, fetch) for index, segment in batch)
            self._ahead_bytes += num_bytes
