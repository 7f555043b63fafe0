"""ExternalCommit: an external manifest store decides which writer creates a version; then the manifest is written.

::

    writer   S1  put   {final}-{uuid}                      not visible
             S2  row   version -> {final}-{uuid}, if absent  the version is decided: RESERVED
             S3  put   {final}                              readable by all: MATERIALIZED
             S4  row   version -> {final}                   FINAL
             S5  delete {final}-{uuid}

    reader   reads the row; if the row is not final, performs S3 to S5 on behalf of the writer

Exactly one writer succeeds in S2. A writer that loses removes its staged object, to which no row refers. It also
finishes the winner's commit, so that it can read the winner's version and compare it with its own. Any process can
perform S3 to S5, any number of times, because the bytes are always the same. The staged object is removed only when the
row no longer refers to it. If S2 gets no response, nothing is removed: reading the version back finds the row, finishes
the commit, and determines which writer created the version.

If the manifest store has no rows for a table, the table was created without it, and its versions are found by listing.
Opening one of these versions by its number inserts the row of that version.

Source: commit protocol of pylance 14.0.2 with an external manifest store. The reference
implementation copies the staged object in S3; this library writes the same bytes again.
"""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_core.errors import CorruptDataError, LanceError, NotFoundError
from lance_core.io.object_store import PutOutcome, has_object
from lance_core.table.commit_protocols.other_files import create_other_file
from lance_core.table.manifest_stores.api import ManifestRow
from lance_core.table.paths import VERSIONS_DIRECTORY, ManifestName, parse_manifest_name
from lance_core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import pyarrow as pa

    from lance_core.table.commit_protocols.api import VersionPlaces
    from lance_core.table.manifest_stores.api import ManifestStore

__all__ = ["ExternalCommit"]

_logger: Final = logging.getLogger(__name__)
_ENDING: Final = ".manifest"


