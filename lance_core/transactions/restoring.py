"""Restores beside cleanups: whether the files of the version that becomes the latest again are there, and stay.

A cleanup removes the files of a version before its manifest, and another implementation may bring a manifest back whose
files are gone. It is looked at before a version is restored; after it was, since a cleanup may have been under way; and
before anything else is committed on top: the writer of the restore undoes it when files are gone, which it cannot do
once others have built on it. Names are listed once for each directory; asking for every file would take longer than the
restore.

The first file of a version that our cleanup removes is that of its transaction; then it looks for new versions. So when
that file, which was there before the restore was committed, is gone afterwards, the cleanup may not have seen the new
version, and the other files may go any moment. When it was missing before, one has to wait for as long as a batch of
removals takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError, VersionNotFoundError
from lance_core.table.base_paths import FileLocator, Location
from lance_core.transactions.history import transaction_path
from lance_core.transactions.operations.restore import Restore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["announcing_file", "check_restore", "has_lost_files", "is_going"]


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


def announcing_file(log: VersionLog, version: int) -> str | None:
    """The path of the file that a cleanup removes first of a version; None when it is not there.

    Raises:
        StorageError: it cannot be found out.
    """
    try:
        name = log.read_version(version).message.transaction_file
    except VersionNotFoundError:
        return None
    path = transaction_path(log, name)
    return path if name and _exists(Location(log.store, path)) else None


def is_going(log: VersionLog, announcing: str | None) -> bool:
    """Whether a cleanup has removed the file that :func:`announcing_file` found before.

    Raises:
        StorageError: it cannot be found out.
    """
    return announcing is not None and not _exists(Location(log.store, announcing))


def has_lost_files(log: VersionLog, made: Manifest, storage_options: Mapping[str, str] | None) -> bool:
    """Whether files are missing that a version names which restores another one.

    Args:
        log: the table's versions.
        made: the version that the restore made.
        storage_options: handed to the stores of base paths.

    Raises:
        StorageError: it cannot be found out.
    """
    return _find_missing(log, made, storage_options) is not None


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
