"""PageCache: caches information about the pages of one file, in a separate cache or in one that several files share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import ref

from lance_core.buffers.byte_cache import ByteCache

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["PageCache"]

V = TypeVar("V")

_MAX_BYTES: Final = 32 * 1024 * 1024
"""Size limit in bytes of the cache for a file that is opened without a shared cache."""

_ENTRY_BYTES: Final = 400
"""Approximate memory in bytes of a cache entry without its value: the key and the cache's bookkeeping."""


class PageCache(Generic[V]):
    """Caches information about pages, keyed by (column, page). Safe for concurrent use by several threads.

    Args:
        shared: cache that stores the values; None for a separate cache of 32 MiB. A shared cache contains the open
            files, which refer to this object. This object therefore has only a weak reference to the cache, which
            avoids a reference cycle: when a session is discarded, its cache and the open files in the cache are freed
            immediately. From then on, this object caches nothing.
        owner: identifies the file in a shared cache.
    """

    __slots__ = ("_cache", "_owner", "_separate")

    def __init__(self, shared: ByteCache[Hashable, Any] | None = None, owner: Hashable = None) -> None:
        """Create an empty cache."""
        self._separate: ByteCache[Hashable, Any] | None = ByteCache(_MAX_BYTES) if shared is None else None
        self._cache = ref(self._separate if shared is None else shared)
        self._owner = owner

    @property
    def owner(self) -> Hashable:
        """The key that identifies the file in a shared cache; None if the cache is separate."""
        return self._owner

    def get(self, key: Hashable) -> V | None:
        """Return a value and mark it as recently used; None if the key is not cached."""
        cache = self._cache()
        return None if cache is None else cast("V | None", cache.get((self._owner, key)))

    def put(self, key: Hashable, value: V, num_bytes: int) -> None:
        """Store a value, evicting other values if the cache is full."""
        cache = self._cache()
        if cache is not None:
            cache.put((self._owner, key), value, num_bytes + _ENTRY_BYTES)

    def resize(self, key: Hashable, value: V, num_bytes: int) -> None:
        """Record the current size of a value, and store the value unless the key has another value."""
        cache = self._cache()
        if cache is not None:
            cache.put((self._owner, key), value, num_bytes + _ENTRY_BYTES)
            cache.resize((self._owner, key), value, num_bytes + _ENTRY_BYTES)

    def resize_owner(self, owner: object, num_bytes: int) -> None:
        """Record the current size of the open file, if a shared cache stores it under the key of the owner."""
        cache = self._cache()
        if cache is not None:
            cache.resize(self._owner, owner, num_bytes)
