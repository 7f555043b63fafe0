"""PageCache: caches page information for one file, either in a separate cache or in one that several files share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from lance_core.buffers.byte_cache import ByteCache

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["PageCache"]

V = TypeVar("V")

_MAX_BYTES: Final = 32 * 1024 * 1024
"""Size limit in bytes of the cache for a file that is opened without a shared cache."""


class PageCache(Generic[V]):
    """Caches information about pages, keyed by (column, page). Safe for concurrent use by several threads.

    Args:
        shared: cache that stores the values; None for a separate cache of 32 MiB.
        owner: identifies the file in a shared cache.
    """

    __slots__ = ("_cache", "_owner")

    def __init__(self, shared: ByteCache[Hashable, Any] | None = None, owner: Hashable = None) -> None:
        """Create an empty cache."""
        self._cache: ByteCache[Hashable, Any] = ByteCache(_MAX_BYTES) if shared is None else shared
        self._owner = owner

    def get(self, key: tuple[int, int]) -> V | None:
        """Return a value and mark it as recently used; None if the key is not cached."""
        return cast("V | None", self._cache.get((self._owner, key)))

    def put(self, key: tuple[int, int], value: V, num_bytes: int) -> None:
        """Store a value, evicting other values if the cache is full."""
        self._cache.put((self._owner, key), value, num_bytes)
