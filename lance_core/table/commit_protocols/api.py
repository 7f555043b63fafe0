"""CommitProtocol: decides which of several concurrent writers creates a version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore, PutOutcome
    from lance_core.table.paths import ManifestName

__all__ = ["CommitProtocol", "VersionPlaces"]


class VersionPlaces(Protocol):
    """The location of a table's versions."""

    @property
    def store(self) -> ObjectStore:
        """The store of the table."""
        ...

    @property
    def root(self) -> str:
        """Path of the table in the store."""
        ...

    @property
    def uri(self) -> str:
        """The location of the table, as shown in messages."""
        ...

    def path(self, name: ManifestName) -> str:
        """Return the path of a version's manifest."""
        ...


class CommitProtocol(Protocol):
    """Decides which writer creates a version.

    The first four methods handle versions that do not appear in a listing of the store, or do not appear yet. Their
    default implementations assume that there are no such versions.
    """

    def latest(self, places: VersionPlaces) -> ManifestName | None:
        """Return the latest version, after finishing its commit if needed; None if it must be determined by listing."""
        return None

    def recover(self, places: VersionPlaces, name: ManifestName) -> bool:
        """If the commit of a missing manifest is pending, finish it. Return True if the manifest now exists."""
        return False

    def has_abandoned(self, places: VersionPlaces, name: ManifestName, path: str) -> bool:
        """Return whether the staged manifest at a path below the root will never be published; False if unknown."""
        return False

    def adopt(self, places: VersionPlaces, name: ManifestName, newest: Callable[[], ManifestName | None]) -> None:
        """Register a version that was created without this protocol.

        Args:
            places: the location of the table.
            name: the name of the existing version.
            newest: function that returns the newest listed version.
        """
        return

    def require(self, places: VersionPlaces) -> None:
        """Check that versions can be created, before anything is written.

        Raises:
            UnsafeStoreError: the store cannot create a file atomically, so that two writers could both succeed.
            StorageError: it could not be determined whether creation is atomic.
        """
        ...

    def create_file(self, places: VersionPlaces, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create a file that is not a version, unless it exists; raises the same errors as :meth:`create`."""
        ...

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes, depends_on: Collection[str]) -> PutOutcome:
        """Create a version unless it exists. If several writers do this concurrently, only one gets ``CREATED``.

        Args:
            places: the location of the table.
            name: the name of the manifest.
            data: the manifest.
            depends_on: files that the manifest refers to and that must be made durable before it is created.

        Raises:
            UnsafeStoreError: the store cannot create a file atomically, so that two writers could both succeed.
            StorageError: a storage operation failed; the caller must check whether the version exists.
        """
        ...
