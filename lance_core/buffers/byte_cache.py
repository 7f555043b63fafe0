"""A cache with a limit in bytes that evicts the least recently used entry first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from lance_core.buffers.fork_lock import fork_lock

__all__ = ["ByteCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_lock: Final = fork_lock()
"""One lock for all caches: it is held only briefly, and a fork waits for it, so that the caches are consistent."""


class ByteCache(Generic[K, V]):
    """Values, accessed by key. Safe for concurrent use by several threads.

    Args:
        max_bytes: limit of the total size of all values; a single larger value is not stored.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create an empty cache."""
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    @property
    def max_bytes(self) -> int:
        """Limit of the total size of all values."""
        return self._max_bytes

    @property
    def num_bytes(self) -> int:
        """Total size of all values."""
        return self._num_bytes

    def get(self, key: K) -> V | None:
        """Return a value and mark it as recently used; None if the key is not cached."""
        with _lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, num_bytes: int) -> None:
        """Store a value, and evict other values if the limit is exceeded. An existing key keeps its value."""
        with _lock:
            if num_bytes > self._max_bytes or key in self._entries:
                return
            self._entries[key] = (value, num_bytes)
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                _, (_, freed) = self._entries.popitem(last=False)
                self._num_bytes -= freed
