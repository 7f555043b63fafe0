"""Restores that run beside cleanups: ensures that the files of the restored version exist and are kept.

A cleanup removes the files of a version before its manifest, and the new version that names them is not there yet when
it looks. So the version is held (:meth:`~lance_core.table.version_log.VersionLog.hold`) before its files are looked at,
until the new version is there. Of the files of a version the cleanup removes that of the transaction first; then it
looks once more who holds it. So it either sees the holder and spares the version, or the holder sees that the
transaction file no longer exists. A version that had none before may be one whose turn has come: its holder waits for
as long as a batch of removals takes, and looks at the files then.

The cleanup of another implementation does not know this. So the files are looked at again when the new version is
there, and before anything else is committed on top: the writer of the restore undoes it when files are gone, which it
cannot do once others have built on it. Names are listed once for each directory; asking for every file would take
longer than the restore.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.table.base_paths import FileLocator, Location
from lance_core.transactions.history import transaction_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["check_restore", "has_lost_files", "held"]

_CLEANUP_BATCH_SECONDS: Final = 2.0
"""Longer than a cleanup takes for the files that it removes between two looks at what has come."""


def check_restore(log: VersionLog, version: int, storage_options: Mapping[str, str] | None) -> None:
    """Refuse to restore a version that cannot be read.

    Raises:
        VersionNotFoundError: there is no such version.
        NotFoundError: a data or deletion file of the version is missing.
    """
    manifest = log.read_version(version)
    missing = _find_missing(log, manifest, storage_options)
    if missing is not None:
        raise NotFoundError(
            f"{log.root}: version {version} cannot be restored: its file {missing} is missing",
            path=missing,
            version=version,
        )


@contextmanager
def held(log: VersionLog, version: int, wait: Callable[[float], None]) -> Iterator[None]:
    """Keep cleanups of this library away from a version that is to be restored.

    Args:
        log: the table's versions.
        version: which one; one that is not there is not held.
        wait: sleeps that many seconds.

    Raises:
        StorageError: a storage operation failed.
    """
    try:
        name = log.read_version(version).message.transaction_file
    except VersionNotFoundError:
        yield
        return
    with log.hold(version):
        if not name or not _exists(Location(log.store, transaction_path(log, name))):
            wait(_CLEANUP_BATCH_SECONDS)
        yield


def has_lost_files(log: VersionLog, made: Manifest, storage_options: Mapping[str, str] | None) -> bool:
    """Return whether files are missing that a version names which restores another one.

    Args:
        log: the table's versions.
        made: the version that the restore made.
        storage_options: handed to the stores of base paths.

    Raises:
        StorageError: it cannot be determined.
    """
    return _find_missing(log, made, storage_options) is not None


def _find_missing(log: VersionLog, manifest: Manifest, storage_options: Mapping[str, str] | None) -> str | None:
    """Return the path of a data or deletion file of a version that is missing."""
    locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
    listed: dict[tuple[int | None, str], set[str]] = {}
    for base_id, location in _files(manifest, locator):
        directory, _, name = location.path.rpartition("/")
        if (base_id, directory) not in listed:
            listed[base_id, directory] = set(location.store.list_names(directory))
        # A file may have been written since the listing.
        if name not in listed[base_id, directory] and not _exists(location):
            return location.path
    return None


def _files(manifest: Manifest, locator: FileLocator) -> Iterator[tuple[int | None, Location]]:
    for fragment in manifest.fragments:
        for file in fragment.files:
            yield file.base_id, locator.data_file(file)
        if fragment.deletion_file is not None:
            yield fragment.deletion_file.base_id, locator.deletion_file(fragment.id, fragment.deletion_file)


def _exists(location: Location) -> bool:
    try:
        location.store.head(location.path)
    except NotFoundError:
        return False
    return True
