"""Session: caches information about open files for later readers, up to a size limit.

The cached information about a data file consists of its footer, the metadata of its columns, and the page information
found while reading rows (chunk directories, dictionaries). Data files never change, so any number of scans and threads
can share this information. A file is identified by its store, its path, its recorded size, and its recorded field ids.

A session is passed to functions that open files. The default, :data:`UNCACHED`, caches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_core.buffers.byte_cache import ByteCache
from lance_core.file.page_cache import PageCache
from lance_core.file.reader import FileReader

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from lance_core.io.object_store import ObjectStore

__all__ = ["UNCACHED", "Session"]


class _FileKey:
    """Identifies an open data file. A store is equal only to itself; the key keeps its store alive."""

    __slots__ = ("_hash", "_rest", "_store")

    def __init__(self, store: ObjectStore, path: str, num_bytes: int, field_ids: tuple[int, ...] | None) -> None:
        self._store = store
        self._rest = (path, num_bytes, field_ids)
        self._hash = hash((id(store), self._rest))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileKey) and self._store is other._store and self._rest == other._rest

    def __hash__(self) -> int:
        return self._hash


class Session:
    """Cache for open data files and their page information. Safe for concurrent use by several threads.

    Args:
        max_bytes: approximate maximum size of the cache in bytes; 0 to cache nothing. Memory-mapped local files are not
            included.
    """

    def __init__(self, max_bytes: int) -> None:
        """Create an empty session."""
        self._cache: ByteCache[Hashable, Any] = ByteCache(max_bytes)

    @property
    def max_bytes(self) -> int:
        """Approximate maximum size of the cache in bytes."""
        return self._cache.max_bytes

    @property
    def num_bytes(self) -> int:
        """Approximate current size of the cache in bytes."""
        return self._cache.num_bytes

    def open_file(
        self, store: ObjectStore, path: str, *, num_bytes: int | None, field_ids: Sequence[int] | None = None
    ) -> FileReader:
        """Open a data file, or return the cached reader. Files of unknown size are not cached.

        Args:
            store: the store that contains the file.
            path: path of the file in the store.
            num_bytes: size of the file in bytes, as recorded in the manifest; None if unknown.
            field_ids: ids of the file's fields as recorded in the manifest.

        Raises:
            NotFoundError: the file does not exist.
            CorruptDataError: the file is not a data file, or is damaged.
            UnsupportedVersionError: the file's format version is not supported.
            NotSupportedError: the schema has a field that this library does not support.
        """
        if num_bytes is None or not self.max_bytes:
            return FileReader.open(store, path, num_bytes=num_bytes, field_ids=field_ids)
        key = _FileKey(store, path, num_bytes, None if field_ids is None else tuple(field_ids))
        kept: FileReader | None = self._cache.get(key)
        if kept is not None:
            return kept
        states: PageCache[Any] = PageCache(self._cache, key)
        opened = FileReader.open(store, path, num_bytes=num_bytes, field_ids=field_ids, page_states=states)
        self._cache.put(key, opened, opened.memory)
        return opened


UNCACHED: Final = Session(max_bytes=0)
"""A session that caches nothing."""
