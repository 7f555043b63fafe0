"""Finds the files of a version that are missing from its base paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_core.table.base_paths import Location
from lance_core.table.data_file import DataFile
from lance_core.table.deletion_file import DeletionFile
from lance_core.table.index_directories import index_directories
from lance_core.table.index_rules import decode_index_section

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lance_core.io.object_store import ObjectStore
    from lance_core.table.base_paths import FileLocator
    from lance_core.table.manifest import Manifest

__all__ = ["missing_from_bases"]


def missing_from_bases(manifest: Manifest, locator: FileLocator, base_ids: Collection[int]) -> list[str]:
    """Return the URIs of the files of a version that should be below base paths, but do not exist.

    The directories are listed, so that the number of requests does not grow with the number of files. Files of indices
    are included only if the manifest lists them.

    Args:
        manifest: the version.
        locator: locates its files.
        base_ids: the ids of the base paths.

    Raises:
        CorruptDataError: a base path or the path of a file is invalid.
        StorageError: a storage operation failed.
    """
    expected: dict[tuple[int, str], tuple[ObjectStore, set[str]]] = {}
    for base_id, place in _files(manifest, locator, base_ids):
        directory, _, name = place.path.rpartition("/")
        expected.setdefault((base_id, directory), (place.store, set()))[1].add(name)
    missing: list[str] = []
    for (_, directory), (store, names) in expected.items():
        names.difference_update(store.list_names(directory))
        missing.extend(Location(store, store.join(directory, name)).uri for name in sorted(names))
    return missing


def _files(manifest: Manifest, locator: FileLocator, base_ids: Collection[int]) -> Iterator[tuple[int, Location]]:
    for fragment in manifest.message.fragments:
        for each in (*fragment.files, *(overlay.data_file for overlay in fragment.overlays)):
            file = DataFile.from_proto(each)
            if file.base_id is not None and file.base_id in base_ids:
                yield file.base_id, locator.data_file(file)
        if fragment.HasField("deletion_file"):
            deletion = DeletionFile.from_proto(fragment.deletion_file)
            if deletion.base_id is not None and deletion.base_id in base_ids:
                yield deletion.base_id, locator.deletion_file(fragment.id, deletion)
    section = manifest.index_section
    for (name, base_id), index in zip(index_directories(section).items(), decode_index_section(section), strict=True):
        if base_id is not None and base_id in base_ids:
            directory = locator.index_directory(name, base_id)
            for listed in index.files:
                yield base_id, Location(directory.store, directory.store.join(directory.path, listed.path))
