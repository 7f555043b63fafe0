"""Session: what was found out about files is kept for readers that come later, within a budget of bytes.

An open data file is its footer, the metadata of its columns, and what reading its rows told about their pages (chunk
directories, dictionaries). None of it changes, as no writer changes a data file: it is shared by any number of scans
and threads. A file is known by its store, its path and its recorded size.

A session is handed to whatever opens files. :data:`UNCACHED` keeps nothing, and is what everybody uses who has none.
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
    """What an open data file is known by. A store is equal to itself only; while its key is kept, so is the store."""

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
    """Caches with one budget. Safe for use by several threads.

    Args:
        max_bytes: what everything that is kept may hold, about; 0 = nothing is kept. Mappings of local files do not
            count.
    """

    def __init__(self, max_bytes: int) -> None:
        """Nothing is kept yet."""
        self._cache: ByteCache[Hashable, Any] = ByteCache(max_bytes)

    @property
    def max_bytes(self) -> int:
        """What everything that is kept may hold."""
        return self._cache.max_bytes

    @property
    def num_bytes(self) -> int:
        """What everything that is kept holds, about."""
        return self._cache.num_bytes

    def open_file(
        self, store: ObjectStore, path: str, *, num_bytes: int | None, field_ids: Sequence[int] | None = None
    ) -> FileReader:
        """An open data file; the one that is kept, if there is one. A file of unknown size is opened anew every time.

        Args:
            store: where it is.
            path: its path in the store.
            num_bytes: its size as the manifest records it; None = not known.
            field_ids: ids of its fields as the manifest records them.

        Raises:
            NotFoundError: there is no such file.
            CorruptDataError: the file is not a data file, or is damaged.
            UnsupportedVersionError: a version that is not read here.
            NotSupportedError: the schema has a field that is not handled here.
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
"""Keeps nothing."""
