"""FileBytes: reads the bytes of an open data file, and keeps its end in memory.

The end of a file contains the metadata in all versions, and is read only once.

A read that depends on what it has read before is a generator: it yields the ranges that it needs next, receives their
bytes, and finally returns its result. Reads that run together share requests, so reading rows of many columns takes
only as many requests as reading the column with the most steps.

**Source:** the last 8 bytes of every version: ``u16 major, u16 minor, "LANC"``; the rest is specific to this library;
see ``docs/decisions/0009-reading-data-files.md``.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from lance_core.errors import CorruptDataError
from lance_core.file.layout import MAGIC, TAIL_BYTES
from lance_core.io.byte_range import ByteRange
from lance_core.io.io_counters import counters_of
from lance_core.io.object_store import shown_path
from lance_core.io.read_costs import MEMORY_COSTS
from lance_core.io.request_pool import begin
from lance_core.versions import LanceFileVersion
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Future

    from lance_core.io.object_store import ObjectStore
    from lance_core.io.read_costs import ReadCosts

__all__ = ["FileBytes", "Part", "Read", "ReadSteps", "ReadableBytes", "run_steps", "together"]

_MAPPED_BYTES: Final = 128 * 1024 * 1024
"""Files of at most this many bytes stay mapped while they are open; the accessed parts may remain in memory."""

T = TypeVar("T")

_TRAILER: Final = struct.Struct("<HH4s")

Read: TypeAlias = "Callable[[Sequence[ByteRange]], list[pa.Buffer]]"
"""A function that reads ranges of one file with as few requests as possible; called from several threads."""

ReadSteps: TypeAlias = "Generator[Sequence[ByteRange], Sequence[pa.Buffer], T]"
"""A generator that yields the ranges to read, receives their bytes, and returns a ``T``."""


class Part(NamedTuple):
    """Some of the requested ranges, and a function that starts to read them in this order."""

    ranges: Sequence[ByteRange]
    begin: Callable[[], Future[list[pa.Buffer]]]


class ReadableBytes(Protocol):
    """The bytes of an open file, or of several files that are read as one; see :class:`FileBytes`."""

    @property
    def num_bytes(self) -> int:
        """Number of bytes."""

    @property
    def is_mapped(self) -> bool:
        """Whether :meth:`scattered` maps the bytes into memory, so that only those that are accessed are loaded."""

    @property
    def is_whole(self) -> bool:
        """Whether all bytes are in memory, so that reading makes no requests."""

    @property
    def read_costs(self) -> ReadCosts:
        """Costs of reading bytes that are not in memory."""

    @property
    def is_many_files(self) -> bool:
        """Whether reading opens several files, so that one call for many ranges costs less than several calls."""

    @property
    def num_bytes_held(self) -> int:
        """Number of bytes that are in memory, excluding mapped memory."""

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the file."""

    def parts(self, ranges: Sequence[ByteRange]) -> list[Part]:
        """Divide ranges of the file into parts, each of which should be read with a request of its own."""

    def scattered(self) -> Read:
        """Return a function like :meth:`read`, but for small parts scattered over the file."""

    def release(self, stop: int) -> bool:
        """Release the bytes before position ``stop``; return whether any were in memory."""


