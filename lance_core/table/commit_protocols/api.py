"""The CommitProtocol: decides between concurrent writers for the version log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from lance_core.io.object_store import ObjectStore, PutOutcome
    from lance_core.table.paths import ManifestName

__all__ = ["CommitProtocol", "VersionPlaces"]


class VersionPlaces(Protocol):
    """Where a table's versions lie."""

    @property
    def store(self) -> ObjectStore:
        """The store of the table."""
        ...

    @property
    def root(self) -> str:
        """The table's path in the store."""
        ...

    def path(self, name: ManifestName) -> str:
        """Return the path of a version's manifest."""
        ...


class CommitProtocol(Protocol):
    """Decides who makes a version."""

    def latest(self, places: VersionPlaces) -> ManifestName | None:
        """Return the latest version, finished if its commit was not; None when only the listing tells."""
        ...

    def recover(self, places: VersionPlaces, name: ManifestName) -> bool:
        """Called when a manifest is not there: finish its commit if one is pending. True when it is there now."""
        ...

    def has_abandoned(self, places: VersionPlaces, name: ManifestName, path: str) -> bool:
        """Return whether a staged manifest will never be published, by its path below the root; False if unknown."""
        ...

    def adopt(self, places: VersionPlaces, name: ManifestName, newest: Callable[[], ManifestName | None]) -> None:
        """Take note of a version that was made in another way.

        Args:
            places: of the table.
            name: of the version, which exists.
            newest: the newest version that is listed.
        """
        ...

    def require(self, places: VersionPlaces) -> None:
        """Find out before anything is written whether versions can be made.

        Raises:
            UnsafeStoreError: the store cannot create a file atomically, so that two writers could both win.
            StorageError: it could not be determined.
        """
        ...

    def create_file(self, places: VersionPlaces, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create a file that is not a version unless it exists; raises as :meth:`create`."""
        ...

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes, depends_on: Collection[str]) -> PutOutcome:
        """Create a version unless it exists. One of several concurrent callers gets ``CREATED``.

        Args:
            places: where the table lies.
            name: of the manifest.
            data: the manifest.
            depends_on: files that it names and that have to be durable first.

        Raises:
            NotSupportedError: two writers could both win.
            StorageError: a storage operation failed; whether the version exists now has to be found out.
        """
        ...
