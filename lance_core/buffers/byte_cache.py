"""A cache with a size limit in bytes. The least recently used entry is evicted first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from lance_core.buffers.fork_lock import fork_lock

__all__ = ["ByteCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_lock: Final = fork_lock()
"""Lock shared by all caches; held only briefly. A fork first acquires the lock, so that the caches stay consistent."""


class ByteCache(Generic[K, V]):
    """A cache of values, accessed by key. Several threads can use it concurrently.

    Args:
        max_bytes: maximum total size of all values in bytes; a value that is larger than this is not stored.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create an empty cache."""
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    @property
    def max_bytes(self) -> int:
        """Maximum total size of all values in bytes."""
        return self._max_bytes

    @property
    def num_bytes(self) -> int:
        """Total size of all values in bytes."""
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
        """Store a value, and evict others if the size limit is exceeded; do nothing if the key is already cached."""
        with _lock:
            if key not in self._entries:
                self._store(key, value, num_bytes)

    def resize(self, key: K, value: V, num_bytes: int) -> None:
        """Record the current size of a cached value; do nothing if the key is not cached, or has another value."""
        with _lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0] is value:
                del self._entries[key]
                self._num_bytes -= entry[1]
                self._store(key, value, num_bytes)

    def _store(self, key: K, value: V, num_bytes: int) -> None:
        """Store a value under a new key. The caller holds the lock."""
        if num_bytes > self._max_bytes:
            return
        self._entries[key] = (value, num_bytes)
        self._num_bytes += num_bytes
        while self._num_bytes > self._max_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self._num_bytes -= freed