class FileBytes:
    """An open file whose last bytes are in memory. Safe for concurrent use by several threads.

    Args:
        store: the store that contains the file.
        path: path of the file in the store.
        num_bytes: size of the file in bytes, as recorded in manifests; None if unknown.
        keeps_mapping: whether a mapping of the file, which occupies a file descriptor, is kept for later reads.

    Attributes:
        path: name of the file in messages.
        num_bytes: size of the file in bytes.

    Raises:
        NotFoundError: the file does not exist.
        CorruptDataError: the file is shorter than recorded.
    """

    is_many_files: Final = False
    """False: the bytes belong to one file."""

    def __init__(
        self, store: ObjectStore, path: str, num_bytes: int | None = None, *, keeps_mapping: bool = True
    ) -> None:
        """See the class docstring."""
        self.path = shown_path(store, path)
        self._store = store
        self._key = path
        self._keeps_mapping = keeps_mapping
        self._mapping: pa.Buffer | None = None
        if num_bytes is None:
            tail, num_bytes = store.get_tail(path, TAIL_BYTES)
        else:
            [tail] = store.get_ranges(path, [ByteRange(max(0, num_bytes - TAIL_BYTES), num_bytes)])
        self.num_bytes: int = num_bytes
        # Replaced as a whole, because other threads may read at the same time.
        self._tail: tuple[int, pa.Buffer] = (self.num_bytes - tail.size, tail)

    @property
    def start(self) -> int:
        """Position of the first byte in memory; everything from there to the end of the file is in memory."""
        return self._tail[0]

    @property
    def is_mapped(self) -> bool:
        """Whether :meth:`scattered` maps the file into memory, so that only the accessed bytes are loaded."""
        return self.num_bytes <= _MAPPED_BYTES and self._store.capabilities.maps_files

    @property
    def is_whole(self) -> bool:
        """Whether the whole file is in memory, so that reading makes no requests."""
        return self.start == 0

    @property
    def read_costs(self) -> ReadCosts:
        """Costs of reading from the store; no requests are sent to the store if the file is in memory."""
        return MEMORY_COSTS if self.is_whole else self._store.capabilities.read_costs

    @property
    def num_bytes_held(self) -> int:
        """Number of bytes of the file that are in memory, excluding mapped memory."""
        return self.num_bytes - self.start

    @property
    def version(self) -> LanceFileVersion:
        """The format version recorded in the last bytes of the file.

        Raises:
            CorruptDataError: the file is not a data file.
            UnsupportedVersionError: the version is newer than any known version.
        """
        if self.num_bytes < _TRAILER.size:
            raise self._corrupt(f"the file has {counted(self.num_bytes, 'byte')}, which is too few for a footer")
        major, minor, magic = _TRAILER.unpack(self._tail[1][-_TRAILER.size :])
        if magic != MAGIC:
            raise self._corrupt(f"the last 4 bytes are {magic!r}, expected {MAGIC!r}")
        return LanceFileVersion.from_pair(major, minor)

    def read(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read ranges of the file; only those that are not already in memory are requested from the store.

        Raises:
            CorruptDataError: a range extends past the end of the file.
        """
        self._check(ranges)
        start, tail = self._tail
        absent = [wanted for wanted in ranges if wanted.start < start]
        found = iter(self._store.get_ranges(self._key, absent) if absent else ())
        return [
            next(found) if wanted.start < start else tail.slice(wanted.start - start, wanted.stop - wanted.start)
            for wanted in ranges
        ]

    def begin(self, ranges: Sequence[ByteRange]) -> Future[list[pa.Buffer]]:
        """Start :meth:`read` without waiting for the store."""
        begin_ranges = getattr(self._store, "begin_ranges", None)
        if begin_ranges is None or any(wanted.stop > self.start for wanted in ranges):
            return begin(partial(self.read, ranges))
        started: Future[list[pa.Buffer]] = begin_ranges(self._key, ranges)
        return started

    def parts(self, ranges: Sequence[ByteRange]) -> list[Part]:
        """Divide ranges into groups of neighboring ranges, of about ``read_costs.batch_bytes`` bytes each."""
        max_bytes = self.read_costs.batch_bytes
        parts: list[list[ByteRange]] = []
        num_bytes = 0
        for wanted in sorted(ranges):
            if not parts or num_bytes + wanted.num_bytes > max_bytes:
                parts.append([])
                num_bytes = 0
            parts[-1].append(wanted)
            num_bytes += wanted.num_bytes
        return [Part(part, partial(self.begin, part)) for part in parts]

    def scattered(self) -> Read:
        """Return a function like :meth:`read`, but for small parts scattered over the file.

        If the store maps files, a small file is mapped only once for all calls of the function: the memory pages of a
        new mapping are loaded on first access, which costs more than reading the parts themselves.
        """
        if not self.is_mapped:
            return self.read
        mapping = self._store.map(self._key) if self._mapping is None else self._mapping
        if mapping.size != self.num_bytes:
            raise self._corrupt(
                f"the file has {counted(mapping.size, 'byte')}, but had {self.num_bytes} when it was opened"
            )
        if self._keeps_mapping:
            self._mapping = mapping

        counters = counters_of(self._store)

        def read(ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
            self._check(ranges)
            counters.add_read(len(ranges), sum([wanted.num_bytes for wanted in ranges]))
            return [mapping.slice(wanted.start, wanted.num_bytes) for wanted in ranges]

        return read

    def extend(self, start: int) -> None:
        """Load everything from position ``start`` to the end of the file into memory."""
        if start < self.start:
            [tail] = self._store.get_ranges(self._key, [ByteRange(start, self.num_bytes)])
            if not self._keeps_mapping and tail.size > TAIL_BYTES:
                # A store that maps files returns large ranges as views of a mapping.
                tail = pa.py_buffer(tail.to_pybytes())
            self._tail = (start, tail)

    def release(self, stop: int) -> bool:
        """Release the bytes before position ``stop``; return whether any were in memory."""
        start, tail = self._tail
        stop = min(stop, self.num_bytes)
        if start < stop:
            self._tail = (stop, pa.py_buffer(tail.slice(stop - start).to_pybytes()))
        return start < stop

    def _check(self, ranges: Sequence[ByteRange]) -> None:
        for wanted in ranges:
            if wanted.stop > self.num_bytes:
                raise self._corrupt(
                    f"bytes [{wanted.start}, {wanted.stop}) were requested, but the file has "
                    f"{counted(self.num_bytes, 'byte')}"
                )

    def _corrupt(self, reason: str) -> CorruptDataError:
        return CorruptDataError(f"{self.path}: {reason}", path=self.path, section="footer")


def run_steps(steps: ReadSteps[T], read: Read) -> T:
    """Run one read to completion."""
    try:
        ranges = next(steps)
        while True:
            ranges = steps.send(read(ranges) if ranges else ())
    except StopIteration as finished:
        result: T = finished.value
        return result


def together(readings: Sequence[ReadSteps[T]]) -> ReadSteps[list[T]]:
    """Combine several reads into one, which returns their results in the same order.

    Reads of offsets go first. The other reads wait, and share the request for the values that the offsets locate: if
    the offsets are cached, all values are read with one request.
    """
    if len(readings) == 1:
        return [(yield from readings[0])]
    results: list[Any] = [None] * len(readings)
    waiting: list[tuple[int, ReadSteps[T], Sequence[ByteRange]]] = []
    for index, steps in enumerate(readings):
        try:
            waiting.append((index, steps, next(steps)))
        except StopIteration as finished:
            results[index] = finished.value
    while waiting:
        first = [each for each in waiting if each[2] and each[2][0].holds_offsets] or waiting
        still = [each for each in waiting if each not in first] if len(first) < len(waiting) else []
        found = yield [extent for _, _, ranges in first for extent in ranges]
        at = 0
        for index, steps, ranges in first:
            part = found[at : at + len(ranges)]
            at += len(ranges)
            try:
                still.append((index, steps, steps.send(part)))
            except StopIteration as finished:
                results[index] = finished.value
        waiting = still
    return results
