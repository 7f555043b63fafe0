"""ConditionalCreate: the store itself lets one writer create a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import UnsafeStoreError

if TYPE_CHECKING:
    from lance_core.io.object_store import PutOutcome
    from lance_core.table.commit_protocols.api import VersionPlaces
    from lance_core.table.paths import ManifestName

__all__ = ["ConditionalCreate"]


class ConditionalCreate:
    """One ``put_if_absent`` for each attempt: a link on local disks, a conditional PUT on object stores."""

    def latest(self, places: VersionPlaces) -> ManifestName | None:
        """Only the listing tells."""
        return None

    def recover(self, places: VersionPlaces, name: ManifestName) -> bool:
        """A manifest that is not there was not made."""
        return False

    def has_abandoned(self, places: VersionPlaces, name: ManifestName, path: str) -> bool:
        """A manifest store that is not known here may have a row of it."""
        return False

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes) -> PutOutcome:
        """Create the manifest unless one of that name exists."""
        if not places.store.capabilities.atomic_create:
            raise UnsafeStoreError(
                f"{places.root}: the store cannot create files atomically; commits are not safe", path=places.root
            )
        return places.store.put_if_absent(places.path(name), data)
