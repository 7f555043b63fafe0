"""Restores beside cleanups: whether the files of the version that becomes the latest again are there.

A cleanup removes the files of a version before its manifest, and another implementation may bring a manifest back whose
files are gone. It is looked at before a version is restored; after it was, since a cleanup may have been under way; and
before anything else is committed on top: the writer of the restore undoes it when files are gone, which it cannot do
once others have built on it. Names are listed once for each directory; asking for every file would take longer than the
restore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.table.base_paths import FileLocator
from lance_core.transactions.operations.restore import Restore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.table.base_paths import Location
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["check_restore", "has_lost_files"]


def check_restore(log: VersionLog, operation: object, storage_options: Mapping[str, str] | None) -> None:
    """Refuse to restore a version that cannot be read; without effect for another operation.

    Raises:
        VersionNotFoundError: there is no such version.
        NotFoundError: a data or deletion file of the version is missing.
    """
    if not isinstance(operation, Restore):
        return
    manifest = log.read_version(operation.version)
    missing = _find_missing(log, manifest, storage_options)
    if missing is not None:
        raise NotFoundError(
            f"{log.root}: version {operation.version} cannot be restored: its file {missing} is missing",
            path=missing,
            version=operation.version,
        )


def has_lost_files(
    log: VersionLog, restored_version: int, made: Manifest, storage_options: Mapping[str, str] | None
) -> bool:
    """Whether a cleanup removed the version that a restore went back to, and with it files that the new one names.

    Args:
        log: the table's versions.
        restored_version: the version that was restored.
        made: the version that the restore made.
        storage_options: handed to the stores of base paths.

    Raises:
        StorageError: it cannot be found out.
    """
    try:
        log.manifest_bytes(restored_version)
    except VersionNotFoundError:
        return _find_missing(log, made, storage_options) is not None
    return False


def _find_missing(log: VersionLog, manifest: Manifest, storage_options: Mapping[str, str] | None) -> str | None:
    """The path of a data or deletion file of a version that is missing."""
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
