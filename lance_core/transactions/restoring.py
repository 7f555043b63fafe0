"""Handles restores that run concurrently with cleanups: the files of the restored version must exist and be kept.

A cleanup removes the files of a version before its manifest, and the new version that refers to the same files may not
exist yet when the cleanup reads the versions. Therefore, the restore places a hold on the version
(:meth:`~lance_core.table.version_log.VersionLog.hold`) before it checks the version's files, and keeps the hold until
the new version exists. Of a version's files, the cleanup removes the transaction file first, and then checks again for
holds. So either the cleanup sees the hold and keeps the version, or the restore sees that the transaction file no
longer exists. If a version never had a transaction file, a cleanup may already be removing the version: the restore
waits for as long as a batch of removals takes, and then checks the files.

Cleanups of other implementations do not follow this protocol. Therefore, the files are checked again once the new
version exists, and before anything else is committed on top of it. If files are missing, the writer of the restore
reverts it; this is no longer possible once other writers have committed on top of it. The files are checked by listing
each directory once; a request for every file would take longer than the restore itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.io.object_store import has_object
from lance_core.table.base_paths import FileLocator, Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["check_restore", "has_lost_files", "held"]

_CLEANUP_BATCH_SECONDS: Final = 2.0
"""Time to wait, in seconds. A cleanup checks for holds before each batch of removals, which usually takes less."""


def check_restore(log: VersionLog, version: int, storage_options: Mapping[str, str] | None) -> None:
    """Check that a version to restore can be read.

    Raises:
        VersionNotFoundError: the version does not exist.
        NotFoundError: a data or deletion file of the version is missing.
    """
    manifest = log.read_version(version)
    missing = _find_missing(log, manifest, storage_options)
    if missing is not None:
        raise NotFoundError(
            f"{log.uri}: version {version} cannot be restored: its file {missing} is missing",
            path=missing,
            version=version,
        )


@contextmanager
def held(log: VersionLog, version: int, wait: Callable[[float], None]) -> Iterator[None]:
    """Keep cleanups of this library from removing a version that is being restored.

    Args:
        log: the table's versions.
        version: the number of the version; a version that does not exist is not held.
        wait: a function that sleeps for the given number of seconds.

    Raises:
        StorageError: a storage operation failed.
    """
    try:
        name = log.read_version(version).message.transaction_file
    except VersionNotFoundError:
        yield
        return
    with log.hold(version):
        if not name or not has_object(log.store, log.transaction_path(name)):
            wait(_CLEANUP_BATCH_SECONDS)
        yield


def has_lost_files(log: VersionLog, made: Manifest, storage_options: Mapping[str, str] | None) -> bool:
    """Return whether a version that was created by a restore refers to files that no longer exist.

    Args:
        log: the table's versions.
        made: the version that the restore created.
        storage_options: options for the stores of base paths.

    Raises:
        StorageError: it cannot be determined whether files are missing.
    """
    return _find_missing(log, made, storage_options) is not None


def _find_missing(log: VersionLog, manifest: Manifest, storage_options: Mapping[str, str] | None) -> str | None:
    """Return the first missing data or deletion file of a version, as text for messages; None if none is missing."""
    locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
    listed: dict[tuple[int | None, str], set[str]] = {}
    for base_id, location in _files(manifest, locator):
        directory, _, name = location.path.rpartition("/")
        if (base_id, directory) not in listed:
            listed[base_id, directory] = set(location.store.list_names(directory))
        # A file may have been written since the listing.
        if name not in listed[base_id, directory] and not has_object(location.store, location.path):
            return location.uri
    return None


def _files(manifest: Manifest, locator: FileLocator) -> Iterator[tuple[int | None, Location]]:
    for fragment in manifest.fragments:
        for file in fragment.files:
            yield file.base_id, locator.data_file(file)
        if fragment.deletion_file is not None:
            yield fragment.deletion_file.base_id, locator.deletion_file(fragment.id, fragment.deletion_file)