class ExternalCommit:
    """Commits through an external manifest store.

    Args:
        manifests: the external manifest store.
    """

    def __init__(self, manifests: ManifestStore) -> None:
        """Initialize without sending a request."""
        self._manifests = manifests

    def latest(self, places: VersionPlaces) -> ManifestName | None:
        """Return the highest version that has a row, after finishing its commit; None if no version has one."""
        row = self._manifests.latest(places.root)
        return None if row is None else self._finished(places, row)

    def recover(self, places: VersionPlaces, name: ManifestName) -> bool:
        """Finish the commit of a version whose row is not final."""
        row = self._manifests.find(places.root, name.version)
        if row is None or row.path.endswith(_ENDING) or _name_of(row) != name:
            return False
        self._finished(places, row)
        return True

    def has_abandoned(self, places: VersionPlaces, name: ManifestName, path: str) -> bool:
        """Return whether the row of the version refers to another path or does not exist."""
        row = self._manifests.find(places.root, name.version)
        return row is None or row.path != path

    def adopt(self, places: VersionPlaces, name: ManifestName, newest: Callable[[], ManifestName | None]) -> None:
        """Insert the row of a version that was created without the manifest store.

        The reference implementation also does this when it opens such a version, but it inserts only the row of the
        opened version. The row with the highest version counts as the latest, so the table would then appear to be at
        an older version. This method therefore inserts the row of the newest version first. Failures are ignored.
        """
        with suppress(LanceError):
            if self._manifests.find(places.root, name.version) is not None:
                return
            highest = self._manifests.latest(places.root)
            listed = newest() if highest is None or highest.version < name.version else None
            for each in (listed, name) if listed is not None and listed != name else (name,):
                num_bytes = places.store.head(places.path(each)).num_bytes
                self._manifests.reserve(places.root, ManifestRow(each.version, _relative(places, each), num_bytes))

    def require(self, places: VersionPlaces) -> None:
        """Do nothing: the manifest store decides, so the object store needs no conditional create."""

    def create_file(self, places: VersionPlaces, path: str, data: pa.Buffer | bytes) -> PutOutcome:
        """Create the file unless it exists, with the guarantees that the object store provides."""
        return create_other_file(places.store, path, data)

    def create(self, places: VersionPlaces, name: ManifestName, data: bytes, depends_on: Collection[str]) -> PutOutcome:
        """Create the version in steps S1 to S5."""
        staged = ManifestRow(name.version, f"{_relative(places, name)}-{uuid.uuid4()}", len(data))
        places.store.put(_path_of(places, staged), data, depends_on=depends_on)
        if not self._manifests.reserve(places.root, staged):
            winner = self._manifests.find(places.root, name.version)
            if winner is None or winner.path != staged.path:
                self._concede(places, staged, winner)
                return PutOutcome.EXISTS
        self._publish(places, name, staged, data)
        return PutOutcome.CREATED

    def lost_version(self, places: VersionPlaces) -> ManifestRow | None:
        """Return the row of the highest version if neither its staged object nor its manifest exists."""
        row = self._manifests.latest(places.root)
        if row is None or row.path.endswith(_ENDING):
            return None
        if any(has_object(places.store, path) for path in (_path_of(places, row), places.path(_name_of(row)))):
            return None
        # Another process may have finished it in the meantime.
        return row if self._manifests.find(places.root, row.version) == row else None

    def withdraw(self, places: VersionPlaces, version: int) -> None:
        """Remove the row of ``version`` if this is the highest version and :meth:`lost_version` returns its row."""
        row = self.lost_version(places)
        if row is not None and row.version == version:
            self._manifests.withdraw(places.root, row)

    def knows(self, places: VersionPlaces) -> bool:
        """Return whether the manifest store has at least one row for the table, final or not."""
        return self._manifests.latest(places.root) is not None

    def forget(self, places: VersionPlaces) -> None:
        """Remove the manifest store's rows for a table whose files have been removed."""
        self._manifests.forget(places.root)

    def _concede(self, places: VersionPlaces, staged: ManifestRow, winner: ManifestRow | None) -> None:
        """Remove the object staged for a version that another writer created, and finish that writer's commit."""
        with suppress(LanceError):
            places.store.delete(_path_of(places, staged))
        if winner is not None:
            # Reading the version back tries again and reports the error.
            with suppress(LanceError):
                self._finished(places, winner)

    def _finished(self, places: VersionPlaces, row: ManifestRow) -> ManifestName:
        """Return the name of a row's version, after performing S3 to S5 if needed."""
        name = _name_of(row)
        if row.path.endswith(_ENDING):
            return name
        try:
            data = bytes(places.store.get(_path_of(places, row)))
        except NotFoundError as error:
            return self._finished_by_another(places, row, error)
        if row.num_bytes and len(data) != row.num_bytes:
            raise CorruptDataError(
                f"{places.uri}: the staged manifest of version {row.version} has {counted(len(data), 'byte')}, but the "
                f"external manifest store records {row.num_bytes}",
                path=_path_of(places, row),
                expected=row.num_bytes,
                found=len(data),
            )
        _logger.debug("%s: completing the interrupted commit of version %d", places.root, row.version)
        self._publish(places, name, row, data)
        return name

    def _finished_by_another(self, places: VersionPlaces, row: ManifestRow, error: NotFoundError) -> ManifestName:
        """Return the name of a version without a staged object if another process has finished its commit."""
        again = self._manifests.find(places.root, row.version)
        if again is not None and again.path.endswith(_ENDING):
            return _name_of(again)
        if has_object(places.store, places.path(_name_of(row))):
            # A cleanup of another implementation removed the staged object after S3.
            name = _name_of(row)
            num_bytes = places.store.head(places.path(name)).num_bytes
            with suppress(LanceError):
                self._manifests.finish(places.root, ManifestRow(name.version, _relative(places, name), num_bytes))
            return name
        raise CorruptDataError(
            f"{places.uri}: version {row.version} is reserved in the external manifest store, but its staged "
            f"manifest {row.path} is missing; delete the row of this version from the store to return to the previous "
            "version",
            path=_path_of(places, row),
            version=row.version,
        ) from error

    def _publish(self, places: VersionPlaces, name: ManifestName, staged: ManifestRow, data: bytes) -> None:
        """Perform S3 to S5; only S3 must succeed.

        If S4 fails, a later reader of the row repeats S3 to S5. If only S5 fails, the staged object remains until a
        cleanup removes it.
        """
        places.store.put(places.path(name), data)
        with suppress(LanceError):
            self._manifests.finish(places.root, ManifestRow(name.version, _relative(places, name), len(data)))
            places.store.delete(_path_of(places, staged))


def _relative(places: VersionPlaces, name: ManifestName) -> str:
    file_name = places.path(name).rpartition("/")[2]
    return f"{VERSIONS_DIRECTORY}/{file_name}"


def _path_of(places: VersionPlaces, row: ManifestRow) -> str:
    return places.store.join(places.root, row.path)


def _name_of(row: ManifestRow) -> ManifestName:
    """Parse the path in a row. Raises ``CorruptDataError`` if it is not the path of a manifest of the row's version."""
    directory, _, file_name = row.path.partition("/")
    final, ending, _ = file_name.partition(_ENDING)
    name = parse_manifest_name(final + ending)
    if directory != VERSIONS_DIRECTORY or "/" in file_name or name is None or name.version != row.version:
        raise CorruptDataError(
            f"the external manifest store's row for version {row.version} has the invalid path {row.path!r:.200}",
            version=row.version,
        )
    return name
