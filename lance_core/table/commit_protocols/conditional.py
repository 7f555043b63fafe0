"""ConditionalCreate: the store itself ensures that only one writer creates a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import UnsafeStoreError
from lance_core.io.condition_probe import ProbedStore
from lance_core.table.commit_protocols.api import CommitProtocol
from lance_core.table.paths import ManifestName, ManifestNaming

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from lance_core.io.object_store import PutOutcome
    from lance_core.table.commit_protocols.api import VersionPlaces

__all__ = ["ConditionalCreate"]


class ConditionalCreate(CommitProtocol):
    """Creates each file with one ``put_if_absent``: a link on local disks, a conditional PUT on object stores."""

    def require(self, places: VersionPlaces) -> None:
        """Test, once for each bucket and process, that the store supports conditional creates."""
        _require_atomic(places)
        if isinstance(places.store, ProbedStore):
            places.store.require_condition(places.path(ManifestName(1, ManifestNaming.V2)))

    def create_file(self, places: VersionPlaces, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create the file unless it exists."""
        return places.store.put_if_absent(path, data)

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes, depends_on: Collection[str]) -> PutOutcome:
        """Create the manifest unless one with that name exists."""
        _require_atomic(places)
        return places.store.put_if_absent(places.path(name), data, depends_on=depends_on)


def _require_atomic(places: VersionPlaces) -> None:
    if not places.store.capabilities.atomic_create:
        raise UnsafeStoreError(
            f"{places.uri}: the store cannot create files atomically, so commits are not safe", path=places.root
        )
