"""Session: caches information about open files for later readers, up to a size limit.

The cached information about a data file consists of its footer, the metadata of its columns, and the page information
found while reading rows (chunk directories, offsets, dictionaries). The rows that deletion files list and the indices
of stable row ids are cached too; everything shares one size limit. Rows of data files are not cached, and a cached file
has neither an open file descriptor nor a memory mapping. Any number of scans and threads can share a session.
Manifests are not cached: every handle has the manifest of its version, and a table that was removed and created again
uses the same names for different manifests.

Data files never change, and their names are random, so cached information about a file does not become outdated. If a
file is removed, reading its rows fails as it does without a cache. Functions that check whether files exist or are
damaged must use :data:`UNCACHED`.

A file is identified by its store, its path, its recorded size, if any, and its recorded field ids. Stores of the same
kind and with the same settings, including credentials, are the same store; any other store is only equal to itself.

Source: names and arguments of ``lance.Session`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lance_core.absent import PylanceClass
from lance_core.buffers.byte_cache import ByteCache
from lance_core.errors import InvalidTypeError
from lance_core.file.file_arguments import size_in_bytes
from lance_core.file.page_cache import PageCache
from lance_core.file.reader import FileReader
from lance_core.io.io_counters import IOCounters, counters_of, share_counters

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lance_core.io.object_store import ObjectStore

__all__ = ["UNCACHED", "Session", "checked_session", "key_of"]

_METADATA_BYTES: Final = 64 * 1024 * 1024
"""Default size limit of the cache for metadata, in bytes."""

_DELETED_ROWS_BYTES: Final = 500
"""Approximate memory in bytes of a cached deletion file, without its rows."""


_INDEX_BYTES: Final = 500
"""Approximate memory in bytes of a cached row-id index, without its content."""


class _Itself:
    """Represents a store that is equal only to itself, and keeps the store alive."""

    __slots__ = ("_store",)

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self._store is other._store

    def __hash__(self) -> int:
        return id(self._store)


class Session(PylanceClass):
    """Cache for open data files and their page information. Safe for concurrent use by several threads.

    Every dataset handle has a session, which its versions and the handles derived from it share. Pass a session to
    ``dataset`` to share it among handles that are opened separately. A pickled session is empty when it is unpickled.

    Args:
        index_cache_size_bytes: has no effect, because indices are not searched. The indices of stable row ids count as
            metadata.
        metadata_cache_size_bytes: approximate maximum size of the cache in bytes; 0 to cache nothing; if None, 64 MiB.

    Raises:
        InvalidTypeError: a size is not a whole number.
        InvalidInputError: a size is negative.
    """

    def __init__(self, index_cache_size_bytes: int | None = None, metadata_cache_size_bytes: int | None = None) -> None:
        """Create an empty session."""
        size_in_bytes("index_cache_size_bytes", index_cache_size_bytes)
        max_bytes = size_in_bytes("metadata_cache_size_bytes", metadata_cache_size_bytes)
        self._cache: ByteCache[Hashable, Any] = ByteCache(_METADATA_BYTES if max_bytes is None else max_bytes)
        self._counters: dict[Hashable, IOCounters] = {}

    def __repr__(self) -> str:
        """Return a representation with the current sizes of the caches."""
        return f"Session(index_cache_size_bytes=0, metadata_cache_size_bytes={self.size_bytes()})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the size limit."""
        return Session, (None, self._cache.max_bytes)

    @property
    def max_bytes(self) -> int:
        """Approximate maximum size of the cache in bytes."""
        return self._cache.max_bytes

    def size_bytes(self) -> int:
        """Return the approximate current size of the cache in bytes."""
        return self._cache.num_bytes

    def index_cache_size_bytes(self) -> int:
        """Return 0: indices are not searched, so no index is cached."""
        return 0

    def is_same_as(self, other: Session) -> bool:
        """Return whether the other session uses the same cache."""
        return self._cache is other._cache

    def share_counters(self, store: ObjectStore) -> None:
        """Make a store use the same counters as all equal stores of this session."""
        share_counters(store, self._counters.setdefault(key_of(store), counters_of(store)))

    def open_file(
        self, store: ObjectStore, path: str, *, num_bytes: int | None, field_ids: Sequence[int] | None = None
    ) -> FileReader:
        """Open a data file, or return the cached reader.

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
        if not self.max_bytes:
            return FileReader.open(store, path, num_bytes=num_bytes, field_ids=field_ids)
        key = _file_key(store, path, num_bytes, field_ids)
        kept: FileReader | None = self._cache.get(key)
        if kept is not None:
            # The first reader of a small file had all of its rows in memory; later readers request them.
            kept.release_rows()
            return kept
        states: PageCache[Any] = PageCache(self._cache, key)
        opened = FileReader.open(store, path, num_bytes=num_bytes, field_ids=field_ids, page_states=states)
        if not opened.is_in_memory:
            opened.release_rows()
        self._cache.put(key, opened, opened.memory)
        return opened

    def keeps_file(
        self, store: ObjectStore, path: str, *, num_bytes: int | None, field_ids: Sequence[int] | None = None
    ) -> bool:
        """Return whether :meth:`open_file` would return a cached reader, without a request."""
        return self._cache.get(_file_key(store, path, num_bytes, field_ids)) is not None

    def deleted_rows(self, store: ObjectStore, path: str) -> NDArray[np.uint32] | None:
        """Return the cached rows that a deletion file of a store lists; None if they are not cached."""
        return self._cache.get((key_of(store), path))

    def keep_deleted_rows(self, store: ObjectStore, path: str, rows: NDArray[np.uint32]) -> None:
        """Cache the rows that a deletion file of a store lists."""
        self._cache.put((key_of(store), path), rows, rows.nbytes + _DELETED_ROWS_BYTES)

    def row_id_index(self, version: Hashable) -> Any:
        """Return the cached index of the stable row ids of a version; None if it is not cached.

        Args:
            version: identifies the version, even if the table was removed and created again.
        """
        return self._cache.get(("row ids", version))

    def keep_row_id_index(self, version: Hashable, index: object, num_bytes: int) -> None:
        """Cache the index of the stable row ids of a version; the index uses about ``num_bytes`` bytes."""
        self._cache.put(("row ids", version), index, num_bytes + _INDEX_BYTES)


def _file_key(store: ObjectStore, path: str, num_bytes: int | None, field_ids: Sequence[int] | None) -> Hashable:
    return key_of(store), path, num_bytes, None if field_ids is None else tuple(field_ids)


def key_of(store: ObjectStore) -> Hashable:
    """Return a key that identifies a store."""
    return getattr(store, "identity", None) or _Itself(store)


UNCACHED: Final = Session(metadata_cache_size_bytes=0)
"""A session that caches nothing."""


def checked_session(session: object) -> Session | None:
    """Return an optional argument after checking that it is a session.

    Raises:
        InvalidTypeError: the argument is neither a session nor None.
    """
    if session is not None and not isinstance(session, Session):
        raise InvalidTypeError(f"session must be a Session, found {type(session).__name__}", argument="session")
    return session
