"""What is looked at before an old version is made the latest again: whether its files are still there.

A cleanup removes the files of a version before its manifest, and another implementation may bring a manifest back whose
files are gone. Names are listed once for each directory; asking for every file would take longer than the restore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.errors import NotFoundError
from lance_core.table.base_paths import FileLocator
from lance_core.transactions.operations.restore import Restore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_core.table.base_paths import Location
    from lance_core.table.manifest import Manifest
    from lance_core.table.version_log import VersionLog

__all__ = ["check_restore"]


def check_restore(log: VersionLog, operation: object, storage_options: Mapping[str, str] | None) -> None:
    """Refuse to restore a version that cannot be read; without effect for another operation.

    Raises:
        VersionNotFoundError: there is no such version.
        NotFoundError: a data or deletion file of the version is missing.
    """
    if not isinstance(operation, Restore):
        return
    manifest = log.read_version(operation.version)
    locator = FileLocator(log.store, log.root, manifest.base_paths, storage_options)
    listed: dict[tuple[int | None, str], set[str]] = {}
    for base_id, location in _files(manifest, locator):
        directory, _, name = location.path.rpartition("/")
        if (base_id, directory) not in listed:
            listed[base_id, directory] = set(location.store.list_names(directory))
        if name not in listed[base_id, directory] and not _exists(location):
            raise NotFoundError(
                f"{log.root}: version {operation.version} cannot be restored: its file {location.path} is missing",
                path=location.path,
                version=operation.version,
            )


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
