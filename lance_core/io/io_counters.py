"""Counts the requests that a store performs, and their bytes.

Every store has counters. The handles of one session share the counters of a store. Requests to the base paths of a
table are added to the counters of the table's store. There are also counters for the whole process.

Source: ``lance.dataset.IOStats``, ``lance.iops_counter`` and ``lance.bytes_read_counter`` of pylance 14.0.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

from lance_core.buffers.fork_lock import fork_lock

if TYPE_CHECKING:
    from lance_core.io.object_store import ObjectStore

__all__ = ["IOCounters", "IOStats", "bytes_read_counter", "counters_of", "iops_counter", "share_counters"]

_lock: Final = fork_lock()
"""Lock shared by all counters. Acquiring it takes a tenth of a microsecond, much less than any request."""


@dataclass(frozen=True, slots=True)
class IOStats:
    """Numbers of requests and bytes.

    Attributes:
        read_iops: number of requests that read data.
        read_bytes: number of bytes that they requested. Scattered rows of a local file are requested as one range
            of a memory mapping, which includes the bytes between the rows; most of these bytes are never loaded.
        write_iops: number of requests that wrote data.
        written_bytes: number of bytes that they wrote.
    """

    read_iops: int = 0
    read_bytes: int = 0
    write_iops: int = 0
    written_bytes: int = 0

    def __repr__(self) -> str:
        """Return the same representation as pylance, which calls the last number ``write_bytes``."""
        return (
            f"IOStats(read_iops={self.read_iops}, read_bytes={self.read_bytes}, write_iops={self.write_iops}, "
            f"write_bytes={self.written_bytes})"
        )

    def since(self, earlier: IOStats) -> IOStats:
        """Return the difference from earlier numbers of the same counters."""
        return IOStats(
            self.read_iops - earlier.read_iops,
            self.read_bytes - earlier.read_bytes,
            self.write_iops - earlier.write_iops,
            self.written_bytes - earlier.written_bytes,
        )


class IOCounters:
    """Counters of one store, or of several. Safe for concurrent use by several threads."""

    __slots__ = ("_read_bytes", "_read_iops", "_taken", "_write_iops", "_written_bytes")

    def __init__(self) -> None:
        """Start at zero."""
        self._read_iops = self._read_bytes = self._write_iops = self._written_bytes = 0
        self._taken = IOStats()

    def add_read(self, num_requests: int, num_bytes: int) -> None:
        """Count requests that read data."""
        with _lock:
            self._read_iops += num_requests
            self._read_bytes += num_bytes
            if self is not _process:
                _process.add_read(num_requests, num_bytes)

    def add_write(self, num_requests: int, num_bytes: int) -> None:
        """Count requests that wrote data."""
        with _lock:
            self._write_iops += num_requests
            self._written_bytes += num_bytes

    def total(self) -> IOStats:
        """Return everything counted since the start; :meth:`take` does not reset it."""
        with _lock:
            return IOStats(self._read_iops, self._read_bytes, self._write_iops, self._written_bytes)

    def snapshot(self) -> IOStats:
        """Return what was counted since the last call to :meth:`take`."""
        return self.total().since(self._taken)

    def take(self) -> IOStats:
        """Return what was counted since the last call to this method."""
        with _lock:
            total, before = self.total(), self._taken
            self._taken = total
            return total.since(before)


_process: Final = IOCounters()


class _Counting(Protocol):
    """A store with counters."""

    counters: IOCounters


def iops_counter() -> int:
    """Return how many requests this process has sent to read data from any store."""
    return _process.total().read_iops


def bytes_read_counter() -> int:
    """Return how many bytes this process has requested from any store."""
    return _process.total().read_bytes


def counters_of(store: ObjectStore) -> IOCounters:
    """Return the counters of a store; if the store has none, counters that stay at zero."""
    counters: IOCounters = getattr(store, "counters", None) or IOCounters()
    return counters


def share_counters(store: ObjectStore, counters: IOCounters) -> None:
    """Let a store add to the given counters instead of its own.

    A store that is only equal to itself, such as one in memory, keeps its own counters, because other sessions may use
    it too.
    """
    own: IOCounters | None = getattr(store, "counters", None)
    if own is None or own is counters or getattr(store, "identity", None) is None:
        return
    before = own.total()
    with _lock:
        counters._read_iops += before.read_iops
        counters._read_bytes += before.read_bytes
        counters._write_iops += before.write_iops
        counters._written_bytes += before.written_bytes
    cast("_Counting", store).counters = counters
