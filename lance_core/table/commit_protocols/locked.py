"""LockedCreate: the caller's lock excludes other writers while a manifest is checked and written.

This protocol is for stores without a conditional create. The lock is a callable that takes the version and returns a
context manager; it may raise ``CommitConflictError`` if another writer has locked or created that version. The context
manager's ``__exit__`` receives an exception if another writer was faster, and no exception after a commit.

Every writer of the table must use the same lock; writers that do not use it are not detected.

Source: ``commit_lock`` of pylance 14.0.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import CommitConflictError, InvalidTypeError, LanceError, StorageError
from lance_core.io.object_store import PutOutcome, has_object
from lance_core.table.commit_protocols.api import CommitProtocol
from lance_core.table.commit_protocols.other_files import create_other_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from lance_core.table.commit_protocols.api import VersionPlaces
    from lance_core.table.paths import ManifestName

__all__ = ["LockedCreate"]


class LockedCreate(CommitProtocol):
    """Creates versions while holding a lock.

    Args:
        lock: a function that takes the version and returns a context manager.

    Raises:
        InvalidTypeError: the lock is not callable.
    """

    def __init__(self, lock: Callable[[int], AbstractContextManager[object]]) -> None:
        """Initialize without locking anything."""
        if not callable(lock):
            raise InvalidTypeError(f"commit_lock must be callable, found {type(lock).__name__}", argument="commit_lock")
        self._lock = lock

    def require(self, places: VersionPlaces) -> None:
        """Do nothing: the lock decides, so the object store needs no conditional create."""

    def create_file(self, places: VersionPlaces, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create the file unless it exists, with the guarantees that the object store provides."""
        return create_other_file(places.store, path, data)

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes, depends_on: Collection[str]) -> PutOutcome:
        """Acquire the lock, check that the version does not exist, and create it."""
        path = places.path(name)
        outcome = PutOutcome.EXISTS
        try:
            with self._lock(name.version):
                if has_object(places.store, path):
                    # Raised so that the lock's __exit__ receives it; caught below, unless the lock suppresses it.
                    raise CommitConflictError(
                        f"version {name.version} of {places.uri} already exists", version=name.version
                    )
                places.store.put(path, data, depends_on=depends_on)
                outcome = PutOutcome.CREATED
        except CommitConflictError:
            outcome = PutOutcome.EXISTS
        except LanceError:
            raise
        except Exception as error:
            raise StorageError(
                f"{places.uri}: the commit_lock for version {name.version} failed: {type(error).__name__}: {error}",
                path=path,
            ) from error
        return outcome
